"""What a test sees of its cassette. No run of pytest loads more than this for it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidgen_async.cassette import Mode
    from vidgen_async.clock import Clock
    from vidgen_async.transports import RecordingTransport, ReplayTransport


@dataclass(frozen=True, eq=False, kw_only=True)
class VidgenCassette:
    """The cassette of this test: what the fixture ``vidgen_cassette`` gives.

    A client of your own is on it with ``Client(cassette.api_key, base_url=cassette.base_url,
    transport=cassette.transport)``, and closes it. In a replay it may not have a journal that lasts.
    """

    path: Path
    """Where it is, or will be if the test passes."""
    mode: "Mode"
    """What is done with it: replay, record or append (``auto`` has become one of them)."""
    transport: "ReplayTransport | RecordingTransport"
    """Plays or records. In a replay it has ``played``, ``unused`` and ``misses``, and no network."""
    base_url: str
    """Of the recorded service; while recording, of the one that is recorded."""
    api_key: str = field(repr=False)
    """Of the service that is recorded; in a replay any will do, and this is one."""
    clock: "Clock"
    """Virtual in a replay: an hour of polls takes milliseconds."""
