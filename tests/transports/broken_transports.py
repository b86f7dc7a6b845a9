"""Transports that break the contract, each in one way that is common in practice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from attrs import evolve

from vidgen_async.errors import BodyError, TransportError
from vidgen_async.transports.base import BufferedResponse, Connection, Response, WrappingTransport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Delivery, Request, make_headers


class Faultless(WrappingTransport):
    """The base class of the broken ones."""

    def __init__(self) -> None:
        super().__init__(DirectTransport())


class IsNoTransport:
    def __init__(self) -> None:
        inner = DirectTransport()
        self.send, self.connect, self.aclose = inner.send, inner.connect, inner.aclose


class SendsInConnect(Faultless):
    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        async def respond() -> Response:
            return response

        response = await self.send(request)
        yield Connection(respond)


class ClaimsThatConnectSends(Faultless):
    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        try:
            async with self.inner.connect(request) as connection:
                yield connection
        except TransportError as error:
            error.delivery = Delivery.MAYBE_SENT
            raise


class SendsAsOftenAsItIsCalled(Faultless):
    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        connection = Connection(partial(self.send, request))
        connection.send = connection._send
        yield connection


class LeavesItsConnectionOpen(Faultless):
    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        self.block = self.inner.connect(request)
        yield await self.block.__aenter__()


class SwallowsWhatIsRaisedInTheBlock(Faultless):
    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        with suppress(OSError):
            async with self.inner.connect(request) as connection:
                yield connection


class SwallowsCancellation(Faultless):
    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        with suppress(BaseException):
            async with self.inner.connect(request) as connection:
                yield connection


class TriesAgain(Faultless):
    async def send(self, request: Request) -> Response:
        try:
            return await self.inner.send(request)
        except TransportError:
            return await self.inner.send(request)


class FollowsRedirects(Faultless):
    async def send(self, request: Request) -> Response:
        response = await self.inner.send(request)
        if "Location" not in response.headers:
            return response
        await response.aclose()
        return await self.inner.send(evolve(request, url=request.url.with_path(response.headers["Location"])))


class WaitsForTheBody(Faultless):
    async def send(self, request: Request) -> Response:
        async with await self.inner.send(request) as response:
            body = await response.read()
        return BufferedResponse(response.status, body, headers=response.headers, url=response.url)


class EndsBrokenBodies(Faultless):
    async def send(self, request: Request) -> Response:
        response = await self.inner.send(request)

        async def pieces() -> AsyncIterator[bytes]:
            with suppress(BodyError):
                async for piece in response.chunks():
                    yield piece

        return BufferedResponse(
            response.status, pieces(), headers=response.headers, url=response.url, on_close=response.aclose
        )


class LosesHeaders(Faultless):
    async def send(self, request: Request) -> Response:
        response = await self.inner.send(request)
        headers = make_headers(dict(response.headers))
        return BufferedResponse(
            response.status, response.chunks(), headers=headers, url=response.url, on_close=response.aclose
        )


class RaisesWhatItLikes(Faultless):
    async def send(self, request: Request) -> Response:
        try:
            return await self.inner.send(request)
        except TransportError as error:
            raise OSError(str(error)) from error


class TakesEvidenceBack(Faultless):
    async def send(self, request: Request) -> Response:
        try:
            return await self.inner.send(request)
        except TransportError as error:
            error.delivery = Delivery.NOT_SENT
            raise


class OutlivesItsClosing(Faultless):
    async def aclose(self) -> None:
        await self.inner.aclose()
        self.inner = DirectTransport()
