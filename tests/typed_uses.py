"""How tests of users use the pytest plugin. It is only type-checked, as ``packaging/user_project/uses.py``."""

from pathlib import Path
from typing import assert_type

from vidgen_async import Client
from vidgen_async.cassette import Mode
from vidgen_async.clock import Clock
from vidgen_async.pytest_plugin import VidgenCassette
from vidgen_async.transports import RecordingTransport, ReplayTransport


async def on_a_cassette(vidgen_cassette: VidgenCassette, vidgen_client: Client) -> None:
    assert_type(vidgen_cassette.mode, Mode)
    assert_type(vidgen_cassette.path, Path)
    assert_type(vidgen_cassette.base_url, str)
    assert_type(vidgen_cassette.clock, Clock)
    assert_type(vidgen_cassette.transport, ReplayTransport | RecordingTransport)
    assert_type(vidgen_client, Client)
