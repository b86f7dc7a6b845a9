"""Errors of the network as one sentence each. The evidence is that of the probe, never guessed from a class."""

import errno

import aiohttp

from vidgen_async.errors import (
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    ResponseTimeoutError,
    TransportClosedError,
    TransportError,
)
from vidgen_async.redaction.messages import excerpt, hide_secrets
from vidgen_async.types.http import Delivery, Phase, Probe, Request

_DELIVERY_TEXT = {
    Delivery.NOT_SENT: "no byte of the request was sent",
    Delivery.MAYBE_SENT: "the service may have received the request",
    Delivery.ANSWERED: "the service had begun its response",
}


def where(request: Request) -> str:
    """``host:port`` of the request."""
    return f"{request.url.host}:{request.url.port}"


def unsendable(request: Request, problem: str, error: Exception | None = None) -> TransportError:
    """The request cannot be made; it never reached the network."""
    return _make_error(TransportError, f"the request cannot be sent: {problem}", request, Probe(), Phase.BUILD, error)


def explain(
    error: Exception, request: Request, probe: Probe | None, *, is_connection_reused: bool = False
) -> TransportError:
    """The TransportError for what aiohttp raised. Without a probe (a read) nothing is claimed about delivery."""
    explained = _explain(error, request, probe)
    if is_connection_reused and isinstance(explained, ConnectionLostError):
        # Where a part of a response was received, aiohttp's message is what it had parsed of it.
        explained.is_reused = isinstance(getattr(error, "message", ""), str)
    return explained


def _explain(error: Exception, request: Request, probe: Probe | None) -> TransportError:
    if (what := _connect_failure(error, request)) is not None:
        phase = Phase.DNS if isinstance(error, aiohttp.ClientConnectorDNSError) else Phase.CONNECT
        return _make_error(ConnectError, what, request, probe, phase, error)
    host = where(request)
    if probe is not None and probe.delivery is Delivery.NOT_SENT:
        # A proxy that closed the connection or sent no HTTP, a socket that failed in the TLS handshake …
        what = f"connection to {host} failed ({_reason(error)})"
        return _make_error(ConnectError, what, request, probe, Phase.CONNECT, error)
    kind: type[TransportError] = ConnectionLostError
    phase = Phase.WAIT
    match error:
        case TimeoutError():
            kind, what = ResponseTimeoutError, f"no response from {host} {within(request.timeouts.read)}"
        case aiohttp.ClientResponseError():
            # Its status (400) is aiohttp's for a response that cannot be parsed, not the service's.
            kind, what = ProtocolError, f"the response of {host} is not HTTP ({excerpt(error.message)})"
        case aiohttp.InvalidURL():
            kind, phase, what = TransportError, Phase.BUILD, "the URL was not accepted"
        case aiohttp.ServerDisconnectedError():
            what = f"{host} closed the connection without a response"
        case _:
            what = f"the connection to {host} was lost before a response was received ({_reason(error)})"
    return _make_error(kind, what, request, probe, phase, error)


def body_failed(error: Exception, request: Request, probe: Probe | None) -> TransportError:
    """The request's own body raised ``error`` while it was being sent."""
    what = f"the body of the request could not be read ({_reason(error)})"
    return _make_error(TransportError, what, request, probe, Phase.SEND, error)


def closed(
    request: Request,
    probe: Probe | None,
    error: BaseException | None = None,
    *,
    what: str = "the transport was closed",
) -> TransportError:
    """The transport (or the session that it was given) was closed before or during the request."""
    return _make_error(TransportClosedError, what, request, probe, Phase.WAIT, error)


def upload_stalled(request: Request, probe: Probe | None, error: Exception) -> TransportError:
    """The service stopped reading the body."""
    what = f"{where(request)} read no more of the body {within(request.timeouts.read)}"
    return _make_error(ResponseTimeoutError, what, request, probe, Phase.SEND, error)


def showable(error: BaseException | None) -> BaseException | None:
    """``error`` if its message may be shown (aiohttp quotes whole URLs, signed ones too), else its cause."""
    while error is not None and (
        # Its request_info, which is part of its repr, has all headers, the API key among them.
        isinstance(error, aiohttp.ClientResponseError) or hide_secrets(str(error)) != str(error)
    ):
        error = error.__cause__
    return error


def _make_error(
    kind: type[TransportError],
    what: str,
    request: Request,
    probe: Probe | None,
    phase: Phase,
    error: BaseException | None,
) -> TransportError:
    delivery = Delivery.MAYBE_SENT if probe is None else probe.delivery
    fate = "" if probe is None else f"; {_DELIVERY_TEXT[delivery]}"
    failure = kind(
        f"{request.op}: {what}{fate}", delivery=delivery, phase=phase if probe is None else probe.phase, op=request.op
    )
    failure.__cause__ = showable(error)
    return failure


def _connect_failure(error: Exception, request: Request) -> str | None:
    """What happened, if aiohttp's exception is one of the connect phase."""
    host = where(request)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {host} {within(request.timeouts.connect)}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name {request.url.host} was not resolved ({_reason(error.os_error)})"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {host} was not accepted ({_reason(error.certificate_error)})"
        case aiohttp.ServerFingerprintMismatch():
            return f"the certificate of {host} has another fingerprint than the pinned one"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy on the way to {host} {_outcome_of(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy on the way to {host} refused ({error.status} {excerpt(error.message)})"
        case aiohttp.ClientConnectorError():
            return f"connection to {host} {_outcome_of(error.os_error)}"
    return None


def within(limit: float | None) -> str:
    return "in time" if limit is None else f"within {limit:g} s"


def _outcome_of(error: OSError) -> str:
    return "refused" if error.errno == errno.ECONNREFUSED else f"failed ({_reason(error)})"


def _reason(error: BaseException) -> str:
    return excerpt(str(error)) or type(error).__name__
