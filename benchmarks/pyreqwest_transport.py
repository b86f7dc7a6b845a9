"""A second transport, as small as reads allow: GETs over pyreqwest, which is written in Rust, all else as ever.

It keeps the contract of transports. What one for every day would need besides is left out, and costs nothing here: the
time limits of single requests (the default ones hold), a look at the request before it goes, other event loops, forks.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import ClientClosedError, PyreqwestError
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response as Answer

from vidgen_async import errors
from vidgen_async.transports import BufferedResponse, DirectTransport, Response
from vidgen_async.types.http import Phase, Probe, Request, make_headers

#: pyreqwest calls silence and lost connections errors of connecting; what it was stands in the words behind them. Those
#: also hold the whole URL, signature included: its own errors are never shown.
_CAUSES = {
    "(Connect)": (errors.ConnectError, Phase.CONNECT, "no connection"),
    "timed out": (errors.ResponseTimeoutError, Phase.WAIT, "no answer in time"),
    "parsed": (errors.ProtocolError, Phase.WAIT, "the answer is not HTTP"),
    "": (errors.ConnectionLostError, Phase.WAIT, "the connection was lost before an answer came"),
}


class PyreqwestTransport:
    honours_gate = True

    def __init__(self) -> None:
        self._direct = DirectTransport()
        self._client: Client | None = None
        self._is_closed = False

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        if probe is not None or request.body is not None or self._is_closed:
            return await self._direct.send(request, probe=probe)
        client = self._client = self._client or _client()
        builder = client.request(request.method, str(request.url)).headers(list(request.headers.items()))
        # With any other limit it waits for the body before it tells the status.
        asked = builder.streamed_read_buffer_limit(0).build_streamed()
        try:
            answer = await asked.__aenter__()
        except PyreqwestError as error:
            raise _told(error, request) from None
        return _Response(request, asked, answer)

    async def aclose(self) -> None:
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await self._direct.aclose()


def _client() -> Client:
    """No redirect, no proxy, no decompression: the answers as they come."""
    builder = ClientBuilder().follow_redirects(False).referer(False).no_proxy().max_connections(100)
    builder = builder.gzip(False).brotli(False).zstd(False).deflate(False)
    return builder.connect_timeout(timedelta(seconds=10)).read_timeout(timedelta(seconds=60)).build()


class _Response(BufferedResponse):
    def __init__(self, request: Request, asked: StreamRequest, answer: Answer) -> None:
        headers, close = make_headers(answer.headers.items()), partial(asked.__aexit__, None, None, None)
        super().__init__(answer.status, self._come(), headers=headers, url=request.url, on_close=close)
        self._op, self._answer, self._received = request.op, answer, 0

    async def read(self) -> bytes:
        """At one go where nothing was taken yet: each wait for pyreqwest's thread costs."""
        if self._body is None and self._chunks is not None and not self._closed:
            self._chunks = None
            with self._breaks():
                self._body = (await self._answer.bytes()).to_bytes()
        return await super().read()

    async def _come(self) -> AsyncIterator[bytes]:
        with self._breaks():
            while piece := await self._answer.body_reader.read_chunk():
                self._received += len(piece)
                yield piece.to_bytes()

    @contextmanager
    def _breaks(self) -> Iterator[None]:
        try:
            yield
        except PyreqwestError:
            message = f"{self._op}: the body broke off; {self._received} bytes were received"
            raise errors.BodyError(message, op=self._op, received=self._received) from None


def _told(error: PyreqwestError, request: Request) -> errors.TransportError:
    if isinstance(error, ClientClosedError):
        return errors.TransportClosedError(f"{request.op}: the transport was closed", phase=Phase.WAIT, op=request.op)
    kind, phase, what = next(cause for words, cause in _CAUSES.items() if words in str(error))
    return kind(f"{request.op}: {what}", phase=phase, op=request.op)
