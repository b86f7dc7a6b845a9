"""Handles one request from its head to its end: log it, read it, answer it, and apply its fault."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from attrs import define, field

from vidgen_async.sandbox import json_codec
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.endpoints import Call, Endpoints
from vidgen_async.sandbox.faults import Fault, FaultPlan, made_up_answer
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.request_log import LOGGED_BODY, OnRequest, ReceivedRequest, RequestLog
from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.routes import Route, find_route
from vidgen_async.sandbox.state_file import StateError
from vidgen_async.sandbox.web import access_control
from vidgen_async.sandbox.web.pages import FoundPage, PageCall, Pages
from vidgen_async.sandbox.wire import close_connection, read_body, send

logger = logging.getLogger(__name__)

NO_FAULT = Fault(name="none")
DROPPED = Fault(name="drop after", made=False, ends="close")
#: The largest body in bytes, also for the sandbox's pages. The sandbox's own limit: the description sets none.
BODY_LIMIT = 1 << 20
#: The limits of operations that differ: an upload is an image in Base64.
BODY_LIMITS = {"files.create": 64 << 20}


@define(kw_only=True)
class RequestDispatcher:
    """Answers the requests at both origins."""

    clock: SandboxClock
    endpoints: Endpoints
    faults: FaultPlan
    pages: Pages
    #: The address at which the sandbox listens, as it was given.
    host: str
    #: Called before each answer is sent; raises StateError if the changes could not be stored.
    save: Callable[[], None]
    on_request: OnRequest
    log: RequestLog
    _poisoned: set[RequestHandler] = field(factory=set)

    async def answer(self, origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        if origin.name == "service" and (found := self.pages.find(path)) is not None:
            return await self._answer_page(request, found, query)
        started = time.monotonic()
        route = find_route(origin.name, request.method, path)
        received = ReceivedRequest(
            origin.name, route.op, request.method, request.raw_path, self.clock.now(), request.headers
        )
        self.log.add(received)
        fault = self._take_fault(request, received)
        self.on_request(received)
        try:
            return await self._serve(origin, request, received, route, fault)
        finally:
            received.milliseconds = (time.monotonic() - started) * 1000
            received.is_over = True
            self.on_request(received)

    async def _serve(
        self, origin: Origin, request: web.BaseRequest, received: ReceivedRequest, route: Route, fault: Fault
    ) -> web.StreamResponse:
        create = received.create
        try:
            raw = await read_body(request, BODY_LIMITS.get(route.op, BODY_LIMIT)) if fault.reads else b""
        except Refusal as refusal:
            return await self._respond(origin, request, received, refusal.answer, fault)
        if raw is None:
            return close_connection(request)
        received.body, received.size = raw[:LOGGED_BODY], len(raw)
        if create and fault.reads:
            create.raw, create.body, create.body_arrived = raw, _parse(raw), True
        if fault.poisons:
            self._poisoned.add(request.protocol)
        path, _, query = request.raw_path.partition("?")
        call = Call(route, path, query, _headers_for(request.headers, fault), raw, create)
        # There is no await in between: no other request sees a change before it is stored.
        answer = self._store(await self._handle(call, received)) if fault.made else made_up_answer(route.op)
        return await self._respond(origin, request, received, answer, fault)

    async def _handle(self, call: Call, received: ReceivedRequest) -> Answer:
        """Return the answer of the endpoint, or a 500 with the exception that it raised."""
        try:
            return await self.endpoints.handle(call)
        except Exception as error:  # noqa: BLE001 - its client must learn what it was
            received.error = _describe(error)
            return _answer_failure(received.op, error)

    def _store(self, answer: Answer) -> Answer:
        """Store the changes, and return the answer, or a 503 if they could not be stored."""
        try:
            self.save()
        except StateError as error:
            return Answer.error(503, "STATE_NOT_STORED", str(error))
        return answer

    async def _answer_page(self, request: web.BaseRequest, found: FoundPage, query: str) -> web.StreamResponse:
        methods, names = found
        addresses = self.endpoints.assets.addresses
        try:
            access_control.check(request.method, request.headers, self.host, addresses.public_url)
            raw = await read_body(request, BODY_LIMIT)
            if raw is None:
                return close_connection(request)
            call = PageCall(query, raw, names, addresses.for_host(request.headers.get("Host")))
            answer = await self.pages.answer(methods, request.method, call)
        except Refusal as refusal:
            answer = refusal.answer
        except Exception as error:  # noqa: BLE001 - as for the endpoints
            answer = _answer_failure("a page of its own", error)
        answer = access_control.with_page_headers(self._store(answer))
        return await send(request, _with_request_id(answer, _new_request_id()), NO_FAULT)

    def _take_fault(self, request: web.BaseRequest, received: ReceivedRequest) -> Fault:
        """Return the fault of a request, and log its name."""
        fault = DROPPED if request.protocol in self._poisoned else self.faults.take(received.op)
        self._poisoned.discard(request.protocol)
        if fault is None:
            return NO_FAULT
        received.fault = fault.name
        if received.create:
            received.create.fault = fault.name
        return fault

    async def _respond(
        self, origin: Origin, request: web.BaseRequest, received: ReceivedRequest, answer: Answer, fault: Fault
    ) -> web.StreamResponse:
        if fault.stalls is None:
            await origin.wait_closed(request)
        elif fault.stalls:
            await self.clock.sleep(fault.stalls)
        if fault.ends:
            return close_connection(request, reset=fault.ends == "reset")
        answer = fault.changes(answer)
        if fault.raw is None and request.transport is not None:
            received.status, received.request_id = answer.status, _new_request_id()
            answer = _with_request_id(answer, received.request_id)
            if received.create:
                received.create.status = answer.status
        return await send(request, answer, fault)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _answer_failure(what: str, error: Exception) -> Answer:
    """Log an exception of the sandbox itself, and return the answer for it."""
    logger.error("the sandbox could not answer %s", what, exc_info=error)
    return Answer.error(500, "SANDBOX_FAILED", f"the sandbox itself failed: {_describe(error)}")


def _new_request_id() -> str:
    return f"req_{secrets.token_hex(8)}"


def _with_request_id(answer: Answer, request_id: str) -> Answer:
    return answer.with_headers({"x-request-id": request_id})


def _parse(raw: bytes) -> Any:
    try:
        return json_codec.read(raw)
    except ValueError:
        return None


def _headers_for(headers: Mapping[str, str], fault: Fault) -> Mapping[str, str]:
    """Return the request's headers; if the fault changes ranges, without the Range or with another."""
    if fault.ranges is None or "Range" not in headers:
        return headers
    others = {name: value for name, value in headers.items() if name.lower() not in ("range", "if-range")}
    return others if fault.ranges == "ignored" else others | {"Range": f"bytes={fault.ranges}-"}
