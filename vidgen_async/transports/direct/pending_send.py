"""One send under way: what aiohttp is asked for, and how the send is ended from outside."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from vidgen_async.errors import ConnectionLostError, TransportError
from vidgen_async.transports.direct import failures
from vidgen_async.transports.direct.bodies import Upload
from vidgen_async.transports.direct.connections import GuardedProtocol
from vidgen_async.types.http import CHUNK, Body, Probe, Request, Timeouts

#: Headers that aiohttp makes itself. From a session of the user's own, nothing else is added to a request.
_AUTOMATIC = frozenset(
    {"host", "accept", "accept-encoding", "user-agent", "content-length", "transfer-encoding", "connection"}
)


class Form:
    """What aiohttp is asked for by every request with these headers and time limits; the polls of a client share them,
    so that it is found out once."""

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
            # Who asks for an encoding gets the bytes as they come: lengths and ranges count those.
            self.options["auto_decompress"] = False
        elif "json" not in request.headers.get("Accept", ""):
            self.options["skip_auto_headers"] = ("Accept-Encoding",)


class Flight:
    """One send under way: its body, and the handle to end it from outside."""

    __slots__ = (
        "_cancels",
        "_form",
        "_task",
        "connection",
        "is_cut",
        "is_on_new_connection",
        "probe",
        "request",
        "stop",
        "upload",
    )

    def __init__(self, request: Request, probe: Probe | None, form: Form) -> None:
        self.request = request
        self.probe = probe
        self._form = form
        self.stop = asyncio.timeout(None)
        self.is_cut = False
        self.is_on_new_connection = False
        self.connection: GuardedProtocol | None = None
        """The one that was made for this send; None where none was, yet."""
        self.upload: Upload | None = None
        self._task = asyncio.current_task()
        self._cancels = self._task.cancelling() if self._task else 0

    def connected(self, connection: GuardedProtocol) -> None:
        """A connection was made for this send."""
        self.connection, self.is_on_new_connection = connection, True

    async def options(self) -> dict[str, Any]:
        """What aiohttp is asked for; opens the body."""
        request = self.request
        if request.body is None:
            return self._form.options
        headers = list(request.headers.items())
        if "Content-Type" not in request.headers:
            headers.append(("Content-Type", request.body.content_type))
        data = await self._open_body(request.body)
        if self.upload is not None and "Content-Length" not in request.headers:
            headers.append(("Content-Length", str(request.body.length)))
        return {**self._form.options, "headers": headers, "data": data}

    async def _open_body(self, body: Body) -> bytes | Upload:
        """A small body in one piece; a larger one to be pulled."""
        try:
            if body.length <= CHUNK:
                return b"".join([piece async for piece in body.open()])
            self.upload = Upload(body)
        except Exception as error:
            raise failures.unsendable(self.request, "its body could not be read", error) from error
        self.upload.on_piece = self._piece_goes_out
        return self.upload

    def _piece_goes_out(self, is_more: bool) -> None:
        # aiohttp counts silence only once the body is out; a service that takes nothing more would hold us for ever.
        limit = self.request.timeouts.read
        if limit is not None and not self.is_cut:
            self.stop.reschedule(asyncio.get_running_loop().time() + limit if is_more else None)

    def is_nobodys_cancel(self) -> bool:
        """Whether a CancelledError is here although nobody cancelled the caller."""
        return self._task is not None and self._task.cancelling() <= self._cancels

    def explain(self, error: Exception) -> TransportError:
        """The TransportError for what aiohttp raised."""
        if self.is_cut:
            return failures.closed(self.request, self.probe, error)
        if self.stop.expired():
            return failures.upload_stalled(self.request, self.probe, error)
        if self.upload is not None and self.upload.error is not None:
            return failures.body_failed(self.upload.error, self.request, self.probe, error)
        explained = failures.explain(error, self.request, self.probe)
        if isinstance(explained, ConnectionLostError) and self.probe is None and not self.is_on_new_connection:
            # With bytes of an answer, aiohttp's message is what it had parsed of it.
            explained.is_reused = isinstance(getattr(error, "message", ""), str)
        return explained

    def answered(self) -> None:
        if self.upload is not None:
            self.upload.on_piece = None

    def cut(self) -> None:
        self.is_cut = True
        # Over already: then there is nothing to end.
        with suppress(RuntimeError):
            self.stop.reschedule(asyncio.get_running_loop().time())

    async def aclose(self) -> None:
        if self.upload is not None:
            await self.upload.aclose()


class Exactly:
    """Client middleware for a session of the user's own: the request's headers, and none of the session's."""

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
