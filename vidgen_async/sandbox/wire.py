"""Reads requests from connections and sends answers, also with faults."""

import asyncio
import socket
import struct
from http import HTTPStatus

import aiohttp
from aiohttp import web

from vidgen_async.sandbox.faults import Fault
from vidgen_async.sandbox.responses import Answer, Refusal

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
    try:
        reason = HTTPStatus(answer.status).phrase
    except ValueError:
        reason = "Unknown"
    framed = Answer(0, b"", {"Content-Length": str(len(answer.body)), "Connection": "close"})
    lines = [f"{name}: {value}\r\n" for name, value in framed.with_headers(answer.headers).headers.items()]
    return f"HTTP/1.1 {answer.status} {reason}\r\n{''.join(lines)}\r\n".encode("latin-1", "replace")


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
