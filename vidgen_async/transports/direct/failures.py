"""What went wrong on the network, said in one sentence. The evidence comes from the probe, never from a class."""

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

_FATE = {
    Delivery.NOT_SENT: "no byte of the request left",
    Delivery.MAYBE_SENT: "the service may have received the request",
    Delivery.ANSWERED: "the service had begun to answer",
}


def where(request: Request) -> str:
    """``host:port`` of the request."""
    return f"{request.url.host}:{request.url.port}"


def check_request(request: Request, *, checked: Headers | None = None) -> None:
    """TransportError for what cannot be sent at all. aiohttp looks at some of it only when bytes may have left.
    ``checked``: headers that were found good before."""
    url = request.url
    if url.scheme not in ("http", "https") or not url.host:
        problem = f"{hide_secrets(str(url))!r} is not a URL that starts with http:// or https:// and names a host"
    elif _NOT_IN_URL.search(str(url)):
        problem = "the URL holds a space or a control character"
    elif url.user is not None or url.password is not None:
        problem = "the URL holds a user name or password, which is never sent"
    elif not _TOKEN.fullmatch(request.method):
        problem = f"{request.method!r} is not an HTTP method"
    elif request.headers is checked:
        return
    else:
        for name, value in request.headers.items():
            if not _TOKEN.fullmatch(name) or _NOT_IN_HEADER.search(value):
                problem = f"the header {name!r} holds a character that no header may hold"
                break
        else:
            return
    raise unsendable(request, problem)


def unsendable(request: Request, problem: str, error: Exception | None = None) -> TransportError:
    """The request cannot be made; it never came to the network."""
    message = f"{request.op}: the request cannot be sent: {problem}; {_FATE[Delivery.NOT_SENT]}"
    told = TransportError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)
    told.__cause__ = showable(error)
    return told


def explain(error: Exception, request: Request, probe: Probe | None) -> TransportError:
    """The TransportError for what aiohttp raised. Without a probe (a read) nothing is claimed about delivery."""
    is_connecting = probe is not None and probe.delivery is Delivery.NOT_SENT
    kind, phase, what = _cause(error, request, is_connecting=is_connecting)
    return _tell(kind, what, request, probe, phase, error)


def body_failed(error: Exception, request: Request, probe: Probe | None, cause: Exception) -> TransportError:
    """The request's own body raised ``error`` while it was going out; aiohttp made ``cause`` of it."""
    what = f"the body of the request could not be read ({_reason(error)})"
    told = _tell(TransportError, what, request, probe, Phase.SEND, cause)
    told.__cause__ = showable(error)
    return told


def closed(
    request: Request,
    probe: Probe | None,
    error: BaseException | None = None,
    *,
    what: str = "the transport was closed",
) -> TransportError:
    """The transport (or the session it was given) was closed before the request or under it."""
    return _tell(TransportClosedError, what, request, probe, Phase.WAIT, error)


def upload_stalled(request: Request, probe: Probe | None, error: Exception) -> TransportError:
    """The service took no more of the body."""
    what = f"{where(request)} took no more of the body {_within(request.timeouts.read)}"
    return _tell(ResponseTimeoutError, what, request, probe, Phase.SEND, error)


def showable(error: BaseException | None) -> BaseException | None:
    """``error`` if its words may be shown; aiohttp quotes whole URLs, signed ones too. Else what was behind it."""
    while error is not None and (
        # Its request_info, which stands in its repr, holds all headers: the key among them.
        isinstance(error, aiohttp.ClientResponseError) or hide_secrets(str(error)) != str(error)
    ):
        error = error.__cause__
    return error


def _tell(
    kind: type[TransportError],
    what: str,
    request: Request,
    probe: Probe | None,
    phase: Phase,
    error: BaseException | None,
) -> TransportError:
    delivery = Delivery.MAYBE_SENT if probe is None else probe.delivery
    fate = "" if probe is None else f"; {_FATE[delivery]}"
    told = kind(
        f"{request.op}: {what}{fate}", delivery=delivery, phase=phase if probe is None else probe.phase, op=request.op
    )
    told.__cause__ = showable(error)
    return told


def _cause(error: Exception, request: Request, *, is_connecting: bool) -> tuple[type[TransportError], Phase, str]:
    host = where(request)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectError, Phase.CONNECT, f"no connection to {host} {_within(request.timeouts.connect)}"
        case aiohttp.ClientConnectorDNSError():
            what = f"the name {request.url.host} was not resolved ({_reason(error.os_error)})"
            return ConnectError, Phase.DNS, what
        case aiohttp.ClientConnectorCertificateError():
            what = f"the certificate of {host} was not accepted ({_reason(error.certificate_error)})"
            return ConnectError, Phase.CONNECT, what
        case aiohttp.ServerFingerprintMismatch():
            return ConnectError, Phase.CONNECT, f"the certificate of {host} has another fingerprint than the pinned one"
        case aiohttp.ClientProxyConnectionError():
            return ConnectError, Phase.CONNECT, f"the proxy on the way to {host} {_verdict(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            what = f"the proxy on the way to {host} refused ({error.status} {excerpt(error.message)})"
            return ConnectError, Phase.CONNECT, what
        case aiohttp.ClientConnectorError():
            return ConnectError, Phase.CONNECT, f"connection to {host} {_verdict(error.os_error)}"
        case _ if is_connecting:
            # A proxy that hung up or talked nonsense, a socket that failed in the TLS handshake …
            return ConnectError, Phase.CONNECT, f"connection to {host} failed ({_reason(error)})"
    return _cause_after_connecting(error, request)


def _cause_after_connecting(error: Exception, request: Request) -> tuple[type[TransportError], Phase, str]:
    host = where(request)
    match error:
        case TimeoutError():
            return ResponseTimeoutError, Phase.WAIT, f"no answer from {host} {_within(request.timeouts.read)}"
        case aiohttp.ClientResponseError():
            # Its status is aiohttp's word for "unreadable" (400), not the service's.
            return ProtocolError, Phase.WAIT, f"the answer of {host} is not HTTP ({excerpt(error.message)})"
        case aiohttp.InvalidURL():
            return TransportError, Phase.BUILD, "the URL was not accepted"
        case aiohttp.ServerDisconnectedError():
            return ConnectionLostError, Phase.WAIT, f"{host} closed the connection without an answer"
    return (
        ConnectionLostError,
        Phase.WAIT,
        f"the connection to {host} was lost before an answer came ({_reason(error)})",
    )


def _within(limit: float | None) -> str:
    return "in time" if limit is None else f"within {limit:g} s"


def _verdict(error: OSError) -> str:
    return "refused" if error.errno == errno.ECONNREFUSED else f"failed ({_reason(error)})"


def _root(error: Exception) -> BaseException:
    # aiohttp's "Can not write request body for <URL>" stands in front of what happened.
    return error.__cause__ if isinstance(error, OSError) and error.errno is None and error.__cause__ else error


def _reason(error: BaseException) -> str:
    return excerpt(str(error)) or type(error).__name__
