"""Connections on which every response belongs to a request.

aiohttp keeps data that it receives on an idle connection of its pool, and returns it as the response to the next
request: a late second response, or the 408 with which load balancers close idle connections. Here such a connection is
not used again.

This depends on private names of aiohttp; a test fails where a version of aiohttp has other names.
"""

import asyncio
import select
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

#: Called with each connection that is opened for the current send.
ON_CONNECTION: ContextVar[Callable[["GuardedProtocol"], None] | None] = ContextVar("on_connection", default=None)


class GuardedProtocol(ResponseHandler):
    """A connection that is closed when data is received without a request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.has_request = False
        """A request uses the connection."""
        self.has_received = False
        """Data was received since that request uses the connection."""
        if (on_connection := ON_CONNECTION.get()) is not None:
            on_connection(self)

    def set_response_params(self, **params: Any) -> None:
        """A request starts to use the connection."""
        self.has_request, self.has_received = True, False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Data was received; it is empty where aiohttp continues with data that was received before."""
        if data and not self.has_request:
            self.close()
            return
        self.has_received |= bool(data)
        super().data_received(data)

    @property
    def is_unusable(self) -> bool:
        """More than the last response was received, or the service has closed the connection."""
        transport = self.transport
        return transport is None or self.should_close or _has_unread(transport.get_extra_info("socket"))


class GuardedConnector(aiohttp.TCPConnector):
    """A pool that returns only connections on which nothing was received after their last response."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory: Any = partial(GuardedProtocol, loop=self._loop)

    async def _get(self, *args: Any) -> Any:
        while (connection := await super()._get(*args)) is not None:
            protocol = connection.protocol
            if not isinstance(protocol, GuardedProtocol) or not protocol.is_unusable:
                return connection
            connection.close()
        return None

    def _release(self, key: Any, protocol: Any, **options: Any) -> None:
        protocol.has_request = False
        super()._release(key, protocol, **options)


def _has_unread(connected: Any) -> bool:
    """Whether reading the socket would not wait: data or its end was received."""
    if sys.platform == "win32":
        return bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))
