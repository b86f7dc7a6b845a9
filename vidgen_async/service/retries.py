"""Reads may go again: bounded by time, spread, and after what Retry-After asks for. Creates have no way in here."""

import logging
import random
import re
from collections.abc import Callable
from typing import TypeVar

from attrs import evolve

from vidgen_async.clock import Clock, backoff
from vidgen_async.errors import BodyError, ConnectionLostError, ServiceError, TransportClosedError, TransportError
from vidgen_async.events import Event, report
from vidgen_async.service.codec import Answer
from vidgen_async.service.error_responses import service_error
from vidgen_async.service.status_rules import rule_for
from vidgen_async.transports.base import Response, Transport
from vidgen_async.types.http import LONGEST_ANSWER, Phase, Request

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: A length that can be read as a number, however long the header is.
_SHORT = re.compile(r"[0-9]{1,9}")


class Reads:
    """Sends requests that may be repeated without harm: every GET, and uploads (a second asset costs nothing).

    ``origin`` is the service's own, ``known`` what no message may show. ``budget`` is in seconds: a read that fails
    goes again until the next try would begin later than that after the first. A try under way is bounded by the
    request's own timeouts.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        origin: str,
        known: tuple[str, ...] = (),
        budget: float = 60.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._origin = origin
        self._known = known
        self._budget = budget
        self.has_answer = False
        """The service has answered a read in its own form."""
        self._chance = chance

    async def send(self, request: Request) -> Response:
        """Send ``request``, for a caller who streams the body: once, and a GET once more at once where the service had
        closed its kept-alive connection. Redirects and error statuses come back as they
        are."""
        try:
            return await self._transport.send(request)
        except ConnectionLostError as error:
            if request.method != "GET" or not error.is_reused:
                raise
        # Services close kept-alive connections at any time; another one of the pool may be closed as well.
        return await self._transport.send(evolve(request, needs_new_connection=True))

    async def once(self, request: Request, read: Callable[[Answer], T]) -> T:
        """Send ``request`` once and ``read`` the answer's value. Any status but 2xx raises its ServiceError; no
        complete answer, a TransportError."""
        async with await self.send(request) as response:
            value = read(await self.success(request, response))
        self.has_answer = True
        return value

    async def success(self, request: Request, response: Response) -> Answer:
        """The whole answer if it is a 2xx; else its ServiceError is raised."""
        body = await _read(request, response)
        answer = Answer(request.op, response.status, response.headers, body, url=request.url, known=self._known)
        if not 200 <= response.status < 300:
            raise service_error(answer, origin=self._origin, wall=self._clock.wall())
        return answer

    async def again(self, request: Request, read: Callable[[Answer], T], *, budget: float | None = None) -> T:
        """Like :meth:`once`, and again while the failure is transient and the budget lasts: network faults, 408, 425,
        429, 5xx, and answers that cannot be read. Then the last failure is raised. Cancelling stops at once.
        ``budget`` in seconds, where it is not to be the usual one."""
        budget = self._budget if budget is None else budget
        give_up = self._clock.now() + budget
        tries = 0
        while True:
            tries += 1
            try:
                return await self.once(request, read)
            except (TransportError, ServiceError) as error:
                pause = self._pause(error, tries)
                if pause is None or self._clock.now() + pause > give_up:
                    raise
                level = logging.WARNING if tries == 1 else logging.INFO
                message = "%(error)s; it goes again, for at most %(seconds)g s"
                fields = {"op": request.op, "error": error, "seconds": budget}
                report(
                    logger, level, Event.READ_AGAIN, message, **fields, request_id=getattr(error, "request_id", None)
                )
            await self._clock.sleep(pause)

    def _pause(self, error: TransportError | ServiceError, tries: int) -> float | None:
        """Seconds before the next try; None when the failure is final."""
        own = backoff(tries, self._chance())
        if isinstance(error, TransportError):
            is_final = isinstance(error, TransportClosedError) or error.phase is Phase.BUILD
            return None if is_final else own
        if not rule_for(error.status).is_read_retried:
            return None
        return own if error.retry_after is None else max(own, error.retry_after)


async def _read(request: Request, response: Response) -> bytes:
    length = response.headers.get("Content-Length", "")
    if _SHORT.fullmatch(length) and int(length) <= LONGEST_ANSWER and "Content-Encoding" not in response.headers:
        return await response.read()
    body = bytearray()
    async for piece in response.chunks():
        body += piece
        if len(body) > LONGEST_ANSWER:
            message = f"{request.op}: the answer is longer than {LONGEST_ANSWER} bytes; it was not read on"
            raise BodyError(message, op=request.op, received=len(body))
    return bytes(body)
