"""A transport that calls a function: no network, for tests and experiments."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from vidgen_async.errors import TransportClosedError
from vidgen_async.transports.base import BufferedResponse, Connection, Transport, nothing_sent
from vidgen_async.types.http import Delivery, Phase, Request


class FakeTransport(Transport):
    """Returns or raises what ``handler(request)`` does; ``requests`` are the requests that it received.

    A create connects first: ``on_connect`` may raise, to simulate a failure to connect.
    """

    def __init__(
        self,
        handler: Callable[[Request], Awaitable[BufferedResponse]],
        *,
        on_connect: Callable[[Request], Awaitable[None]] | None = None,
    ) -> None:
        self._handler = handler
        self._on_connect = on_connect
        self._closed = False
        self.requests: list[Request] = []

    async def send(self, request: Request) -> BufferedResponse:
        await self._open(request)
        return await self._respond(request)

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        await self._open(request)
        yield Connection(partial(self._respond, request), is_ready=lambda: not self._closed)

    async def _open(self, request: Request) -> None:
        if self._closed:
            message = f"{request.op}: the transport is closed"
            raise TransportClosedError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)
        if self._on_connect is not None:
            with nothing_sent(request):
                await self._on_connect(request)

    async def _respond(self, request: Request) -> BufferedResponse:
        self.requests.append(request)
        return await self._handler(request)

    async def aclose(self) -> None:
        self._closed = True
