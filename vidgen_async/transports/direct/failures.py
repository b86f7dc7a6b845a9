"""Errors of the network as one sentence each. What they say of the delivery is the progress of the send, as aiohttp's
signals show it; it is never guessed from a class."""

import errno
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TypeVar

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from attrs import mutable
from yarl import URL

from vidgen_async.errors import (
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    ResponseTimeoutError,
    TransportClosedError,
    TransportError,
)
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import excerpt, showable
from vidgen_async.types.http import CHUNK, BytesBody, Delivery, Phase, Request

E = TypeVar("E", bound=TransportError)

_DELIVERY_TEXT = {
    Delivery.NOT_SENT: "no byte of the request was sent",
    Delivery.MAYBE_SENT: "the service may have received the request",
    Delivery.ANSWERED: "the service had begun its response",
}


@mutable
class Progress:
    """How far the send of a create has got."""

    delivery: Delivery = Delivery.NOT_SENT
    phase: Phase = Phase.BUILD


def secrets_of(request: Request, proxy: URL | None = None) -> KnownValues | None:
    """The secrets that the other side received and may return; None if the body is too long to be searched:
    then no text of the other side is shown."""
    if request.body is not None and (not isinstance(request.body, BytesBody) or request.body.length > CHUNK):
        return None
    return KnownValues(_secrets_of(request, proxy))


def _secrets_of(request: Request, proxy: URL | None) -> Iterator[str]:
    from vidgen_async.redaction.secret_names import (  # noqa: PLC0415 - needed for messages only
        Kind,
        is_secret_in_request,
        kind_of,
        names_a_secret,
    )

    for name, value in request.headers.items():
        if is_secret_in_request(name):
            yield value
            yield value.partition(" ")[2]
    for name, value in request.url.query.items():
        if names_a_secret(name, value, is_in_query=True):
            yield value
    if isinstance(request.body, BytesBody):
        with suppress(ValueError, RecursionError, AttributeError):
            for name, value in json.loads(request.body.data).items():
                if isinstance(value, str) and kind_of(name) in (Kind.PROMPT, Kind.SECRET):
                    yield value
    if proxy is not None and proxy.password:
        yield proxy.password
        yield f"{proxy.user or ''}:{proxy.password}"


def where(request: Request) -> str:
    return f"{request.url.host}:{request.url.port}"


def unsendable(request: Request, problem: str, error: Exception | None = None) -> TransportError:
    """The request cannot be made; it never reached the network."""
    failure = _make_error(TransportError, f"the request cannot be sent: {problem}", request, Progress(), Phase.BUILD)
    return with_cause(failure, error, KnownValues())


def explain(
    error: Exception,
    request: Request,
    progress: Progress | None,
    proxy: URL | None = None,
    *,
    is_connection_reused: bool = False,
) -> TransportError:
    """The TransportError for what aiohttp raised. Without a progress (a read) nothing is claimed about delivery."""
    known = secrets_of(request, proxy)
    explained = with_cause(_explain(error, request, progress, known), error, known)
    if is_connection_reused and isinstance(explained, ConnectionLostError):
        # Where a part of a response was received, aiohttp's message is what it had parsed of it.
        explained.is_reused = isinstance(getattr(error, "message", ""), str)
    return explained


def _explain(
    error: Exception, request: Request, progress: Progress | None, known: KnownValues | None
) -> TransportError:
    if (what := _connect_failure(error, request, known)) is not None:
        phase = Phase.DNS if isinstance(error, aiohttp.ClientConnectorDNSError) else Phase.CONNECT
        return _make_error(ConnectError, what, request, progress, phase)
    host = where(request)
    if progress is not None and progress.delivery is Delivery.NOT_SENT:
        # A proxy that closed the connection or sent no HTTP, a socket that failed in the TLS handshake …
        what = f"connection to {host} failed ({reason(error, known)})"
        return _make_error(ConnectError, what, request, progress, Phase.CONNECT)
    kind: type[TransportError] = ConnectionLostError
    phase = Phase.WAIT
    match error:
        case aiohttp.SocketTimeoutError():
            kind, what = ResponseTimeoutError, f"no response from {host} {request.timeouts.within('read')}"
        case TimeoutError() if is_time_limit(error):
            kind, what = ResponseTimeoutError, f"no whole response from {host} {request.timeouts.within('answer')}"
        case aiohttp.ClientResponseError():
            # Its status (400) is aiohttp's for a response that cannot be parsed, not the service's.
            kind, what = ProtocolError, f"the response of {host} is not HTTP ({reason(error, known)})"
        case aiohttp.InvalidURL():
            kind, phase, what = TransportError, Phase.BUILD, "the URL was not accepted"
        case aiohttp.ServerDisconnectedError():
            what = f"{host} closed the connection without a response"
        case _:
            what = f"the connection to {host} was lost before a response was received ({reason(error, known)})"
    return _make_error(kind, what, request, progress, phase)


