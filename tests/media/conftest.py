"""Downloads and uploads over real sockets, with a virtual clock."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import pytest
from attrs import frozen
from yarl import URL

from tests.media.sites import KEY, Says, Script, Site, site
from tests.transports.raw_service import Certificate, make_certificate
from vidgen_async.clock import VirtualClock
from vidgen_async.media.download import Downloads
from vidgen_async.media.upload import Uploads
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.transports import Response, Transport, WrappingTransport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import CHUNK, Request, Timeouts


class Holding(WrappingTransport):
    """A transport that holds the virtual clock while the real network is waited for."""

    def __init__(self, inner: Transport, clock: VirtualClock) -> None:
        super().__init__(inner)
        self.clock = clock

    async def send(self, request: Request) -> "HeldResponse":
        with self.clock.hold():
            return HeldResponse(await self.inner.send(request), self.clock)


class HeldResponse:
    def __init__(self, inner: Response, clock: VirtualClock) -> None:
        self._inner = inner
        self._clock = clock
        self.status, self.headers, self.url = inner.status, inner.headers, inner.url

    async def read(self) -> bytes:
        with self._clock.hold():
            return await self._inner.read()

    def chunks(self, size: int = CHUNK) -> "HeldPieces":
        return HeldPieces(self._inner.chunks(size), self._clock)

    async def aclose(self) -> None:
        with self._clock.hold():
            await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@frozen
class HeldPieces:
    pieces: AsyncIterator[bytes]
    clock: VirtualClock

    def __aiter__(self) -> "HeldPieces":
        return self

    async def __anext__(self) -> bytes:
        with self.clock.hold():
            return await anext(self.pieces)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def transport(clock: VirtualClock) -> AsyncIterator[Transport]:
    direct = DirectTransport()
    yield Holding(direct, clock)
    await direct.aclose()


def endpoints_of(base: URL) -> Endpoints:
    return Endpoints(base, KEY, Timeouts(connect=5, read=5))


Maker = Callable[[Site | str], Downloads]


@pytest.fixture
def downloads_of(transport: Transport, clock: VirtualClock) -> Maker:
    """Downloads for the service at a site."""

    def make(service: Site | str, **options) -> Downloads:
        base = URL(service) if isinstance(service, str) else service.url("/openapi/v1")
        endpoints = endpoints_of(base)
        reads = Reads(transport, clock, origin=endpoints.origin, known=(KEY,), rng=lambda: 1.0)
        return Downloads(reads, endpoints, clock, rng=lambda: 1.0, **options)

    return make


@pytest.fixture
def uploads_of(transport: Transport, clock: VirtualClock) -> Callable[[Site], Uploads]:
    def make(service: Site) -> Uploads:
        endpoints = endpoints_of(service.url("/openapi/v1"))
        return Uploads(
            Reads(transport, clock, origin=endpoints.origin, known=(KEY,), rng=lambda: 1.0), endpoints, clock
        )

    return make


OLD = b"the good file from yesterday"


@frozen
class Target:
    path: Path

    def is_untouched(self) -> bool:
        return self.path.read_bytes() == OLD and [entry.name for entry in self.path.parent.iterdir()] == [
            self.path.name
        ]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """A path that already holds a good file, alone in its folder."""
    folder = tmp_path / "videos"
    folder.mkdir()
    path = folder / "hero.mp4"
    path.write_bytes(OLD)
    return Target(path)


@pytest.fixture
def saves(downloads_of: Maker, target: Target) -> Callable[..., Awaitable[Site]]:
    """Downloads from a site that answers so; this must be saved. Returns the site."""

    async def save(script: Script | Says, expected: bytes, **options) -> Site:
        async with site(script) as service:
            await downloads_of(service, **options).download("task-1", target.path)
        assert target.path.read_bytes() == expected
        return service

    return save


@pytest.fixture
def fails(downloads_of: Maker, target: Target) -> Callable[..., Awaitable[tuple[Any, Site]]]:
    """Downloads from a site that answers so; returns the error, which changes no file, and the site."""

    async def fail(script: Script | Says, kind: type[Exception], match: str | None = None, **options):
        async with site(script) as service:
            with pytest.raises(kind, match=match) as caught:
                await downloads_of(service, **options).download("task-1", target.path)
        assert target.is_untouched()
        return caught.value, service

    return fail


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls") / "localhost.pem")
