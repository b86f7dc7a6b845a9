"""A listening socket that can refuse connections for a while and keep its port."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from vidgen_async.sandbox.request_log import OriginName

BACKLOG = 1024
#: For addresses that stand for all of the machine, one at which a client reaches it.
LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is not bound here
#: Called with the origin at which a request arrived, and the request.
Handler = Callable[["Origin", web.BaseRequest], Awaitable[web.StreamResponse]]

#: Iterations of the event loop after which a connection that was just accepted has its handler.
SETTLING_PASSES = 3
SHUTDOWN_TIMEOUT = 0.1

_open: "set[Origin]" = set()


def open_ports() -> set[int]:
    """Return the ports of the open sandboxes of this process, which the client looks up without an import."""
    return {origin.port for origin in tuple(_open)}


class Origin:
    """A listening socket with a handler. With ``port`` 0 it gets a free port, and keeps it until it is closed."""

    def __init__(self, name: OriginName, host: str, port: int, handler: Handler) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._handler = handler
        self._workers: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._placeholder: socket.socket | None = None

    @property
    def url(self) -> str:
        host = LOOPBACK.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def open(self) -> None:
        self._connections = web.Server(self._run, access_log=None)
        self._placeholder = self._bind()
        self.port = self._placeholder.getsockname()[1]
        _open.add(self)
        await self.accept()

    async def accept(self) -> None:
        if self._placeholder is not None:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._connections, sock=self._placeholder, backlog=BACKLOG)
            self._placeholder = None

    async def refuse(self) -> None:
        """Refuse new connections and close the open ones. The port stays bound."""
        if await self._stop_listening():
            self._placeholder = self._bind()
        self._close_connections()
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        _open.discard(self)
        await self._stop_listening()
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._close_connections()
        await self._connections.shutdown(SHUTDOWN_TIMEOUT)
        await asyncio.sleep(0)

    async def _stop_listening(self) -> bool:
        """Return whether it was listening. A connection that it accepted has its handler before it is closed."""
        listener, self._listener = self._listener, None
        if listener is None:
            return False
        with suppress(NotImplementedError):  # loops without readers assign the handler immediately
            asyncio.get_running_loop().remove_reader(listener.sockets[0])
        for _ in range(SETTLING_PASSES):
            await asyncio.sleep(0)
        listener.close()
        return True

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, self.port))
        except OSError as error:
            bound.close()
            message = f"cannot listen on {self.host}, port {self.port}: {error.strerror or error}"
            raise OSError(error.errno, message) from error
        return bound

    def _close_connections(self) -> None:
        for connection in self._connections.connections:
            transport = connection.transport
            if transport is not None and transport.get_write_buffer_size():
                transport.abort()
            connection.force_close()

    async def _run(self, request: web.BaseRequest) -> web.StreamResponse:
        worker = asyncio.current_task()
        assert worker is not None, "aiohttp runs every handler in a task"  # noqa: S101 - for the type checker
        self._workers.add(worker)
        try:
            return await self._handler(self, request)
        finally:
            self._workers.discard(worker)
