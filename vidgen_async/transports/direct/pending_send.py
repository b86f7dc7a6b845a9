"""A send that is in progress: the arguments for aiohttp, and how the send is aborted."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from vidgen_async.errors import ConnectionLostError, TransportError
from vidgen_async.transports.direct import failures
from vidgen_async.transports.direct.bodies import StreamedBody
from vidgen_async.transports.direct.connections import GuardedProtocol
from vidgen_async.types.http import CHUNK, Body, Probe, Request, Timeouts

#: Headers that aiohttp makes itself. A session of the user's adds nothing else to a request.
_AUTOMATIC = frozenset(
    {"host", "accept", "accept-encoding", "user-agent", "content-length", "transfer-encoding", "connection"}
)


class RequestOptions:
    """The arguments for aiohttp that all requests with these headers and time limits share, as the polls of a client
    do: they are computed once."""

    __slots__ = ("headers", "options", "timeouts")

    def __init__(self, request: Request) -> None:
        self.headers = request.headers
        self.timeouts = request.timeouts
        self.options: dict[str, Any] = {
            "headers": request.headers,
            "timeout": _client_timeout(request.timeouts),
            "allow_redirects": False,
            "raise_for_status": False,
        }
        if "Accept-Encoding" in request.headers:
            # A caller that asks for an encoding gets the bytes as received: lengths and ranges count those.
            self.options["auto_decompress"] = False
        elif "json" not in request.headers.get("Accept", ""):
            self.options["skip_auto_headers"] = ("Accept-Encoding",)


class PendingSend:
    """A send in progress: its body, and the handle to abort it."""

    __slots__ = (
        "_cancels",
        "_options",
        "_task",
        "connection",
        "is_aborted",
        "is_on_new_connection",
        "probe",
        "request",
        "stop",
        "upload",
    )

    def __init__(self, request: Request, probe: Probe | None, options: RequestOptions) -> None:
        self.request = request
        self.probe = probe
        self._options = options
        self.stop = asyncio.timeout(None)
        self.is_aborted = False
        self.is_on_new_connection = False
        self.connection: GuardedProtocol | None = None
        """The one that was opened for this send, or None."""
        self.upload: StreamedBody | None = None
        self._task = asyncio.current_task()
        self._cancels = self._task.cancelling() if self._task else 0

    def set_connection(self, connection: GuardedProtocol) -> None:
        """A connection was opened for this send."""
        self.connection, self.is_on_new_connection = connection, True

    async def options(self) -> dict[str, Any]:
        """The arguments for aiohttp; opens the body."""
        request = self.request
        if request.body is None:
            return self._options.options
        headers = list(request.headers.items())
        if "Content-Type" not in request.headers:
            headers.append(("Content-Type", request.body.content_type))
        data = await self._open_body(request.body)
        if self.upload is not None and "Content-Length" not in request.headers:
            headers.append(("Content-Length", str(request.body.length)))
        return {**self._options.options, "headers": headers, "data": data}

    async def _open_body(self, body: Body) -> bytes | StreamedBody:
        """A small body as bytes; a larger one to be streamed."""
        try:
            if body.length <= CHUNK:
                return b"".join([piece async for piece in body.open()])
            self.upload = StreamedBody(body)
        except Exception as error:
            raise failures.unsendable(self.request, "its body could not be read", error) from error
        self.upload.on_chunk = self._on_chunk
        return self.upload

    def _on_chunk(self, is_more: bool) -> None:
        # aiohttp applies its read timeout only after the whole body; without this limit, a service that stops reading
        # would block the send indefinitely.
        limit = self.request.timeouts.read
        if limit is not None and not self.is_aborted:
            self.stop.reschedule(asyncio.get_running_loop().time() + limit if is_more else None)

    def is_cancelled_by_aiohttp(self) -> bool:
        """Whether a CancelledError was raised although the caller was not cancelled."""
        return self._task is not None and self._task.cancelling() <= self._cancels

    def explain(self, error: Exception) -> TransportError:
        """The TransportError for what aiohttp raised."""
        if self.is_aborted:
            return failures.closed(self.request, self.probe, error)
        if self.stop.expired():
            return failures.upload_stalled(self.request, self.probe, error)
        if self.upload is not None and self.upload.error is not None:
            return failures.body_failed(self.upload.error, self.request, self.probe, error)
        explained = failures.explain(error, self.request, self.probe)
        if isinstance(explained, ConnectionLostError) and self.probe is None and not self.is_on_new_connection:
            # Where a part of a response was received, aiohttp's message is what it had parsed of it.
            explained.is_reused = isinstance(getattr(error, "message", ""), str)
        return explained

    def stop_upload_limit(self) -> None:
        """The response has begun: the rest of the body has no time limit of its own."""
        if self.upload is not None:
            self.upload.on_chunk = None

    def abort(self) -> None:
        self.is_aborted = True
        # RuntimeError: the send has ended already.
        with suppress(RuntimeError):
            self.stop.reschedule(asyncio.get_running_loop().time())

    async def aclose(self) -> None:
        if self.upload is not None:
            await self.upload.aclose()


class ExactHeaders:
    """Client middleware for a session of the user's: sends the request's headers, and none of the session's."""

    def __init__(self, headers: Sequence[tuple[str, str]]) -> None:
        self._headers = headers

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        for name in {name.lower() for name in request.headers} - _AUTOMATIC:
            request.headers.popall(name)
        for name, value in self._headers:
            if name.lower() not in _AUTOMATIC:
                request.headers.add(name, value)
        return await handler(request)


def _client_timeout(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=timeouts.answer,
        connect=timeouts.connect,
        sock_connect=timeouts.connect,
        sock_read=timeouts.read,
    )
