"""Both bodies of an exchange: the request's, on its way out, and the answer's, on its way in."""

import asyncio
import io
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Self

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from vidgen_async.errors import BodyError
from vidgen_async.redaction.messages import excerpt
from vidgen_async.transports.base import ClosedOnLeaving
from vidgen_async.transports.direct.failures import showable, where
from vidgen_async.types.http import CHUNK, Body, Headers, Request


class Upload:
    """A large body as aiohttp pulls it, piece by piece, so that a cancelled send stops soon.

    Not a generator: what is dropped half-way needs no help from the event loop. ``error`` is what the body raised;
    ``on_piece`` is called with whether another piece follows.
    """

    def __init__(self, body: Body) -> None:
        self._pieces = body.open()
        self._left = body.length
        self._rest = memoryview(b"")
        self._is_busy = False
        self.error: Exception | None = None
        self.on_piece: Callable[[bool], None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            piece = await self._next()
            if self.on_piece is not None:
                self.on_piece(piece is not None)
            if piece is None:
                raise StopAsyncIteration
            self._rest = memoryview(piece)
        head, self._rest = self._rest[:CHUNK], self._rest[CHUNK:]
        return bytes(head)

    async def _next(self) -> bytes | None:
        self._is_busy = True
        try:
            piece = await anext(self._pieces, None)
            self._left -= len(piece or b"")
            if self._left < 0 or (piece is None and self._left):
                # Fewer bytes than announced would leave the service waiting, more would be cut off in silence.
                message = f"the body is {'longer' if self._left < 0 else 'shorter'} than it said"
                raise ValueError(message)
        except Exception as error:
            self.error = error
            raise
        finally:
            self._is_busy = False
        return piece

    async def aclose(self) -> None:
        """Close the body's own iterator, once nobody is inside it: a cancelled writer that is ends it by itself."""
        close = getattr(self._pieces, "aclose", None)
        if close is not None and not self._is_busy:
            await close()


class DirectResponse(ClosedOnLeaving):
    """An answer as it comes from the network. ``received`` of its BodyErrors counts the bytes that were handed on."""

    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        request: Request,
        upload: Upload | None = None,
        on_close: Callable[["DirectResponse"], None] | None = None,
    ) -> None:
        self._answer = answer
        self._request = request
        self._upload = upload
        self._on_close = on_close
        self._body: bytes | None = None
        self._received = 0
        self._reader: _Pieces | None = None
        self._is_closed = False
        self._is_cut = False

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Headers:
        return self._answer.headers

    @property
    def url(self) -> URL:
        return self._request.url

    def __repr__(self) -> str:
        return f"DirectResponse({self._request.op}, {self.status})"

    async def read(self) -> bytes:
        if self._body is None:
            content = self._answer.content
            if content.is_eof() and content.exception() is None and self._reader is None and not self._is_closed:
                # It is all here: no limit for silence, no pieces.
                self._body = content.read_nowait()
                self._received = len(self._body)
            else:
                self._body = b"".join([piece async for piece in self.chunks()])
        return self._body

    def chunks(self, size: int = CHUNK) -> AsyncIterator[bytes]:
        if self._body is None:
            return _Pieces(self._take, size)
        kept = io.BytesIO(self._body)

        async def take(reader: _Pieces) -> bytes:
            return kept.read(reader.size)

        return _Pieces(take, size)

    async def _take(self, reader: "_Pieces") -> bytes:
        if self._is_closed or self._reader not in (None, reader):
            raise self._broken("the body has been taken already, or the response is closed")
        self._reader = reader
        try:
            piece = await self._read(reader.size)
        except (aiohttp.ClientError, OSError, HttpProcessingError) as error:
            self._answer.close()
            _forget_frames(error)
            raise self._broken(self._what_broke(error)) from showable(error)
        self._received += len(piece)
        return piece

    async def _read(self, size: int) -> bytes:
        content = self._answer.content
        if content.is_eof():
            return await content.read(size)
        # A chunk that is no HTTP leaves aiohttp's reader waiting for ever, without its own limit for silence.
        async with asyncio.timeout(self._request.timeouts.read):
            return await content.read(size)

    def _what_broke(self, error: Exception) -> str:
        if self._is_cut:
            return "the transport was closed while the body was coming"
        if isinstance(error, TimeoutError):
            return f"{where(self._request)} fell silent in the middle of the body"
        return f"the body broke off ({excerpt(str(error))})"

    def _broken(self, what: str) -> BodyError:
        message = f"{self._request.op}: {what}; {self._received} bytes were received"
        return BodyError(message, op=self._request.op, received=self._received)

    def cut(self) -> None:
        """The transport closes: whoever reads gets a BodyError."""
        self._is_cut = True
        self._answer.close()

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._reader = None  # which holds the response
        if self._on_close is not None:
            self._on_close(self)
        if self._answer.closed and self._upload is None:
            # Read to the end: the connection went back to its pool already.
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
            self._answer.close()  # first: the warning may be raised as an error
            warnings.warn(
                f"{self._request.op}: the response was never closed", ResourceWarning, stacklevel=2, source=self
            )


def _forget_frames(error: BaseException | None) -> None:
    """aiohttp's reader keeps the error, whose tracebacks would keep the reader."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__


class _Pieces:
    """Not a generator: leaving an ``async for`` half-way leaves nothing behind for the event loop to finish."""

    def __init__(self, take: Callable[["_Pieces"], Awaitable[bytes]], size: int) -> None:
        self._take = take
        self.size = size

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._take(self)
        if not piece:
            raise StopAsyncIteration
        return piece
