"""Reads are retried: for a limited time, with jitter, honouring Retry-After. Creates have no access to this module."""

import logging
import math
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from attrs import Factory, define, evolve, field

from vidgen_async.clock import Clock, backoff
from vidgen_async.errors import BodyError, ConnectionLostError, ServiceError, TransportClosedError, TransportError
from vidgen_async.events import Event
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import showable
from vidgen_async.service import request_records
from vidgen_async.service.api_keys import AUTHORIZATION, Key, KeyRing
from vidgen_async.service.codec import Answer
from vidgen_async.service.error_responses import service_error
from vidgen_async.service.status_rules import rule_for
from vidgen_async.transports.base import Response, Transport
from vidgen_async.types.http import LONG_ANSWER, LONGEST_ANSWER, BytesBody, Delivery, Phase, Request
from vidgen_async.user_code import UserCode, describe

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: A length that can be read as a number, however long the header is.
_SHORT = re.compile(r"[0-9]{1,9}")


@define(eq=False, repr=False)
class Reads:
    """Sends requests that may be repeated without harm: every GET, and uploads (a duplicate upload is free). No message
    shows ``known`` values. ``on_answer`` is called when the service has answered in its own form."""

    _transport: Transport
    _clock: Clock
    _origin: str = field(kw_only=True)
    _own_known: tuple[str, ...] = field(default=(), alias="known", kw_only=True)
    _key_ring: KeyRing | None = field(default=None, kw_only=True)
    _retry_for: float = field(default=60.0, kw_only=True)
    _on_answer: Callable[[], object] = field(default=bool, kw_only=True)
    _rng: Callable[[], float] = field(default=random.random, kw_only=True)
    known: KnownValues = field(default=Factory(lambda self: KnownValues(self._own_known), takes_self=True), init=False)
    _keys: tuple[str, ...] = field(default=(), init=False)
    """Those of the ring that are known values."""

    def send(self, request: Request, *, attempt: int = 1) -> Awaitable[Response]:
        """Send ``request``, for a caller that streams the body, and return its response with any status. Sent once more
        are a GET whose kept-alive connection the service had closed, and a request whose key was refused, with a new
        key."""
        if self._key_ring is None or AUTHORIZATION not in request.headers:
            return self._send(request, attempt)
        return self._send_with_key(self._key_ring, request, attempt)

    async def _send_with_key(self, ring: KeyRing, request: Request, attempt: int) -> Response:
        key = await self._get_key(ring, request)
        response = await self._send(ring.add_to(request, key), attempt)
        if response.status != HTTPStatus.UNAUTHORIZED:
            return response
        ring.discard(key)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(response)
            new = await self._get_key(ring, request, Delivery.ANSWERED)
            if new.value == key.value:
                stack.pop_all()
                return response
        return await self._send(ring.add_to(request, new), attempt)

    async def _get_key(self, ring: KeyRing, request: Request, delivery: Delivery = Delivery.NOT_SENT) -> Key:
        key = await ring.get(request, self._clock, delivery=delivery)
        if ring.known != self._keys:
            self._keys, self.known = ring.known, KnownValues((*self._own_known, *ring.known))
        return key

    async def _send(self, request: Request, attempt: int) -> Response:
        try:
            if not request_records.logger.isEnabledFor(logging.DEBUG):
                return await self._transport.send(request)
            record = request_records.RequestRecord(request, self._clock, attempt, self.known)
            return await record.send(partial(self._transport.send, request))
        except ConnectionLostError as error:
            if request.method != "GET" or not error.is_reused or request.needs_new_connection:
                raise
        # Services close kept-alive connections at any time; another one of the pool may be closed as well.
        return await self._send(evolve(request, needs_new_connection=True), attempt)

    async def once(self, request: Request, read: Callable[[Answer], T], *, attempt: int = 1) -> T:
        """Send ``request`` once and ``read`` the value of a 2xx; ServiceError for any other status."""
        with UserCode(passes=(Exception,)) as call:
            response = await self.send(request, attempt=attempt)
            try:
                value = read(await self.success(request, response))
            finally:
                await response.aclose()
            self._on_answer()
            return value
        raise self.explain(request, call.error)

    def explain(self, request: Request, error: BaseException | None) -> TransportError:
        """The error for what a transport raised that is no Exception, and does not end its caller."""
        failure = TransportError(f"{request.op}: the transport raised {describe(error)}", op=request.op)
        failure.__cause__ = showable(error, self.known)
        return failure

    async def success(self, request: Request, response: Response) -> Answer:
        """The complete answer if it is a 2xx; otherwise its ServiceError is raised."""
        try:
            body = await _read(request, response)
        except BodyError as error:
            error.status = response.status
            raise
        if len(body) > LONG_ANSWER:
            await self._clock.sleep(0)  # to parse it is long enough for one turn of the event loop
        sent = request.body.data if isinstance(request.body, BytesBody) else b""
        answer = Answer(
            request.op, response.status, response.headers, body, url=request.url, known=self.known, sent=sent
        )
        if not 200 <= response.status < 300:
            raise service_error(answer, origin=self._origin, wall=self._clock.wall())
        return answer

    async def retry(self, request: Request, read: Callable[[Answer], T], *, at_most: float = math.inf) -> T:
        """Like :meth:`once`, retried while the failure is transient: network faults, 408, 425, 429, 5xx, and answers
        that cannot be read; but an upload that was answered with a 2xx is not repeated. After the client's
        ``retry_for`` seconds, or ``at_most`` this many, the last failure is raised. Cancelling stops at once."""
        retry_for = min(self._retry_for, at_most)
        give_up_at = self._clock.now() + retry_for
        attempts = 0
        while True:
            attempts += 1
            try:
                return await self.once(request, read, attempt=attempts)
            except (TransportError, ServiceError) as error:
                # An upload that was answered with a 2xx is stored, although the answer cannot be used.
                status = error.status if isinstance(error, ServiceError | BodyError) else None
                is_done = request.method == "POST" and status is not None and 200 <= status < 300
                pause = None if is_done else retry_delay(error, attempts, self._rng())
                if pause is None or self._clock.now() + pause > give_up_at:
                    if pause is not None and attempts > 1:
                        setting = " (retry_reads_for)" if retry_for == self._retry_for else ""
                        what = f"{error.summary}; {attempts} attempts within {retry_for:g} s{setting}."
                        error.args = (f"{what} {error.advice}".strip(),)
                    raise
                level = logging.WARNING if attempts == 1 else logging.INFO
                op, request_id = request.op, getattr(error, "request_id", None)
                Event.REQUEST_RETRIED.log(
                    logger, level=level, op=op, error=error, seconds=retry_for, request_id=request_id
                )
            await self._clock.sleep(pause)


def retry_delay(error: TransportError | ServiceError, failures: int, jitter: float) -> float | None:
    """The seconds before a read is retried after this many failures; None if the failure is permanent."""
    delay = backoff(failures, jitter)
    if isinstance(error, TransportError):
        # A request that cannot be built fails in every attempt.
        is_permanent = isinstance(error, TransportClosedError) or error.phase is Phase.BUILD
        return None if is_permanent else delay
    if not rule_for(error.status).is_read_retried:
        return None
    return delay if error.retry_after is None else max(delay, error.retry_after)


async def _read(request: Request, response: Response) -> bytes:
    length = response.headers.get("Content-Length", "")
    if _SHORT.fullmatch(length) and int(length) <= LONGEST_ANSWER and "Content-Encoding" not in response.headers:
        return await response.read()
    body = bytearray()
    async for piece in response.chunks():
        body += piece
        if len(body) > LONGEST_ANSWER:
            message = f"{request.op}: the answer is longer than {LONGEST_ANSWER} bytes; reading stopped"
            raise BodyError(message, op=request.op, received=len(body))
    return bytes(body)
