"""Handles one request from its head to its end: log it, read it, answer it, and apply its fault."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from attrs import define, field

from vidgen_async.sandbox.endpoints import Endpoints
from vidgen_async.sandbox.faults import Fault, made_up_answer
from vidgen_async.sandbox.input_rules import InvalidInputError
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.request_log import LOGGED_BODY, OnRequest, ReceivedRequest
from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.routes import Call, Route, find, find_route
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.state_file import StateError
from vidgen_async.sandbox.web.pages import HEADERS, Page, Pages, answer_page, check_access
from vidgen_async.sandbox.wire import TICK, close_connection, read_body, send

logger = logging.getLogger(__name__)

NO_FAULT = Fault(name="none")
DROPPED = Fault(name="drop after", made=False, ends="close")
#: The largest body in bytes, also for the sandbox's pages. The sandbox's own limit: the description sets none.
BODY_LIMIT = 1 << 20
#: The limits of operations that differ: an upload is an image in Base64.
BODY_LIMITS = {"files.create": 64 << 20}


@define(kw_only=True)
class RequestDispatcher:
    sandbox: SandboxState
    pages: Pages
    #: The address at which the sandbox listens, as it was given.
    host: str
    #: Called before each answer is sent; raises StateError if the changes could not be stored.
    save: Callable[[], None]
    on_request: OnRequest
    _poisoned: set[RequestHandler] = field(factory=set)

    async def answer(self, origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if origin.name == "service":
            page = find(self.pages, path)
            if page or f"{path}/".startswith("/sandbox/"):
                return await self._answer_page(request, *(page or ({}, {})))
        started = time.monotonic()
        route, at = find_route(origin.name, request.method, path), self.sandbox.clock.now()
        received = ReceivedRequest(origin.name, route.op, request.method, request.raw_path, at, request.headers)
        self.sandbox.log.add(received)
        fault = self._take_fault(request, received)
        self.on_request(received)
        try:
            answer = await self._complete(received.op, self._serve(request, received, route, fault), received)
            return await self._respond(request, received, answer, fault)
        finally:
            received.milliseconds = (time.monotonic() - started) * 1000
            received.is_over = True
            self.on_request(received)

    async def _serve(self, request: web.BaseRequest, received: ReceivedRequest, route: Route, fault: Fault) -> Answer:
        create, raw = received.create, b""
        if fault.reads:
            raw = await read_body(request, BODY_LIMITS.get(route.op, BODY_LIMIT))
            received.body, received.size = raw[:LOGGED_BODY], len(raw)
            if create:
                create.arrive(raw)
        if fault.poisons:
            self._poisoned.add(request.protocol)
        if not fault.made:
            return made_up_answer(route.op)
        call = _call(request, route.names, _headers_for(request.headers, fault), raw)
        return await Endpoints(self.sandbox).handle(route, call, create)

    async def _answer_page(
        self, request: web.BaseRequest, methods: Mapping[str, Page], names: Mapping[str, str]
    ) -> web.StreamResponse:
        async def answer() -> Answer:
            check_access(request.method, request.headers, self.host, self.sandbox.assets.addresses.public_url)
            call = _call(request, names, request.headers, await read_body(request, BODY_LIMIT))
            return await answer_page(self.pages, methods, request.method, call)

        page = await self._complete("a page of its own", answer())
        headers = {**HEADERS, **page.headers, "x-request-id": _new_request_id()}
        return await send(request, page.with_headers(headers), NO_FAULT)

    async def _complete(self, what: str, pending: Awaitable[Answer], received: ReceivedRequest | None = None) -> Answer:
        """Return the answer, once the changes are stored. No await in between: no request sees a change before."""
        try:
            answer = await pending
        except Refusal as refusal:
            answer = refusal.answer
        except InvalidInputError as error:
            answer = Answer.error(400, "INVALID_PARAMETER", str(error))
        except Exception as error:
            logger.error("the sandbox could not answer %s", what, exc_info=error)
            described = f"{type(error).__name__}: {error}"
            if received:
                received.error = described
            answer = Answer.error(500, "SANDBOX_FAILED", f"the sandbox itself failed: {described}")
        try:
            self.save()
        except StateError as error:
            return Answer.error(503, "STATE_NOT_STORED", str(error))
        return answer

    def _take_fault(self, request: web.BaseRequest, received: ReceivedRequest) -> Fault:
        fault = DROPPED if request.protocol in self._poisoned else self.sandbox.faults.take(received.op)
        self._poisoned.discard(request.protocol)
        if fault is None:
            return NO_FAULT
        received.fault = fault.name
        if received.create:
            received.create.fault = fault.name
        return fault

    async def _respond(
        self, request: web.BaseRequest, received: ReceivedRequest, answer: Answer, fault: Fault
    ) -> web.StreamResponse:
        await self.sandbox.clock.sleep(fault.stalls or 0)
        while fault.stalls is None and request.transport is not None:  # noqa: ASYNC110 - aiohttp has no event for it
            await asyncio.sleep(TICK)
        if fault.ends:
            return close_connection(request, reset=fault.ends == "reset")
        answer = fault.changes(answer)
        if fault.raw is None and request.transport is not None:
            received.status, received.request_id = answer.status, _new_request_id()
            answer = answer.with_headers({"x-request-id": received.request_id})
            if received.create:
                received.create.status = answer.status
        return await send(request, answer, fault)


def _new_request_id() -> str:
    return f"req_{secrets.token_hex(8)}"


def _call(request: web.BaseRequest, names: Mapping[str, str], headers: Mapping[str, str], raw: bytes) -> Call:
    path, _, query = request.raw_path.partition("?")
    return Call(names, path, query, headers, raw)


def _headers_for(headers: Mapping[str, str], fault: Fault) -> Mapping[str, str]:
    """Return the request's headers; if the fault changes ranges, without the Range or with another."""
    if fault.ranges is None or "Range" not in headers:
        return headers
    others = {name: value for name, value in headers.items() if name.lower() not in ("range", "if-range")}
    return others if fault.ranges == "ignored" else others | {"Range": f"bytes={fault.ranges}-"}
