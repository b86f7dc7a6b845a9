"""The connections: aiohttp's own, with a guard against data that was not requested, and with one timer each.

This is the only module that depends on names of aiohttp that are not documented; a test fails where a version of
aiohttp has other names.
"""

import asyncio
import inspect
import math
import select
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler


class _Send(Protocol):
    connection: "GuardedProtocol | None"


#: The send for which connections are opened.
CURRENT_SEND: ContextVar[_Send | None] = ContextVar("current_send", default=None)


def _parameters_of(function: Callable[..., Any] | None) -> frozenset[str]:
    return frozenset() if function is None else frozenset(inspect.signature(function).parameters)


#: Limits for the headers of a response, in bytes and in number: a receipt must not be lost because of a header. Not
#: every supported version of aiohttp has each of them.
HEADER_LIMITS: Mapping[str, Any] = {
    name: value
    for name, value in (("max_line_size", 65_536), ("max_field_size", 1 << 20), ("max_headers", 10_000))
    if name in _parameters_of(aiohttp.ClientSession)
}


class GuardedProtocol(ResponseHandler):
    """A connection that is closed when data is received without a request.

    It has one timer, which is set again only when it has expired, or for an earlier time; aiohttp sets a new one
    whenever data is received.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.has_request = False
        """A request uses the connection."""
        self.has_received = False
        """Data was received since that request uses the connection."""
        self._has_unread: Callable[[], bool] | None = None
        self._silent_at = math.inf
        """When the time limit between two reads is over."""
        self._timer_at = math.inf
        self._timer_handle: asyncio.TimerHandle | None = None
        if (pending := CURRENT_SEND.get()) is not None:
            pending.connection = self

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

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._drop_timeout()

    @property
    def is_unusable(self) -> bool:
        """More than the last response was received, or the service has closed the connection."""
        transport = self.transport
        if transport is None or self.should_close:
            return True
        if self._has_unread is None:
            self._has_unread = _readiness_of(transport.get_extra_info("socket"))
        return self._has_unread()

    # -- time limits ---------------------------------------------------------------------------------------------------

    def _reschedule_timeout(self) -> None:
        if limit := self._read_timeout:
            self._silent_at = self._loop.time() + limit
            self._set_timer()
        else:
            self._silent_at = math.inf

    def _drop_timeout(self) -> None:
        self._silent_at = math.inf
        if self.transport is None and self._timer_handle is not None:
            self._timer_handle.cancel()
            self._timer_handle, self._timer_at = None, math.inf

    def _set_timer(self) -> None:
        if self._silent_at < self._timer_at:
            if self._timer_handle is not None:
                self._timer_handle.cancel()
            self._timer_at = self._silent_at
            self._timer_handle = self._loop.call_at(self._silent_at, self._expire)

    def _expire(self) -> None:
        self._timer_handle, self._timer_at = None, math.inf
        now = self._loop.time()
        if self._silent_at <= now:
            self._on_read_timeout()
        else:
            self._set_timer()


class GuardedConnector(aiohttp.TCPConnector):
    """A pool that returns only connections on which nothing was received after their last response.

    aiohttp keeps data that it receives on an idle connection of its pool, and returns it as the response to the next
    request: a late second response, or the 408 with which load balancers close idle connections.
    """

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
        if isinstance(protocol, GuardedProtocol):
            protocol.has_request = False
        super()._release(key, protocol, **options)


def _readiness_of(connected: Any) -> Callable[[], bool]:
    """Returns whether reading the socket would not wait: data or its end was received."""
    # Not a selector of the standard library: it takes four times as long, and this is asked before each read.
    if sys.platform == "win32":
        return lambda: bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return lambda: bool(poll.poll(0))
