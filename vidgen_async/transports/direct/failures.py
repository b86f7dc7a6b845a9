"""Errors of the network as one sentence each. The evidence is that of the probe, never guessed from a class."""

import errno
import re

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
from vidgen_async.types.http import Delivery, Headers, Phase, Probe, Request

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")

_DELIVERY_TEXT = {
    Delivery.NOT_SENT: "no byte of the request was sent",
    Delivery.MAYBE_SENT: "the service may have received the request",
    Delivery.ANSWERED: "the service had begun its response",
}


def where(request: Request) -> str:
    """``host:port`` of the request."""
    return f"{request.url.host}:{request.url.port}"


def check_request(request: Request, *, checked: Headers | None = None) -> None:
    """TransportError for what cannot be sent at all; aiohttp checks some of this only when bytes may have been sent.
    ``checked``: headers that were found valid before."""
    url = request.url
    if url.scheme not in ("http", "https") or not url.host:
        problem = f"{hide_secrets(str(url))!r} is not a URL that starts with http:// or https:// and names a host"
    elif _NOT_IN_URL.search(str(url)):
        problem = "the URL contains a space or a control character"
    elif url.user is not None or url.password is not None:
        problem = "the URL contains a user name or password, which is never sent"
    elif not _TOKEN.fullmatch(request.method):
        problem = f"{request.method!r} is not an HTTP method"
    elif request.headers is checked:
        return
    else:
        for name, value in request.headers.items():
            if not _TOKEN.fullmatch(name) or _NOT_IN_HEADER.search(value):
                problem = f"the header {name!r} contains a character that is not allowed in headers"
                break
        else:
            return
    raise unsendable(request, problem)


def unsendable(request: Request, problem: str, error: Exception | None = None) -> TransportError:
    """The request cannot be made; it never reached the network."""
    message = f"{request.op}: the request cannot be sent: {problem}; {_DELIVERY_TEXT[Delivery.NOT_SENT]}"
    failure = TransportError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)
    failure.__cause__ = showable(error)
    return failure


def explain(error: Exception, request: Request, probe: Probe | None) -> TransportError:
    """The TransportError for what aiohttp raised. Without a probe (a read) nothing is claimed about delivery."""
    is_connecting = probe is not None and probe.delivery is Delivery.NOT_SENT
    kind, phase, what = _cause(error, request, is_connecting=is_connecting)
    return _make_error(kind, what, request, probe, phase, error)


def body_failed(error: Exception, request: Request, probe: Probe | None, cause: Exception) -> TransportError:
    """The request's own body raised ``error`` while it was being sent; aiohttp converted it to ``cause``."""
    what = f"the body of the request could not be read ({_reason(error)})"
    failure = _make_error(TransportError, what, request, probe, Phase.SEND, cause)
    failure.__cause__ = showable(error)
    return failure


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


def _root(error: Exception) -> BaseException:
    # aiohttp wraps what happened in "Can not write request body for <URL>".
    return error.__cause__ if isinstance(error, OSError) and error.errno is None and error.__cause__ else error


def _reason(error: BaseException) -> str:
    return excerpt(str(error)) or type(error).__name__
