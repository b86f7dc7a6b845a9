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


async def send_recorded(
    send: Callable[[Request], Awaitable[Response]], clock: Clock, attempt: int, known: Iterable[str], request: Request
) -> Response:
    """Send a request, and log how it ended: with a status line, or with an error. No ``known`` value is shown."""
    return await RequestRecord(request, clock, attempt, known).send(partial(send, request))


@asynccontextmanager
async def connect_recorded(
    transport: Transport, request: Request, clock: Clock, attempt: int, known: Iterable[str]
) -> AsyncIterator[Connection]:
    """Connect, as :func:`send_recorded` sends. The record has both steps."""
    record = RequestRecord(request, clock, attempt, known)
    is_connected = False
    try:
        async with transport.connect(request) as connection:
            is_connected = True
            yield connection.with_send(partial(record.send, connection.send))
    except BaseException as failure:
        if not is_connected:
            record.end(None, failure)
        raise
    finally:
        record.end(None, None)


@define(eq=False)
class RequestRecord:
    """The record of a request in progress; it is logged once."""

    _request: Request
    _clock: Clock
    _attempt: int
    _known: Iterable[str]
    _began: float = field(init=False, default=Factory(lambda self: self._clock.now(), takes_self=True))
    _is_over: bool = field(init=False, default=False)

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
