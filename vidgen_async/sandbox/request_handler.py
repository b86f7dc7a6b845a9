"""Handles one request from its head to its end: log it, read it, answer it, and apply its fault."""

import asyncio
import logging
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from http.client import responses

import aiohttp
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from attrs import define, field

from vidgen_async.sandbox.endpoints import Operation
from vidgen_async.sandbox.faults import Fault, made_up_answer
from vidgen_async.sandbox.http import Answer, Call, Refusal, Route, find, find_route
from vidgen_async.sandbox.input_rules import InvalidInputError
from vidgen_async.sandbox.listener import Origin
from vidgen_async.sandbox.request_log import LOGGED_BODY, OnRequest, ReceivedRequest
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.state_file import StateError
from vidgen_async.sandbox.web.pages import HEADERS, Page, Pages, answer_page, check_access

logger = logging.getLogger(__name__)

NO_FAULT = Fault(name="none")
DROPPED = Fault(name="drop after", made=False, ends="close")
#: The largest body in bytes, also for the sandbox's pages. The sandbox's own limit: the description sets none.
BODY_LIMIT = 1 << 20
#: The limits of operations that differ: an upload is an image in Base64.
BODY_LIMITS = {"files.create": 64 << 20}
#: Seconds between two pieces of a slow answer, or two checks of a connection.
TICK = 0.02


async def read_body(request: web.BaseRequest, limit: int) -> bytes:
    """Return the whole body; a Refusal (413) as soon as it is known to have more than ``limit`` bytes."""
    too_large = Refusal(413, "BODY_TOO_LARGE", f"the body must be at most {limit} bytes")
    incomplete = Refusal(400, "BODY_INCOMPLETE", "the connection was closed before the end of the body")
    if request.transport is None:
        if request.content.is_eof():
            return await request.content.read()
        raise incomplete
    if (request.content_length or 0) > limit:
        raise too_large
    if request.headers.get("Expect", "").lower() == "100-continue":
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    try:
        while piece := await request.content.readany():
            body += piece
            if len(body) > limit:
                raise too_large
    except (ConnectionError, aiohttp.ClientError, web.RequestPayloadError):
        raise incomplete from None
    return bytes(body)


def close_connection(request: web.BaseRequest, *, reset: bool = False) -> web.Response:
    """Close the connection without sending more, with a RST for ``reset``. The returned response is never sent."""
    transport = request.transport
    if transport is not None and reset:
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    elif transport is not None:
        transport.close()
    return web.Response()


async def send(request: web.BaseRequest, answer: Answer, fault: Fault) -> web.StreamResponse:
    """Send ``answer``, cut off, slowly or replaced by raw bytes if the fault requires it."""
    if fault.raw is not None:
        return await _write(request, fault.raw)
    if fault.cuts is None and fault.rate is None and "content-length" not in map(str.lower, answer.headers):
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
    end = int(len(answer.body) * fault.cuts) if isinstance(fault.cuts, float) else fault.cuts
    return await _write(request, _head(answer), answer.body[:end], fault.rate)


def _head(answer: Answer) -> bytes:
    framed = Answer(0, b"", {"Content-Length": str(len(answer.body)), "Connection": "close"})
    lines = [f"{name}: {value}\r\n" for name, value in framed.with_headers(answer.headers).headers.items()]
    first = f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Unknown')}\r\n"
    return f"{first}{''.join(lines)}\r\n".encode("latin-1", "replace")


async def _write(request: web.BaseRequest, head: bytes, body: bytes = b"", rate: float | None = None) -> web.Response:
    """Send the body at once, or at a ``rate`` one piece per tick, or single bytes at longer intervals."""
    transport = request.transport
    size = max(1, int(rate * TICK)) if rate else len(body) + 1
    if transport is not None:
        transport.write(head)
        for at in range(0, len(body), size):
            if transport.is_closing():
                break
            transport.write(body[at : at + size])
            await asyncio.sleep(size / rate if rate else 0)
    return close_connection(request)


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
    _is_unsaved: bool = field(default=False, init=False)

    async def answer(self, origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if origin.name == "service":
            page = find(self.pages, path)
            if page or f"{path}/".startswith("/sandbox/"):
                return await self._answer_page(request, *(page or ({}, {})))
        started = time.monotonic()
        route, at = find_route(origin.name, request.method, path), self.sandbox.clock.now()
        received = ReceivedRequest(origin.name, route.op, request.method, request.raw_path, at, request.headers)
        self.sandbox.add_request(received)
        fault = self._take_fault(request, received)
        self.on_request(received)
        try:
            answer = await self._complete(request, self._serve(request, received, route, fault), received)
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
        return await Operation(self.sandbox, call, self.sandbox.clock.now()).handle(route, create)

    async def _answer_page(
        self, request: web.BaseRequest, methods: Mapping[str, Page], names: Mapping[str, str]
    ) -> web.StreamResponse:
        async def answer() -> Answer:
            check_access(request.method, request.headers, self.host, self.sandbox.assets.addresses.public_url)
            call = _call(request, names, request.headers, await read_body(request, BODY_LIMIT))
            return await answer_page(self.pages, methods, request.method, call)

        page = await self._complete(request, answer())
        headers = {**HEADERS, **page.headers, "x-request-id": _new_request_id()}
        return await send(request, page.with_headers(headers), NO_FAULT)

    async def _complete(
        self, request: web.BaseRequest, pending: Awaitable[Answer], received: ReceivedRequest | None = None
    ) -> Answer:
        """Return the answer, once its changes are stored, without an await in between."""
        try:
            answer = await pending
        except Refusal as refusal:
            answer = refusal.answer
        except InvalidInputError as error:
            answer = Answer.error(400, "INVALID_PARAMETER", str(error))
        except Exception as error:
            logger.error("the sandbox could not answer %s", received.op if received else "a page", exc_info=error)
            described = f"{type(error).__name__}: {error}"
            if received:
                received.error = described
            answer = Answer.error(500, "SANDBOX_FAILED", f"the sandbox itself failed: {described}")
        try:
            # A read changes the time alone. Up to speed 1 the stored time passes as fast.
            if request.method not in ("GET", "HEAD") or self.sandbox.clock.speed > 1 or self._is_unsaved:
                self._is_unsaved = True
                self.save()
                self._is_unsaved = False
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
