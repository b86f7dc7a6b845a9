"""The clients that are compared: ours, plain aiohttp in the usual way, the SDKs of other services, and a bare protocol.

Each has its default settings, and requests a task that never ends, of about the same size, at the paths of its own
service.
"""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias, cast

import aiohttp
from attrs import frozen
from yarl import URL

from benchmarks.before import BEFORE, NAME

KEY = "sk-4fb1c2a09d7e4fb1c2a09d7e4fb1c2a09d7e"

Get: TypeAlias = Callable[[str], Awaitable[object]]
Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[Get]]


@frozen
class Peer:
    """One client."""

    connect: Connect
    """Given the URL of the load service; yields what polls a task once."""
    needs: tuple[str, ...] = ()
    """The packages that it requires."""

    @property
    def missing(self) -> list[str]:
        return [package for package in self.needs if find_spec(package) is None]


def _sdk(package: str) -> Connect:
    @asynccontextmanager
    async def connect(url: str) -> AsyncIterator[Get]:
        async with import_module(package).Client(KEY, base_url=f"{url}/openapi/v1") as client:
            yield client.videos.get

    return connect


@asynccontextmanager
async def _aiohttp(url: str) -> AsyncIterator[Get]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:

        async def get(task_id: str) -> object:
            async with session.get(f"{url}/openapi/v1/videos/{task_id}") as response:
                response.raise_for_status()
                return await response.json()

        yield get


class _BareConnection(asyncio.Protocol):
    """Writes a request and receives the data of an answer, without HTTP."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(data)

    def request(self, data: bytes) -> "asyncio.Future[bytes]":
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._transport.write(data)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[Get]:
    target, loop = URL(url), asyncio.get_running_loop()
    host, port = target.host or "", target.port or 0
    context = ssl.create_default_context() if target.scheme == "https" else None
    rest = f" HTTP/1.1\r\nHost: {target.authority}\r\nAuthorization: Bearer {KEY}\r\nAccept: application/json\r\n\r\n"
    connections: list[_BareConnection] = []
    idle: list[_BareConnection] = []

    async def get(task_id: str) -> bytes:
        if idle:
            connection = idle.pop()
        else:
            _, connection = await loop.create_connection(_BareConnection, host, port, ssl=context)
            connections.append(connection)
        answer = await connection.request(f"GET /openapi/v1/videos/{task_id}{rest}".encode())
        idle.append(connection)
        return answer

    try:
        yield get
    finally:
        for connection in connections:
            connection.close()


def _openai(*, is_aiohttp: bool) -> Connect:
    @asynccontextmanager
    async def connect(url: str) -> AsyncIterator[Get]:
        from openai import AsyncOpenAI, DefaultAioHttpClient  # noqa: PLC0415 - it is optional

        warnings.simplefilter("ignore", DeprecationWarning)  # its videos will be shut down
        http_client = DefaultAioHttpClient() if is_aiohttp else None
        async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/openai/v1", http_client=http_client) as client:
            yield client.videos.retrieve

    return connect


@asynccontextmanager
async def _runwayml(url: str) -> AsyncIterator[Get]:
    from runwayml import AsyncRunwayML  # noqa: PLC0415 - it is optional

    async with AsyncRunwayML(api_key=KEY, base_url=f"{url}/runway") as client:
        yield client.tasks.retrieve


@asynccontextmanager
async def _replicate(url: str) -> AsyncIterator[Get]:
    from replicate.client import Client as Replicate  # noqa: PLC0415 - it is optional

    client = Replicate(api_token=KEY, base_url=f"{url}/replicate")
    try:
        yield client.predictions.async_get
    finally:
        await client._async_client.aclose()  # it has no public way


OURS, RAW, BARE, EARLIER = NAME, "aiohttp", "bare protocol", f"{NAME}, before"
OPENAI, OPENAI_ON_AIOHTTP = "openai (httpx)", "openai (aiohttp)"

PEERS: Mapping[str, Peer] = {
    OURS: Peer(_sdk(NAME)),
    EARLIER: Peer(_sdk(BEFORE), (BEFORE,)),
    RAW: Peer(_aiohttp),
    BARE: Peer(_bare),
    OPENAI: Peer(_openai(is_aiohttp=False), ("openai",)),
    OPENAI_ON_AIOHTTP: Peer(_openai(is_aiohttp=True), ("openai",)),
    "runwayml": Peer(_runwayml, ("runwayml",)),
    "replicate": Peer(_replicate, ("replicate",)),
}
#: Those that every run has.
_ALWAYS = (OURS, RAW, BARE, EARLIER)


def present(peers: Sequence[str] = ()) -> list[str]:
    """The names of those whose packages are installed; with ``peers``, of these only, besides ours and plain
    aiohttp."""
    names = (*_ALWAYS, *peers) if peers else PEERS
    return [name for name, peer in PEERS.items() if name in names and not peer.missing]


def left_out() -> list[str]:
    """A line for each peer whose packages are missing."""
    missing = {name: peer.missing for name, peer in PEERS.items() if peer.missing and name != EARLIER}
    return [f"left out: {name} ({', '.join(packages)} not installed)" for name, packages in missing.items()]


def event_loops() -> dict[str, bool]:
    """The event loops that are installed, and whether they are uvloop."""
    return {"asyncio": False, "uvloop": True} if find_spec("uvloop") else {"asyncio": False}


def task_ids(count: int) -> list[str]:
    """So many, each a string of its own."""
    return [f"vt-{number:016x}" for number in range(count)]
