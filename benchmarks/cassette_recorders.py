"""The recorders that are compared: ours is a transport; vcrpy and cassetter patch aiohttp's ClientSession.

All have their default settings.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import cassetter
import vcr  # type: ignore[import-untyped]
from attrs import frozen
from vcr.cassette import Cassette as VcrCassette  # type: ignore[import-untyped]
from yarl import URL

from benchmarks.media_service import COOKIE, KEY, SIGNATURE
from vidgen_async.transports import DirectTransport, RecordingTransport, ReplayTransport, Transport
from vidgen_async.types.http import Request, make_headers

Json: TypeAlias = dict[str, Any]
#: What each request or response holds, and no file may.
SECRETS = (KEY, COOKIE, SIGNATURE)
_HEADERS = {"Authorization": f"Bearer {KEY}", "Accept": "application/json"}
_CHUNK = 1 << 16


@frozen
class Carrier:
    """Sends requests, recorded, replayed, or neither."""

    get: Callable[[str], Awaitable[Json]]
    """The JSON of a response."""
    drain: Callable[[str], Awaitable[int]]
    """The number of bytes of a stream, none of which is stored."""


Carry: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Carrier]]


@frozen
class Recorder:
    """Makes cassettes and replays them."""

    record: Carry
    """A new cassette, which is saved when the block is left."""
    replay: Carry
    load: Callable[[Path, str], Awaitable[None]]
    """Read a cassette, to be ready for a URL."""


@asynccontextmanager
async def through_transport(transport: Transport) -> AsyncIterator[Carrier]:
    headers = make_headers(_HEADERS)

    async def get(url: str) -> Json:
        request = Request(op="videos.get", method="GET", url=URL(url), headers=headers)
        async with await transport.send(request) as response:
            found: Json = json.loads(await response.read())
        return found

    async def drain(url: str) -> int:
        request = Request(op="videos.content", method="GET", url=URL(url), headers=headers)
        async with await transport.send(request) as response:
            return sum([len(chunk) async for chunk in response.chunks(_CHUNK)])

    try:
        yield Carrier(get, drain)
    finally:
        await transport.aclose()


@asynccontextmanager
async def through_aiohttp(patch: AbstractContextManager[object]) -> AsyncIterator[Carrier]:
    with patch:
        async with aiohttp.ClientSession(headers=_HEADERS) as session:

            async def get(url: str) -> Json:
                async with session.get(url) as response:
                    found: Json = await response.json()
                return found

            async def drain(url: str) -> int:
                async with session.get(url) as response:
                    return sum([len(chunk) async for chunk in response.content.iter_chunked(_CHUNK)])

            yield Carrier(get, drain)


async def _load(path: Path, url: str) -> None:
    async with through_transport(ReplayTransport(path)) as carrier:
        await carrier.get(url)  # builds the index of requests


async def _load_with_vcrpy(path: Path, _: str) -> None:
    VcrCassette.load(path=str(path))


async def _load_with_cassetter(path: Path, _: str) -> None:
    cassetter.Cassette(path, record_mode=cassetter.RecordMode.NONE).load()


def _vcrpy(mode: str, path: Path) -> AbstractAsyncContextManager[Carrier]:
    return through_aiohttp(vcr.use_cassette(str(path), record_mode=mode))


def _cassetter(mode: str, path: Path) -> AbstractAsyncContextManager[Carrier]:
    return through_aiohttp(cassetter.use_cassette(path, record_mode=mode))


OURS, VCRPY, CASSETTER = "vidgen_async", "vcrpy", "cassetter"
DIRECT, RAW = "DirectTransport", "aiohttp"
RECORDERS: Mapping[str, Recorder] = {
    OURS: Recorder(
        lambda path: through_transport(RecordingTransport(DirectTransport(), path)),
        lambda path: through_transport(ReplayTransport(path)),
        _load,
    ),
    VCRPY: Recorder(partial(_vcrpy, "all"), partial(_vcrpy, "none"), _load_with_vcrpy),
    CASSETTER: Recorder(partial(_cassetter, "all"), partial(_cassetter, "none"), _load_with_cassetter),
}
#: No recorder.
BASES: Mapping[str, Carry] = {
    DIRECT: lambda _: through_transport(DirectTransport()),
    RAW: lambda _: through_aiohttp(nullcontext()),
}
