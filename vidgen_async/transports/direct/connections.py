"""Connections on which every answer belongs to a request.

aiohttp keeps what arrives on an idle connection of its pool, and takes it for the answer to the next request: a late
second answer, or the 408 with which load balancers close idle connections. Here such a connection is not used again.

This needs names of aiohttp that are not public; a test of their effect fails where an aiohttp has others.
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

#: Called with each connection that is made for the send under way.
ON_CONNECTION: ContextVar[Callable[["GuardedProtocol"], None] | None] = ContextVar("on_connection", default=None)


class GuardedProtocol(ResponseHandler):
    """One connection, which is closed when something arrives that no request has asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.is_asked = False
        """A request has the connection."""
        self.has_received = False
        """Something has arrived since that request has the connection."""
        if (on_connection := ON_CONNECTION.get()) is not None:
            on_connection(self)

    def set_response_params(self, **params: Any) -> None:
        """A request gets the connection."""
        self.is_asked, self.has_received = True, False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Some bytes have arrived; none where aiohttp reads on in what had arrived."""
        if data and not self.is_asked:
            self.close()
            return
        self.has_received |= bool(data)
        super().data_received(data)

    @property
    def is_spoiled(self) -> bool:
        """More has arrived than the last answer, read or unread yet, or the service has closed the connection."""
        transport = self.transport
        return transport is None or self.should_close or _has_unread(transport.get_extra_info("socket"))


class GuardedConnector(aiohttp.TCPConnector):
    """A pool that gives out only connections on which nothing has arrived since their last answer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory: Any = partial(GuardedProtocol, loop=self._loop)

    async def _get(self, *args: Any) -> Any:
        while (connection := await super()._get(*args)) is not None:
            protocol = connection.protocol
            if not isinstance(protocol, GuardedProtocol) or not protocol.is_spoiled:
                return connection
            connection.close()
        return None

    def _release(self, key: Any, protocol: Any, **options: Any) -> None:
        protocol.is_asked = False
        super()._release(key, protocol, **options)


def _has_unread(connected: Any) -> bool:
    """Whether a read of the socket would not wait: bytes, or its end, have arrived."""
    if sys.platform == "win32":
        return bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))
