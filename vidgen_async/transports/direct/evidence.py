"""The evidence of whether a request was sent, from aiohttp's trace signals, and the gate before its first byte.

aiohttp's exception classes do not show whether bytes were sent; its trace signals do. ``on_request_headers_sent`` is
awaited when the connection is ready and before the first byte is even assembled: waiting there holds the request back,
and raising there closes the connection with nothing sent. *Not sent* is concluded only from a signal of the connect
phase of the same call; a patched session that sends no signals proves nothing.
"""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import aiohttp

from vidgen_async.transports.direct.pending_send import PendingSend
from vidgen_async.types.http import Delivery, Phase, Probe

_Hook = Callable[[aiohttp.ClientSession, SimpleNamespace, object], Awaitable[None]]


class GateError(Exception):
    """Carries what the gate raised through aiohttp, which would wrap an OSError and repeat some requests."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class NoRetryError(Exception):
    """Carries a lost connection through aiohttp, which would otherwise silently resend GET, PUT, DELETE …"""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class SendEvidence:
    """Records what the signals of one send show, at once, on its probe."""

    def __init__(self, probe: Probe, pending: PendingSend, *, body_length: int) -> None:
        self.probe = probe
        self._pending = pending
        self._unwritten = body_length
        self._is_seen = False

    def reach(self, phase: Phase) -> None:
        """A signal of the connect phase."""
        self._is_seen = True
        if self.probe.delivery is Delivery.NOT_SENT:
            self.probe.phase = phase

    async def pass_gate(self) -> None:
        """The connection is ready and nothing was sent. Return when the request may be sent."""
        self._is_seen = True
        self._check_connection()
        try:
            await self.probe.pass_gate()
        except Exception as error:
            raise GateError(error) from error
        self._check_connection()
        self.write(0)

    def _check_connection(self) -> None:
        """Data received before the request is not its response; and nothing can be sent on a closed connection."""
        connection = self._pending.connection
        if connection is not None and (connection.has_received or not connection.is_connected()):
            message = "it was closed, or data was received on it, before the request"
            raise NoRetryError(aiohttp.ServerDisconnectedError(message))

    def write(self, size: int) -> None:
        """``size`` more bytes of the body are about to be written."""
        self._unwritten -= size
        # A response can be received while the body is still being sent; then the probe is in a later phase.
        if self._unwritten <= 0 and self.probe.delivery is Delivery.MAYBE_SENT:
            self.probe.phase = Phase.WAIT

    def record_failure(self) -> None:
        """The send failed or was cancelled inside aiohttp: without a signal, nothing is proven."""
        if self._is_seen:
            self.probe.record_not_sent(self.probe.phase)
        else:
            self.probe.learn(Delivery.MAYBE_SENT)


async def send_only_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Client middleware: one request on the wire. aiohttp has no option that disables its own retry."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise NoRetryError(error) from error


def make_trace() -> aiohttp.TraceConfig:
    """Signals for the :class:`SendEvidence` that is passed as ``trace_request_ctx``."""
    trace = aiohttp.TraceConfig()
    trace.on_connection_queued_start.append(_record_phase(Phase.POOL))
    trace.on_connection_create_start.append(_record_phase(Phase.CONNECT))
    trace.on_dns_resolvehost_start.append(_record_phase(Phase.DNS))
    trace.on_dns_resolvehost_end.append(_record_phase(Phase.CONNECT))
    trace.on_connection_create_end.append(_record_phase(Phase.CONNECT))
    trace.on_request_headers_sent.append(_on_headers)
    trace.on_request_chunk_sent.append(_on_chunk)
    return trace


def _record_phase(phase: Phase) -> _Hook:
    async def hook(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
        _evidence(context).reach(phase)

    return hook


async def _on_headers(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    await _evidence(context).pass_gate()


async def _on_chunk(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestChunkSentParams
) -> None:
    _evidence(context).write(len(params.chunk))


def _evidence(context: SimpleNamespace) -> SendEvidence:
    evidence: SendEvidence = context.trace_request_ctx
    return evidence
