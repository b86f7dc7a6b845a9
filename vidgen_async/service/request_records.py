"""One DEBUG record for each request, if this module's logger is enabled for it; asking that is all that others cost."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial

from attrs import Factory, define, field

from vidgen_async.clock import Clock
from vidgen_async.events import Event
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import excerpt, hide_in_path
from vidgen_async.service.api_keys import AUTHORIZATION
from vidgen_async.service.codec import request_id_of
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.types.http import LONG_ANSWER, Request

logger = logging.getLogger(__name__)


@define(eq=False)
class RequestRecord:
    """The record of a request in progress; it is logged once. No ``known`` value is shown."""

    _request: Request
    _clock: Clock
    _attempt: int
    _known: Iterable[str]
    _began: float = field(init=False, default=Factory(lambda self: self._clock.now(), takes_self=True))
    _is_over: bool = field(init=False, default=False)

    @asynccontextmanager
    async def connect(self, transport: Transport) -> AsyncIterator[Connection]:
        """Connect, for a create, whose record has both steps."""
        is_connected = False
        try:
            async with transport.connect(self._request) as connection:
                is_connected = True
                yield connection.with_send(partial(self.send, connection.send))
        except BaseException as failure:
            if not is_connected:
                self.end(None, failure)
            raise
        finally:
            self.end(None, None)

    async def send(self, send: Callable[[], Awaitable[Response]]) -> Response:
        try:
            response = await send()
        except BaseException as failure:
            self.end(None, failure)
            raise
        self.end(response, None)
        return response

    def end(self, response: Response | None, failure: BaseException | None) -> None:
        """Log the record, unless it was logged."""
        if self._is_over:
            return
        self._is_over = True
        # To hide a long value takes too long for a turn of the event loop.
        hidden = KnownValues(value for value in self._known if len(value) <= LONG_ANSWER)
        request_id = None if response is None else request_id_of(response.headers)
        ended = "%(error)s%(cause)s" if response is None else "%(status)d"
        error = "not sent" if failure is None else type(failure).__name__
        Event.REQUEST_ENDED.log(
            logger,
            details=f": {ended} after %(milliseconds).1f ms (request %(request_id)s, attempt %(attempt)d)",
            op=self._request.op,
            method=self._request.method,
            path=_path(self._request, hidden),
            status=None if response is None else response.status,
            milliseconds=1000.0 * (self._clock.now() - self._began),
            request_id=None if request_id is None else excerpt(request_id, hidden, limit=100),
            attempt=self._attempt,
            error=None if response is not None else error,
            cause="".join(f" {excerpt(note, hidden)}" for note in getattr(failure, "__notes__", ())),
        )


def _path(request: Request, known: KnownValues) -> str:
    """The path at the service itself; of a link, which may be a secret as a whole, the host only."""
    if AUTHORIZATION not in request.headers:
        return f"//{request.url.host}/…"
    return hide_in_path(request.url.raw_path, known)
