"""How a careful send knows what left: the places in aiohttp that tell, and the one that holds the first byte back.

aiohttp's exception classes mislead in both directions; its trace signals do not. ``on_request_headers_sent`` is
awaited when the connection is up and before the first byte is even put together, so waiting there holds the request
back, and raising there closes the connection with nothing sent. That nothing left is concluded only from a signal of
the connect phase of this very call; a session that somebody patched, and that sends no signals, proves nothing.
"""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import aiohttp

from vidgen_async.transports.direct.pending_send import Flight
from vidgen_async.types.http import Delivery, Phase, Probe

_Hook = Callable[[aiohttp.ClientSession, SimpleNamespace, object], Awaitable[None]]


class GateRefusedError(Exception):
    """Carries what the gate raised through aiohttp, which would wrap an OSError and repeat some requests."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class BrokenOffError(Exception):
    """Carries a lost connection through aiohttp, which would silently send GET, PUT, DELETE … a second time."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Evidence:
    """What the signals told about one send; writes it into the probe as it comes."""

    def __init__(self, probe: Probe, flight: Flight, *, body_length: int) -> None:
        self.probe = probe
        self._flight = flight
        self._unwritten = body_length
        self._is_seen = False

    def reach(self, phase: Phase) -> None:
        """A signal of the connect phase."""
        self._is_seen = True
        if self.probe.delivery is Delivery.NOT_SENT:
            self.probe.phase = phase

    async def pass_gate(self) -> None:
        """The connection is up and nothing has left. Returns when it may."""
        self._is_seen = True
        self._check_connection()
        try:
            await self.probe.pass_gate()
        except Exception as error:
            raise GateRefusedError(error) from error
        self._check_connection()
        self.write(0)

    def _check_connection(self) -> None:
        """What arrives before the request is no answer to it; and nothing can be sent on a closed connection."""
        connection = self._flight.connection
        if connection is not None and (connection.has_received or not connection.is_connected()):
            message = "it was closed, or something arrived on it, before the request"
            raise BrokenOffError(aiohttp.ServerDisconnectedError(message))

    def write(self, size: int) -> None:
        """``size`` more bytes of the body are about to be written."""
        self._unwritten -= size
        # An answer can come while the body still goes out; then the probe has moved on.
        if self._unwritten <= 0 and self.probe.delivery is Delivery.MAYBE_SENT:
            self.probe.phase = Phase.WAIT

    def conclude(self) -> None:
        """The send failed or was cancelled inside aiohttp: without any signal, nothing is proven."""
        if self._is_seen:
            self.probe.record_not_sent(self.probe.phase)
        else:
            self.probe.learn(Delivery.MAYBE_SENT)


async def send_only_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Client middleware: one request on the wire. There is no switch for aiohttp's own second try."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise BrokenOffError(error) from error


def make_trace() -> aiohttp.TraceConfig:
    """Signals that feed the :class:`Evidence` handed in as ``trace_request_ctx``."""
    trace = aiohttp.TraceConfig()
    trace.on_connection_queued_start.append(_reaches(Phase.POOL))
    trace.on_connection_create_start.append(_reaches(Phase.CONNECT))
    trace.on_dns_resolvehost_start.append(_reaches(Phase.DNS))
    trace.on_dns_resolvehost_end.append(_reaches(Phase.CONNECT))
    trace.on_connection_create_end.append(_reaches(Phase.CONNECT))
    trace.on_request_headers_sent.append(_headers_go_out)
    trace.on_request_chunk_sent.append(_chunk_goes_out)
    return trace


def _reaches(phase: Phase) -> _Hook:
    async def hook(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
        _evidence(context).reach(phase)

    return hook


async def _headers_go_out(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    await _evidence(context).pass_gate()


async def _chunk_goes_out(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestChunkSentParams
) -> None:
    _evidence(context).write(len(params.chunk))


def _evidence(context: SimpleNamespace) -> Evidence:
    evidence: Evidence = context.trace_request_ctx
    return evidence
