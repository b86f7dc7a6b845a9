"""A transport that calls a function: no network, for tests and experiments."""

from collections.abc import Awaitable, Callable

from vidgen_async.errors import TransportClosedError
from vidgen_async.transports.base import BufferedResponse
from vidgen_async.types.http import Delivery, Phase, Probe, Request


class FakeTransport:
    """Returns or raises what ``handler(request)`` does; ``requests`` are the requests that it received.

    The gate is passed before the handler is called, as if a connection had just become ready; ``before_gate`` may raise
    to simulate an earlier failure.
    """

    honours_gate = True

    def __init__(
        self,
        handler: Callable[[Request], Awaitable[BufferedResponse]],
        *,
        before_gate: Callable[[Request], Awaitable[None]] | None = None,
    ) -> None:
        self._handler = handler
        self._before_gate = before_gate
        self._closed = False
        self.requests: list[Request] = []

    async def send(self, request: Request, *, probe: Probe | None = None) -> BufferedResponse:
        probe = probe or Probe()
        try:
            if self._closed:
                message = f"{request.op}: the transport is closed"
                raise TransportClosedError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)
            if self._before_gate is not None:
                await self._before_gate(request)
        except BaseException:
            probe.record_not_sent(Phase.CONNECT)
            raise
        await probe.pass_gate()
        self.requests.append(request)
        response = await self._handler(request)
        probe.learn(Delivery.ANSWERED, Phase.BODY)
        return response

    async def aclose(self) -> None:
        self._closed = True