def body_failed(error: Exception, request: Request, progress: Progress | None) -> TransportError:
    """The request's own body raised ``error`` while it was being sent."""
    what = f"the body of the request could not be read ({excerpt(str(error)) or type(error).__name__})"
    return with_cause(_make_error(TransportError, what, request, progress, Phase.SEND), error, KnownValues())


def closed(
    request: Request,
    progress: Progress | None,
    error: BaseException | None = None,
    *,
    what: str = "the transport was closed",
) -> TransportError:
    """The transport (or the session that it was given) was closed before or during the request."""
    failure = _make_error(TransportClosedError, what, request, progress, Phase.WAIT)
    return with_cause(failure, error, secrets_of(request))


def cancelled(request: Request, progress: Progress) -> TransportError:
    return _make_error(TransportError, "it was cancelled", request, progress, progress.phase)


def upload_stalled(request: Request, progress: Progress | None, error: Exception) -> TransportError:
    what = f"{where(request)} read no more of the body {request.timeouts.within('read')}"
    failure = _make_error(ResponseTimeoutError, what, request, progress, Phase.SEND)
    return with_cause(failure, error, secrets_of(request))


def with_cause(failure: E, error: BaseException | None, known: KnownValues | None) -> E:
    """The failure with its cause: one that is expected of a network as a note, any other chained. aiohttp quotes
    responses and signed URLs: nothing of ``known`` is shown, and nothing of the other side if it is None."""
    if isinstance(error, aiohttp.ClientError | HttpProcessingError | OSError):
        name, text = type(error).__name__, reason(error, known)
        failure.add_note(f"(cause: {name})" if text == name else f"(cause: {name}: {text})")
    else:
        failure.__cause__ = showable(error, known or (), may_show=partial(_may_show, is_known=known is not None))
    return failure


def _may_show(error: BaseException, *, is_known: bool) -> bool:
    # The request_info of a ClientResponseError, which is part of its repr, has all headers, the API key among them.
    return not isinstance(error, aiohttp.ClientResponseError) and (is_known or _is_of_system(error))


def _is_of_system(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno is not None)


def _make_error(
    kind: type[TransportError], what: str, request: Request, progress: Progress | None, phase: Phase
) -> TransportError:
    if progress is None:
        return kind(f"{request.op}: {what}", delivery=Delivery.MAYBE_SENT, phase=phase, op=request.op)
    message = f"{request.op}: {what}; {_DELIVERY_TEXT[progress.delivery]}"
    return kind(message, delivery=progress.delivery, phase=progress.phase, op=request.op)


def _connect_failure(error: Exception, request: Request, known: KnownValues | None) -> str | None:
    """What happened, if aiohttp's exception is one of the connect phase."""
    host = where(request)
    name = f"name {request.url.host}"
    if isinstance(error, aiohttp.ClientConnectorError) and error.host != request.url.raw_host:
        name, host = f"name {error.host} of the proxy", f"the proxy {error.host}:{error.port} on the way to {host}"
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {host} {request.timeouts.within('connect')}"
        case aiohttp.ClientConnectorDNSError():
            return f"the {name} was not resolved ({reason(error.os_error, known)})"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {host} was not accepted ({reason(error.certificate_error, known)})"
        case aiohttp.ServerFingerprintMismatch():
            return f"the certificate of {host} has another fingerprint than the pinned one"
        case aiohttp.ClientProxyConnectionError():
            proxy = f"the proxy {error.host}:{error.port} on the way to {where(request)}"
            return f"{proxy} {_outcome_of(error.os_error, known)}"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy on the way to {host} refused ({error.status} {reason(error, known)})"
        case aiohttp.ClientConnectorError():
            return f"connection to {host} {_outcome_of(error.os_error, known)}"
    return None


def is_time_limit(error: Exception) -> bool:
    """Whether it is the end of a time limit of the request, not one of the operating system."""
    return isinstance(error, TimeoutError) and error.errno is None


def _outcome_of(error: OSError, known: KnownValues | None) -> str:
    return "refused" if error.errno == errno.ECONNREFUSED else f"failed ({reason(error, known)})"


def reason(error: BaseException, known: KnownValues | None) -> str:
    """The message of an error, which may quote the other side."""
    text = error.message if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError) else str(error)
    if known is None and not _is_of_system(error):
        text = ""
    return excerpt(text, known or ()) or type(error).__name__
