"""The cassette as a test uses it. Nothing else is imported before a test uses one."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidgen_async.cassette import Mode
    from vidgen_async.clock import Clock
    from vidgen_async.transports import RecordingTransport, ReplayTransport


@dataclass(frozen=True, eq=False, kw_only=True)
class VidgenCassette:
    """The cassette of this test: the value of the fixture ``vidgen_cassette``.

    A client of your own uses it as ``Client(cassette.api_key, base_url=cassette.base_url,
    transport=cassette.transport)``, and closes it. In a replay it must not have a durable journal.
    """

    path: Path
    """Its file, which exists after recording if the test passes."""
    mode: "Mode"
    """Replay, record or append; ``auto`` is resolved to one of them."""
    transport: "ReplayTransport | RecordingTransport"
    """Replays or records. In a replay it has ``played``, ``unused`` and ``misses``, and uses no network."""
    base_url: str
    """The base URL of the recorded service."""
    api_key: str = field(repr=False)
    """The API key of the recorded service; in a replay, an arbitrary one."""
    clock: "Clock"
    """Virtual in a replay: an hour of polls takes milliseconds."""
