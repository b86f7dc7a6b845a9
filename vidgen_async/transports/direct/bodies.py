"""The body of a request while it is sent, and the body of a response while it is received."""

import asyncio
import io
import warnings
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Self

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from vidgen_async.errors import BodyError
from vidgen_async.transports.base import BaseResponse, Chunks
from vidgen_async.transports.direct.connections import PlainResponse
from vidgen_async.transports.direct.failures import is_time_limit, reason, secrets_of, where, with_cause
from vidgen_async.types.http import CHUNK, LONGEST_ANSWER, Body, Headers, Request

#: Those that requests ask for.
CONTENT_CODINGS = ("gzip", "deflate")
#: What these stand for in practice: gzip or zlib, and raw deflate.
_WINDOWS = (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)
_MEMBER = b"\x1f\x8b"


class StreamedBody:
    """A large body, which aiohttp reads in chunks, so that a cancelled send stops soon. Not a generator: one that is
    dropped early leaves nothing for the event loop to finish. ``stop`` ends the send when no chunk is read within
    ``limit`` seconds: aiohttp applies its read timeout only after the body. ``error`` is what the body raised."""

    def __init__(self, body: Body, stop: asyncio.Timeout, limit: float | None) -> None:
        self._chunks = body.open()
        self._left = body.length
        self._rest = memoryview(b"")
        self._is_busy = False
        self.error: Exception | None = None
        self._stop = stop
        self.limit = limit

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            chunk = await self._next()
            if self.limit is not None:
                self._stop.reschedule(None if chunk is None else asyncio.get_running_loop().time() + self.limit)
            if chunk is None:
                raise StopAsyncIteration
            self._rest = memoryview(chunk)
        head, self._rest = self._rest[:CHUNK], self._rest[CHUNK:]
        return bytes(head)

    @property
    def is_read(self) -> bool:
        """Whether the whole body was read, and so is written after the present chunk."""
        return not self._left and not self._rest

    async def _next(self) -> bytes | None:
        self._is_busy = True
        try:
            chunk = await anext(self._chunks, None)
            self._left -= len(chunk or b"")
            if self._left < 0 or (chunk is None and self._left):
                # With fewer bytes than declared the service would wait for the rest; more would be truncated silently.
                which = "longer" if self._left < 0 else "shorter"
                raise ValueError(f"the body is {which} than the length that it declares")
        except Exception as error:
            self.error = error
            raise
        finally:
            self._is_busy = False
        return chunk

    async def aclose(self) -> None:
        """Close the body's iterator, unless aiohttp's writer is reading it: that one ends it when it is cancelled."""
        close = getattr(self._chunks, "aclose", None)
        if close is not None and not self._is_busy:
            await close()


