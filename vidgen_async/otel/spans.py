"""A span and a duration for each request."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from attrs import define, field
from opentelemetry import metrics, trace
from opentelemetry.context import Context

from vidgen_async import __version__
from vidgen_async.clock import LoopClock
from vidgen_async.errors import TransportError
from vidgen_async.events import current_order
from vidgen_async.otel.observer import Guard
from vidgen_async.otel.operations import operation_spans
from vidgen_async.redaction.messages import excerpt, hide_secrets
from vidgen_async.service.codec import request_id_of
from vidgen_async.transports import Connection, Response, Transport, WrappingTransport
from vidgen_async.transports.base import ObservedResponse
from vidgen_async.types import Delivery, Request

#: In seconds, as the semantic conventions recommend for this histogram.
_BOUNDARIES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
#: A URL that can contain no secret other than the API key, with its task id. A complete search for secrets would
#: cost as much as the whole poll.
_PLAIN = re.compile(r"https?://[\w.:\[\]-]+(?:/[\w.~-]{0,64})*?(?:/videos/([\w.~-]{1,64})(?:/content)?)?", re.ASCII)
_QUERY = re.compile(r"[?#]")

_CREATE = "videos.create"
#: ``url.template`` by operation, after the path of the base URL.
_TEMPLATES = {
    "models.list": "/models",
    "account.get": "/account",
    "files.create": "/files",
    _CREATE: "/videos",
    "videos.get": "/videos/{id}",
    "videos.content": "/videos/{id}/content",
}


class TracedTransport(WrappingTransport):
    """Sends with ``inner``, each request except polls in a span of its own (the table in the module's documentation).

    Responses and errors are those of ``inner``, also where telemetry raises, which is logged once. The span begins with
    the send and ends when the body was read or failed, or the response was closed; it is not made the current span.

    Args:
        inner: The transport that sends.
        tracer_provider: Default: the global one.
        meter_provider: Default: the global one.
        polls: Polls have spans, too: children of the span of a wait for their task, with links to those of the others.
            They are root spans where no wait has a span, because no client is observed.
    """

    def __init__(
        self,
        inner: Transport,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        polls: bool = False,
    ) -> None:
        super().__init__(inner)
        self._now = (self.clock or LoopClock()).now
        self._tracer = trace.get_tracer("vidgen_async", __version__, tracer_provider)
        self._operations = operation_spans(tracer_provider) if polls else None
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
        call = _TracedRequest(request, self._duration, self._now, self._guard)
        with self._guard:
            call.span = self._start_span(request, call.attributes)
        return call

    def _start_span(self, request: Request, attributes: Mapping[str, str | int]) -> trace.Span:
        start = partial(self._tracer.start_span, request.op, kind=trace.SpanKind.CLIENT)
        if request.pool != "polls":
            order_id = current_order.get() if request.op == _CREATE else None
            return start(attributes=attributes if order_id is None else {**attributes, "vidgen.order_id": order_id})
        if self._operations is None:
            return trace.INVALID_SPAN
        first, *others = self._operations.waits() or [trace.INVALID_SPAN]
        links = [trace.Link(wait.get_span_context()) for wait in others]
        return start(context=trace.set_span_in_context(first, Context()), attributes=attributes, links=links)


@define(eq=False)
class _TracedRequest:
    """One request in progress; its span and its duration are reported once, at its end."""

    _request: Request
    _duration: metrics.Histogram
    _now: Callable[[], float]
    _guard: Guard
    delivery: Delivery | None = field(init=False, default=None)
    status: int | None = field(init=False, default=None)
    attributes: dict[str, str | int] = field(init=False)
    """Those of the duration, and of the span from its start."""
    span: trace.Span = field(init=False, default=trace.INVALID_SPAN)
    _request_id: str | None = field(init=False, default=None)
    _began: float = field(init=False)
    _is_over: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        request = self._request
        self.attributes = {
            "http.request.method": request.method,
            "server.address": request.url.host or "",
            "server.port": request.url.port or 0,
            "vidgen.op": request.op,
        }
        if _key_of(request) and request.op in _TEMPLATES:
            self.attributes["url.template"] = _TEMPLATES[request.op]
        self._began = self._now()

    async def send(self, send: Callable[[], Awaitable[Response]]) -> Response:
        self.delivery = Delivery.MAYBE_SENT
        try:
            response = await send()
        except BaseException as error:
            self.end(error)
            raise
        self.delivery, self.status = Delivery.ANSWERED, response.status
        with self._guard:
            self._request_id = request_id_of(response.headers)
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
            self._duration.record(self._now() - self._began, {**self.attributes, **outcome})
        with self._guard:
            span = self.span
            if span.is_recording():
                span.set_attributes({**outcome, **_address(self._request), **self._evidence(error)})
                if self._request_id is not None:
                    # The text of a response, which may repeat what was sent.
                    secrets = _key_of(self._request), self._request.headers.get("Idempotency-Key", "")
                    span.set_attribute("vidgen.request_id", excerpt(self._request_id, secrets, limit=100))
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
    key = _key_of(request)
    if not key:
        return {"url.full": f"{url.scheme}://{url.raw_authority.rpartition('@')[2]}/…"}
    whole = str(url)
    shown = _QUERY.split(whole, maxsplit=1)[0]
    mark = "" if shown == whole else "?…"
    plain = _PLAIN.fullmatch(shown)
    if plain is None or key in shown:
        return {"url.full": hide_secrets(shown, (key,)) + mark}
    return {"url.full": shown + mark} | ({} if plain[1] is None else {"vidgen.task_id": plain[1]})


def _key_of(request: Request) -> str:
    return request.headers.get("Authorization", "").partition(" ")[2]


def _names(error: BaseException | None) -> str | None:
    """The classes of the error and of its cause; their messages may contain a signed link."""
    if error is None:
        return None
    cause = "" if error.__cause__ is None else f" ({type(error.__cause__).__name__})"
    return f"{type(error).__name__}{cause}"
