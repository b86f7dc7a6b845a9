"""Transports that break the contract, each in one way that is common in practice."""

from collections.abc import AsyncIterator
from contextlib import suppress

from attrs import evolve

from vidgen_async.errors import BodyError, TransportError
from vidgen_async.transports.base import BufferedResponse, Response
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Delivery, Probe, Request, make_headers


class Faultless:
    """The base class of the broken ones."""

    honours_gate = True

    def __init__(self) -> None:
        self.inner = DirectTransport()

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        return await self.inner.send(request, probe=probe)

    async def aclose(self) -> None:
        await self.inner.aclose()


class SwallowsTheProbe(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        return await self.inner.send(request)


class PassesTheGateUnsaid(Faultless):
    honours_gate = False


class PassesTheGateTooLate(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        response = await self.inner.send(request)
        if probe is not None:
            await probe.pass_gate()
            probe.learn(Delivery.ANSWERED)
        return response


class TriesAgain(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        try:
            return await self.inner.send(request, probe=probe)
        except TransportError:
            return await self.inner.send(request)


class FollowsRedirects(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        response = await self.inner.send(request, probe=probe)
        if "Location" not in response.headers:
            return response
        await response.aclose()
        return await self.inner.send(evolve(request, url=request.url.with_path(response.headers["Location"])))


class WaitsForTheBody(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        async with await self.inner.send(request, probe=probe) as response:
            body = await response.read()
        return BufferedResponse(response.status, body, headers=response.headers, url=response.url)


class EndsBrokenBodies(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        response = await self.inner.send(request, probe=probe)

        async def pieces() -> AsyncIterator[bytes]:
            with suppress(BodyError):
                async for piece in response.chunks():
                    yield piece

        return BufferedResponse(
            response.status, pieces(), headers=response.headers, url=response.url, on_close=response.aclose
        )


class LosesHeaders(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        response = await self.inner.send(request, probe=probe)
        headers = make_headers(dict(response.headers))
        return BufferedResponse(
            response.status, response.chunks(), headers=headers, url=response.url, on_close=response.aclose
        )


class RaisesWhatItLikes(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        try:
            return await self.inner.send(request, probe=probe)
        except TransportError as error:
            raise OSError(str(error)) from error


class TakesEvidenceBack(Faultless):
    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        try:
            return await self.inner.send(request, probe=probe)
        except TransportError as error:
            error.delivery = Delivery.NOT_SENT
            raise


class OutlivesItsClosing(Faultless):
    async def aclose(self) -> None:
        await self.inner.aclose()
        self.inner = DirectTransport()