class DirectResponse(BaseResponse):
    """A response from the network. ``received`` of its BodyErrors counts the bytes that were returned to the reader."""

    def __init__(
        self,
        answer: aiohttp.ClientResponse | PlainResponse,
        request: Request,
        upload: StreamedBody | None = None,
        proxy: URL | None = None,
    ) -> None:
        super().__init__(answer.status, answer.headers, request.url)
        self._answer = answer
        self._request = request
        self._upload = upload
        self._proxy = proxy
        self._received = 0
        # A caller that asks for an encoding gets the bytes as received: lengths and ranges count those.
        self._is_encoded = "Content-Encoding" in self.headers and "Accept-Encoding" not in request.headers
        self._decoded: io.BytesIO | None = None
        self._reader: object = None
        """Identifies the iterator that reads the body as chunks."""
        self._is_closed = False
        self._is_aborted = False

    async def read(self) -> bytes:
        content = self._answer.content
        is_new = self._body is None and self._reader is None and not self._is_closed and not self._is_encoded
        if is_new and content.is_eof() and content.exception() is None:
            # The whole body has been received: no read timeout, no chunks.
            self._body = content.read_nowait()
            self._received = len(self._body)
            return self._body
        return await super().read()

    def _open(self, size: int) -> AsyncIterator[bytes]:
        return Chunks(partial(self._read_decoded if self._is_encoded else self._read_chunk, object(), size))

    async def _read_decoded(self, reader: object, size: int) -> bytes | None:
        """A chunk of the body without its compression; the first one when all of the body was received."""
        if self._decoded is None or self._is_closed or self._reader is not reader:
            body = bytearray()
            while chunk := await self._read_chunk(reader, CHUNK):
                body += chunk
                if len(body) > LONGEST_ANSWER:
                    raise self._body_error(f"the compressed body is longer than {LONGEST_ANSWER} bytes")
            try:
                self._decoded = io.BytesIO(decompress(bytes(body), self.headers))
            except ValueError as error:
                raise self._body_error(str(error)) from None
        return self._decoded.read(size) or None

    async def _read_chunk(self, reader: object, size: int) -> bytes | None:
        if self._is_closed or self._reader not in (None, reader):
            raise self._body_error("the body was already read as chunks, or the response is closed")
        self._reader = reader
        try:
            chunk = await self._read(size)
        except (aiohttp.ClientError, OSError, HttpProcessingError) as error:
            self._answer.close()
            _drop_tracebacks(error)
            failure = self._failure_of(error)
        else:
            self._received += len(chunk)
            return chunk or None
        try:
            raise failure  # outside of the except block: aiohttp's error is not its context
        finally:
            del failure  # its traceback references this frame

    async def _read(self, size: int) -> bytes:
        content = self._answer.content
        if content.is_eof():
            return await content.read(size)
        # A malformed HTTP chunk leaves aiohttp's reader waiting indefinitely, without its own read timeout.
        limit = asyncio.timeout(self._request.timeouts.read)
        try:
            async with limit:
                return await content.read(size)
        except TimeoutError:
            if limit.expired():
                raise aiohttp.SocketTimeoutError from None
            raise

    def _failure_of(self, error: Exception) -> BodyError:
        known = secrets_of(self._request, self._proxy)
        if self._is_aborted:
            what = "the transport was closed before the whole body was received"
        elif is_time_limit(error):
            is_pause = isinstance(error, aiohttp.SocketTimeoutError)
            does = "sent no more of the body" if is_pause else "did not send its whole answer"
            what = f"{where(self._request)} {does} {self._request.timeouts.within('read' if is_pause else 'answer')}"
        elif isinstance(error, HttpProcessingError):
            what = f"the body is not HTTP ({reason(error, known)})"
        else:
            what = f"the connection was lost within the body ({reason(error, known)})"
        return with_cause(self._body_error(what), error, known)

    def _body_error(self, what: str) -> BodyError:
        op, received = self._request.op, self._received
        return BodyError(f"{op}: {what}; {received} bytes were received", op=op, received=received)

    def abort(self) -> None:
        """The transport is closed: a pending read raises BodyError."""
        self._is_aborted = True
        self._answer.close()

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._answer.closed and self._upload is None:
            # The whole body was read: the connection is back in its pool.
            return
        self._answer.release()
        try:
            with suppress(aiohttp.ClientError, OSError):
                await self._answer.wait_for_close()
        finally:
            if self._upload is not None:
                await self._upload.aclose()

    def __del__(self) -> None:
        if not self._answer.closed:
            self._answer.close()  # before the warning, which may be raised as an error
            message = f"{self._request.op}: the response was never closed"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)


def _drop_tracebacks(error: BaseException | None) -> None:
    """aiohttp's reader references the error, whose tracebacks reference the reader."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__


# -- compressed bodies: one rule, whatever the versions of aiohttp make of them ----------------------------------------


def decompress(body: bytes, headers: Headers) -> bytes:
    """The body without the gzip or deflate compression that its headers name. Members of gzip data that follow each
    other are one body; other bytes after a whole member are ignored. ValueError if it is not compressed so, incomplete,
    damaged, or longer than ``LONGEST_ANSWER``."""
    codings = headers.get("Content-Encoding", "").lower().split(",")
    for coding in reversed(codings):
        if body and coding.strip().removeprefix("x-") in CONTENT_CODINGS:
            body = _inflate(body)
    return body


def _inflate(body: bytes) -> bytes:
    for window in _WINDOWS:
        data, rest = bytearray(), body
        with suppress(zlib.error):
            while True:
                member = zlib.decompressobj(window)
                data += member.decompress(rest, LONGEST_ANSWER + 1 - len(data))
                rest = member.unused_data
                if not member.eof or len(data) > LONGEST_ANSWER:
                    break
                if not rest.startswith(_MEMBER):
                    return bytes(data)
    raise ValueError("the compressed body is incomplete, damaged or too long")
