"""A span and a duration for each request."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from attrs import define, field
from opentelemetry import metrics, trace

from vidgen_async import __version__
from vidgen_async.clock import LoopClock
from vidgen_async.errors import TransportError
from vidgen_async.otel.guard import Guard
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.transports.base import Connection, ObservedResponse, Response, Transport, WrappingTransport
from vidgen_async.types.http import Delivery, Request

#: In seconds, as the semantic conventions recommend for this histogram.
_BOUNDARIES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
#: A URL that can contain no secret other than the API key, with its task id. A complete search for secrets would
#: cost as much as the whole poll.
_PLAIN = re.compile(r"https?://[\w.:\[\]-]+(?:/[\w.~-]{0,64})*?(?:/videos/([\w.~-]{1,64})(?:/content)?)?", re.ASCII)
_QUERY = re.compile(r"[?#]")

_CREATE = "videos.create"


class TracedTransport(WrappingTransport):
    """Sends with ``inner``, each request in a span of its own (the table in the module's documentation).

    Responses and errors are those of ``inner``, also where telemetry raises, which is logged once. The span begins with
    the send and ends when the body was read or failed, or the response was closed; it is not made the current span.

    Args:
        inner: The transport that sends.
        tracer_provider: Default: the global one.
        meter_provider: Default: the global one.
    """

    def __init__(
        self,
        inner: Transport,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        super().__init__(inner)
        self._now = (self.clock or LoopClock()).now
        self._tracer = trace.get_tracer("vidgen_async", __version__, tracer_provider)
        self._duration = metrics.get_meter("vidgen_async", __version__, meter_provider).create_histogram(
            "http.client.request.duration",
            unit="s",
            description="Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._guard = Guard()

    async def send(self, request: Request) -> Response:
        """Send the request with the inner transport; its errors propagate unchanged."""
        return await self._begin(request).send(partial(self.inner.send, request))

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Connect with the inner transport; its errors propagate unchanged. The span has both steps."""
        call = self._begin(request)
        try:
            async with self.inner.connect(request) as connection:
                call.delivery = Delivery.NOT_SENT
                yield connection.with_send(partial(call.send, connection.send))
        except BaseException as error:
            if call.delivery is None:
                call.end(error)
            raise
        finally:
            call.end()

    def _begin(self, request: Request) -> "_TracedRequest":
        return _TracedRequest(request, self._tracer, self._duration, self._now, self._guard)


@define(eq=False)
class _TracedRequest:
    """One request in progress; its span and its duration are reported once, at its end."""

    _request: Request
    _tracer: trace.Tracer
    _duration: metrics.Histogram
    _now: Callable[[], float]
    _guard: Guard
    delivery: Delivery | None = field(init=False, default=None)
    status: int | None = field(init=False, default=None)
    _attributes: dict[str, str | int] = field(init=False)
    _span: trace.Span = field(init=False, default=trace.INVALID_SPAN)
    _began: float = field(init=False)
    _is_over: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        request = self._request
        self._attributes = {
            "http.request.method": request.method,
            "server.address": request.url.host or "",
            "server.port": request.url.port or 0,
            "vidgen.op": request.op,
        }
        with self._guard:
            kind = trace.SpanKind.CLIENT
            self._span = self._tracer.start_span(request.op, kind=kind, attributes=self._attributes)
        self._began = self._now()

    async def send(self, send: Callable[[], Awaitable[Response]]) -> Response:
        self.delivery = Delivery.MAYBE_SENT
        try:
            response = await send()
        except BaseException as error:
            self.end(error)
            raise
        self.delivery, self.status = Delivery.ANSWERED, response.status
        return ObservedResponse(response, self)

    def end(self, error: BaseException | None = None) -> None:
        if self._is_over:
            return
        self._is_over = True
        outcome: dict[str, str | int] = {}
        if self.status is not None:
            outcome["http.response.status_code"] = self.status
            if self.status >= 400:
                outcome["error.type"] = str(self.status)
        if error is not None:
            outcome["error.type"] = type(error).__name__
        with self._guard:
            self._duration.record(self._now() - self._began, {**self._attributes, **outcome})
        with self._guard:
            span = self._span
            if span.is_recording():
                span.set_attributes({**outcome, **_address(self._request), **self._evidence(error)})
                if "error.type" in outcome:
                    span.set_status(trace.Status(trace.StatusCode.ERROR, _names(error)))
            span.end()

    def _evidence(self, error: BaseException | None) -> dict[str, str]:
        known = error.__cause__ if isinstance(error, asyncio.CancelledError) else error
        if isinstance(known, TransportError):
            return {"vidgen.delivery": str(known.delivery), "vidgen.phase": str(known.phase)}
        if self.delivery is None or (error is None and self._request.op != _CREATE):
            return {}
        return {"vidgen.delivery": str(self.delivery)}

    def on_chunk(self, chunk: bytes) -> None:
        pass

    async def on_end(self, error: BaseException | None) -> None:
        self.end(error)

    async def on_close(self) -> None:
        self.end()


def _address(request: Request) -> dict[str, str]:
    """The URL as it may be shown. Only requests with the API key go to the service's own addresses."""
    url = request.url
    key = request.headers.get("Authorization", "").partition(" ")[2]
    if not key:
        return {"url.full": f"{url.scheme}://{url.raw_authority.rpartition('@')[2]}/…"}
    whole = str(url)
    shown = _QUERY.split(whole, maxsplit=1)[0]
    mark = "" if shown == whole else "?…"
    plain = _PLAIN.fullmatch(shown)
    if plain is None or key in shown:
        return {"url.full": hide_secrets(shown, (key,)) + mark}
    return {"url.full": shown + mark} | ({} if plain[1] is None else {"vidgen.task_id": plain[1]})


def _names(error: BaseException | None) -> str | None:
    """The classes of the error and of its cause; their messages may contain a signed link."""
    if error is None:
        return None
    cause = "" if error.__cause__ is None else f" ({type(error.__cause__).__name__})"
    return f"{type(error).__name__}{cause}"
