"""One request from its head to its end: recorded, read, carried out, and answered as the faults demand."""

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from attrs import define, field

from vidgen_async.sandbox import json_codec
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.endpoints import Call, Endpoints
from vidgen_async.sandbox.faults import Fault, FaultPlan, lookalike
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.request_log import OnRequest, OriginName, ReceivedRequest, RequestLog
from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.routes import Route, find_route
from vidgen_async.sandbox.store.state_file import StateError
from vidgen_async.sandbox.web import access_control
from vidgen_async.sandbox.web.pages import FoundPage, PageCall, Pages
from vidgen_async.sandbox.wire import hang_up, read_body, send

WELL_BEHAVED = Fault(name="none")
DROPPED = Fault(name="drop after", made=False, ends="close")
#: Bytes of a body, for the sandbox's own pages too. The sandbox's own: the description sets no limit.
BODY_LIMIT = 1 << 20
#: Of an upload, which is a whole picture in Base64.
BODY_LIMITS = {"files.create": 64 << 20}


@define(kw_only=True)
class Exchanges:
    """Everything that is asked and answered, in order of arrival."""

    clock: SandboxClock
    endpoints: Endpoints
    faults: FaultPlan
    pages: Pages
    #: Called before an answer goes out; raises StateError when what was made could not be kept.
    keep: Callable[[], None]
    on_request: OnRequest
    log: RequestLog
    _poisoned: set[RequestHandler] = field(factory=set)

    async def answer(self, origin: Origin, name: OriginName, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request that arrived at ``origin``."""
        path, _, query = request.raw_path.partition("?")
        if name == "service" and (found := self.pages.find(path)) is not None:
            return await self._show(request, found, query)
        route = find_route(name, request.method, path)
        received = ReceivedRequest(name, route.op, request.method, request.raw_path, self.clock.now(), request.headers)
        self.log.add(received)
        fault = self._fault(request, route.op)
        self._note_fault(received, fault)
        self.on_request(received)
        try:
            return await self._serve(origin, request, received, route, fault)
        finally:
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
            return hang_up(request)
        if create and fault.reads:
            create.raw, create.body, create.body_arrived = raw, _parsed(raw), True
        if fault.poisons:
            self._poisoned.add(request.protocol)
        path, _, query = request.raw_path.partition("?")
        call = Call(route, path, query, _headers_for(request.headers, fault), raw, create)
        answer = await self._carried_out(call) if fault.made else lookalike(route.op)
        return await self._respond(origin, request, received, answer, fault)

    async def _carried_out(self, call: Call) -> Answer:
        answer = await self.endpoints.carry_out(call)
        # Nothing waits in between: nobody sees what was made before it is kept.
        return self._kept(answer)

    def _kept(self, answer: Answer) -> Answer:
        try:
            self.keep()
        except StateError as error:
            return Answer.error(503, "STATE_NOT_STORED", str(error))
        return answer

    async def _show(self, request: web.BaseRequest, found: FoundPage, query: str) -> web.StreamResponse:
        try:
            self.pages.check(request.method, request.headers)
            raw = await read_body(request, BODY_LIMIT)
            if raw is None:
                return hang_up(request)
            answer = await self.pages.answer(found, PageCall(request.method, query, request.headers, raw))
        except Refusal as refusal:
            answer = refusal.answer
        return await send(request, access_control.marked(self._kept(answer)), WELL_BEHAVED)

    def _fault(self, request: web.BaseRequest, op: str) -> Fault:
        if request.protocol in self._poisoned:
            self._poisoned.discard(request.protocol)
            return DROPPED
        return self.faults.take(op) or WELL_BEHAVED

    def _note_fault(self, received: ReceivedRequest, fault: Fault) -> None:
        if fault is WELL_BEHAVED:
            return
        received.fault = fault.name
        if received.create:
            received.create.fault = fault.name

    async def _respond(
        self, origin: Origin, request: web.BaseRequest, received: ReceivedRequest, answer: Answer, fault: Fault
    ) -> web.StreamResponse:
        if fault.stalls is None:
            await origin.wait_gone(request)
        elif fault.stalls:
            await self.clock.sleep(fault.stalls)
        if fault.ends:
            return hang_up(request, reset=fault.ends == "reset")
        answer = fault.changes(answer)
        if fault.raw is None and request.transport is not None:
            received.status = answer.status
            if received.create:
                received.create.status = answer.status
        return await send(request, answer, fault)


def _parsed(raw: bytes) -> Any:
    try:
        return json_codec.read_strictly(raw)
    except ValueError:
        return None


def _headers_for(headers: Mapping[str, str], fault: Fault) -> Mapping[str, str]:
    """The request's headers, without or with another Range if the fault says so."""
    if fault.ranges is None or "Range" not in headers:
        return headers
    kept = {name: value for name, value in headers.items() if name.lower() not in ("range", "if-range")}
    return kept if fault.ranges == "ignored" else kept | {"Range": f"bytes={fault.ranges}-"}
