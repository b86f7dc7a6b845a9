"""The recorders that are compared: ours is a transport; vcrpy and cassetter patch aiohttp's ClientSession.

They are taken as their users take them, at their default settings.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import aiohttp
import cassetter
import vcr  # type: ignore[import-untyped]
from attrs import frozen
from vcr.cassette import Cassette as VcrCassette  # type: ignore[import-untyped]
from yarl import URL

from benchmarks.cassette_secrets import KEY, Exchange
from vidgen_async.cassette import Cassette
from vidgen_async.transports import DirectTransport, RecordingTransport, ReplayTransport, Transport
from vidgen_async.types.http import BytesBody, Request, make_headers

Json: TypeAlias = dict[str, Any]
HEADERS = {"Authorization": f"Bearer {KEY}", "Accept": "application/json"}
_OUR_HEADERS = make_headers(HEADERS)


class Carrier(Protocol):
    """Who carries the requests, recorded, replayed, or neither."""

    async def get(self, url: str) -> Json:
        """An answer's JSON."""
        ...

    async def drain(self, url: str) -> int:
        """How many bytes a stream has; none is kept."""
        ...

    async def exchange(self, base: str, exchange: Exchange) -> None:
        """Any other request; its answer is read."""
        ...


class Recorder(Protocol):
    """What makes cassettes and plays them."""

    def record(self, path: Path) -> AbstractAsyncContextManager[Carrier]:
        """A new cassette, which is saved when the block is left."""
        ...

    def replay(self, path: Path) -> AbstractAsyncContextManager[Carrier]: ...

    async def load(self, path: Path, url: str) -> None:
        """Read a cassette, to be ready for ``url``."""
        ...


@frozen
class ThroughTransport:
    transport: Transport

    async def get(self, url: str) -> Json:
        request = Request(op="videos.get", method="GET", url=URL(url), headers=_OUR_HEADERS)
        async with await self.transport.send(request) as response:
            found: Json = json.loads(await response.read())
        return found

    async def drain(self, url: str) -> int:
        request = Request(
            op="videos.content", method="GET", url=URL(url), headers=make_headers({"Accept": "video/mp4"})
        )
        async with await self.transport.send(request) as response:
            return sum([len(piece) async for piece in response.chunks()])

    async def exchange(self, base: str, exchange: Exchange) -> None:
        request = Request(
            op="videos.any",
            method=exchange.method,
            url=URL(base + exchange.path, encoded=True),
            headers=make_headers({**HEADERS, **exchange.headers}),
            body=None if exchange.body is None else BytesBody(json.dumps(exchange.body).encode()),
        )
        async with await self.transport.send(request) as response:
            await response.read()


@frozen
class ThroughSession:
    session: aiohttp.ClientSession

    async def get(self, url: str) -> Json:
        async with self.session.get(url, headers=HEADERS) as response:
            found: Json = await response.json()
        return found

    async def drain(self, url: str) -> int:
        async with self.session.get(url) as response:
            return sum([len(piece) async for piece in response.content.iter_chunked(1 << 16)])

    async def exchange(self, base: str, exchange: Exchange) -> None:
        headers = {**HEADERS, **exchange.headers}
        async with self.session.request(
            exchange.method, base + exchange.path, headers=headers, json=exchange.body, allow_redirects=False
        ) as response:
            await response.read()


@asynccontextmanager
async def carried_by(transport: Transport) -> AsyncIterator[Carrier]:
    try:
        yield ThroughTransport(transport)
    finally:
        await transport.aclose()


@asynccontextmanager
async def plain_aiohttp() -> AsyncIterator[Carrier]:
    async with aiohttp.ClientSession() as session:
        yield ThroughSession(session)


@frozen
class Ours:
    largest_blob: int = 1 << 20

    def record(self, path: Path) -> AbstractAsyncContextManager[Carrier]:
        return carried_by(RecordingTransport(DirectTransport(), Cassette(path, largest_blob=self.largest_blob)))

    def replay(self, path: Path) -> AbstractAsyncContextManager[Carrier]:
        return carried_by(ReplayTransport(path))

    async def load(self, path: Path, url: str) -> None:
        await ThroughTransport(ReplayTransport(path)).get(url)


@frozen
class Patch:
    """A recorder that patches aiohttp: ``patch(path, record_mode)``, and what reads its file and nothing else."""

    patch: Callable[[Path, str], AbstractContextManager[object]]
    read: Callable[[Path], object]

    def record(self, path: Path) -> AbstractAsyncContextManager[Carrier]:
        return self._patched(path, "all")

    def replay(self, path: Path) -> AbstractAsyncContextManager[Carrier]:
        return self._patched(path, "none")

    async def load(self, path: Path, url: str) -> None:
        self.read(path)

    @asynccontextmanager
    async def _patched(self, path: Path, mode: str) -> AsyncIterator[Carrier]:
        with self.patch(path, mode):
            async with plain_aiohttp() as carrier:
                yield carrier


def _patched_by_vcrpy(path: Path, mode: str) -> AbstractContextManager[object]:
    patched: AbstractContextManager[object] = vcr.use_cassette(str(path), record_mode=mode)
    return patched


def _read_by_vcrpy(path: Path) -> object:
    return VcrCassette.load(path=str(path))


def _patched_by_cassetter(path: Path, mode: str) -> AbstractContextManager[object]:
    return cassetter.use_cassette(path, record_mode=mode)


def _read_by_cassetter(path: Path) -> object:
    cassette = cassetter.Cassette(path, record_mode=cassetter.RecordMode.NONE)
    cassette.load()
    return cassette


RECORDERS: Mapping[str, Recorder] = {
    "ours": Ours(),
    "vcrpy": Patch(_patched_by_vcrpy, _read_by_vcrpy),
    "cassetter": Patch(_patched_by_cassetter, _read_by_cassetter),
}
