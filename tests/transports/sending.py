"""How the tests send: requests with short limits, bodies that misbehave, and waiting without sleeping."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from attrs import frozen
from yarl import URL

from vidgen_async.transports.base import Response, Transport
from vidgen_async.types.http import BytesBody, Request, Timeouts, make_headers

PROMPT = b'{"prompt":"a lighthouse"}'
LONG = Timeouts(connect=5, read=5)
SHORT = Timeouts(connect=5, read=0.08)
SHORT_CONNECT = Timeouts(connect=0.08, read=5)


def create(
    url: URL,
    *,
    op: str = "videos.create",
    method: str = "POST",
    body: object = BytesBody(PROMPT),
    timeouts: Timeouts = LONG,
    **headers: str,
) -> Request:
    """A create, or another request with a body."""
    return Request(op=op, method=method, url=url, headers=make_headers(headers), body=body, timeouts=timeouts)


def read(url: URL, *, timeouts: Timeouts = LONG, **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(op="videos.get", method="GET", url=url, headers=make_headers(named), timeouts=timeouts)


async def until(is_so: Callable[[], bool]) -> None:
    """Return when ``is_so()`` has become true."""
    async with asyncio.timeout(2):
        while not is_so():  # noqa: ASYNC110 - what is waited for happens in sockets, which set no events
            await asyncio.sleep(0.001)


@asynccontextmanager
async def respond(transport: Transport, request: Request) -> AsyncIterator[Response]:
    """Send as the client does: a create in two steps."""
    if request.op != "videos.create":
        async with await transport.send(request) as response:
            yield response
        return
    async with transport.connect(request) as connection, await connection.send() as response:
        yield response


async def swallowed(transport: Transport, request: Request) -> bytes:
    async with respond(transport, request) as response:
        return await response.read()


@frozen
class FailingBody:
    """Raises an error after ``pieces`` pieces of 64 KiB."""

    pieces: int
    length: int = 1_000_000
    content_type: str = "application/json"

    async def open(self) -> AsyncIterator[bytes]:
        for _ in range(self.pieces):
            yield b"x" * 65536
        message = "the file is gone"
        raise OSError(message)
