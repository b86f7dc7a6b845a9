"""One request from its head to its end: recorded, read, carried out, and answered as the faults demand."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from attrs import define, field

from vidgen_async.sandbox.answers import Answer
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.endpoints import Call, Endpoints
from vidgen_async.sandbox.faults import Fault, FaultPlan, lookalike
from vidgen_async.sandbox.origin import Origin
from vidgen_async.sandbox.pages import FoundPage, PageCall, Pages
from vidgen_async.sandbox.received import OriginName, ReceivedCreate, ReceivedRequest
from vidgen_async.sandbox.routes import find_route
from vidgen_async.sandbox.wire import hang_up, read_body, send

WELL_BEHAVED = Fault(name="none")
DROPPED = Fault(name="drop after", made=False, ends="close")
KEPT_REQUESTS = 20_000


@define(kw_only=True)
class Exchanges:
    """Everything that is asked and answered, in order of arrival."""

    clock: SandboxClock
    endpoints: Endpoints
    faults: FaultPlan
    pages: Pages
    creates: list[ReceivedCreate] = field(factory=list)
    requests: list[ReceivedRequest] = field(factory=list)
    _poisoned: set[RequestHandler] = field(factory=set)

    async def answer(self, origin: Origin, name: OriginName, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request that arrived at ``origin``."""
        path, _, query = request.raw_path.partition("?")
        if name == "service" and (found := self.pages.find(path)) is not None:
            return await self._show(request, found, query)
        route = find_route(name, request.method, path)
        create = self._record(name, route.op, request)
        fault = self._fault(request, route.op)
        if create and fault is not WELL_BEHAVED:
            create.fault = fault.name
        raw = await read_body(request) if fault.reads else b""
        if raw is None:
            return hang_up(request)
        if create and fault.reads:
            create.raw, create.body, create.body_arrived = raw, _parsed(raw), True
        if fault.poisons:
            self._poisoned.add(request.protocol)
        call = Call(route, path, query, _headers_for(request.headers, fault), raw, create)
        answer = await self.endpoints.carry_out(call) if fault.made else lookalike(route.op)
        return await self._respond(origin, request, create, answer, fault)

    async def _show(self, request: web.BaseRequest, found: FoundPage, query: str) -> web.StreamResponse:
        raw = await read_body(request)
        if raw is None:
            return hang_up(request)
        answer = await self.pages.answer(found, PageCall(request.method, query, request.headers, raw))
        return await send(request, answer, WELL_BEHAVED)

    def _fault(self, request: web.BaseRequest, op: str) -> Fault:
        if request.protocol in self._poisoned:
            self._poisoned.discard(request.protocol)
            return DROPPED
        return self.faults.take(op) or WELL_BEHAVED

    async def _respond(
        self,
        origin: Origin,
        request: web.BaseRequest,
        create: ReceivedCreate | None,
        answer: Answer,
        fault: Fault,
    ) -> web.StreamResponse:
        if fault.stalls is None:
            await origin.wait_gone(request)
        elif fault.stalls:
            await self.clock.sleep(fault.stalls)
        if fault.ends:
            return hang_up(request, reset=fault.ends == "reset")
        answer = fault.changes(answer)
        if create and fault.raw is None and request.transport is not None:
            create.status = answer.status
        return await send(request, answer, fault)

    def _record(self, origin: OriginName, op: str, request: web.BaseRequest) -> ReceivedCreate | None:
        now = self.clock.now()
        if len(self.requests) >= 2 * KEPT_REQUESTS:
            del self.requests[:KEPT_REQUESTS]
        self.requests.append(ReceivedRequest(origin, op, request.method, request.raw_path, now, request.headers))
        if op != "videos.create":
            return None
        key = request.headers.get("Idempotency-Key")
        self.creates.append(ReceivedCreate(len(self.creates) + 1, key, request.headers, now))
        return self.creates[-1]


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _headers_for(headers: Mapping[str, str], fault: Fault) -> Mapping[str, str]:
    """The request's headers, without or with another Range if the fault says so."""
    if fault.ranges is None or "Range" not in headers:
        return headers
    kept = {name: value for name, value in headers.items() if name.lower() not in ("range", "if-range")}
    return kept if fault.ranges == "ignored" else kept | {"Range": f"bytes={fault.ranges}-"}
