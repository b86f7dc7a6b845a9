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


def explain(error: Exception, request: Request, probe: Probe | None) -> TransportError:
    """The TransportError for what aiohttp raised. Without a probe (a read) nothing is claimed about delivery."""
    is_connecting = probe is not None and probe.delivery is Delivery.NOT_SENT
    kind, phase, what = _cause(error, request, is_connecting=is_connecting)
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


def _cause(error: Exception, request: Request, *, is_connecting: bool) -> tuple[type[TransportError], Phase, str]:
    host = where(request)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectError, Phase.CONNECT, f"no connection to {host} {within(request.timeouts.connect)}"
        case aiohttp.ClientConnectorDNSError():
            what = f"the name {request.url.host} was not resolved ({_reason(error.os_error)})"
            return ConnectError, Phase.DNS, what
        case aiohttp.ClientConnectorCertificateError():
            what = f"the certificate of {host} was not accepted ({_reason(error.certificate_error)})"
            return ConnectError, Phase.CONNECT, what
        case aiohttp.ServerFingerprintMismatch():
            return ConnectError, Phase.CONNECT, f"the certificate of {host} has another fingerprint than the pinned one"
        case aiohttp.ClientProxyConnectionError():
            return ConnectError, Phase.CONNECT, f"the proxy on the way to {host} {_outcome_of(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            what = f"the proxy on the way to {host} refused ({error.status} {excerpt(error.message)})"
            return ConnectError, Phase.CONNECT, what
        case aiohttp.ClientConnectorError():
            return ConnectError, Phase.CONNECT, f"connection to {host} {_outcome_of(error.os_error)}"
        case _ if is_connecting:
            # A proxy that closed the connection or sent no HTTP, a socket that failed in the TLS handshake …
            return ConnectError, Phase.CONNECT, f"connection to {host} failed ({_reason(error)})"
    return _cause_after_connecting(error, request)


def _cause_after_connecting(error: Exception, request: Request) -> tuple[type[TransportError], Phase, str]:
    host = where(request)
    match error:
        case TimeoutError():
            return ResponseTimeoutError, Phase.WAIT, f"no response from {host} {within(request.timeouts.read)}"
        case aiohttp.ClientResponseError():
            # Its status (400) is aiohttp's for a response that cannot be parsed, not the service's.
            return ProtocolError, Phase.WAIT, f"the response of {host} is not HTTP ({excerpt(error.message)})"
        case aiohttp.InvalidURL():
            return TransportError, Phase.BUILD, "the URL was not accepted"
        case aiohttp.ServerDisconnectedError():
            return ConnectionLostError, Phase.WAIT, f"{host} closed the connection without a response"
    return (
        ConnectionLostError,
        Phase.WAIT,
        f"the connection to {host} was lost before a response was received ({_reason(error)})",
    )


def within(limit: float | None) -> str:
    return "in time" if limit is None else f"within {limit:g} s"


def _outcome_of(error: OSError) -> str:
    return "refused" if error.errno == errno.ECONNREFUSED else f"failed ({_reason(error)})"


def _reason(error: BaseException) -> str:
    return excerpt(str(error)) or type(error).__name__
