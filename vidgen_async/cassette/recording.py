"""A transport that records what another one sends, and the record of one request."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, field, mutable

from vidgen_async import errors
from vidgen_async.cassette.body_decoding import body_bytes
from vidgen_async.cassette.body_encoding import BodyCapture, is_textual, read_through
from vidgen_async.cassette.document import CANCELLED, Failure, outcome_form, times_form
from vidgen_async.cassette.recorder import Recorder
from vidgen_async.cassette.settings import Cassette, as_cassette
from vidgen_async.clock import LoopClock
from vidgen_async.errors import BodyError, ConnectionLostError, TransportClosedError, TransportError
from vidgen_async.events import Event
from vidgen_async.transports.base import (
    Connection,
    ObservedResponse,
    Response,
    Transport,
    WrappingTransport,
    nothing_sent,
)
from vidgen_async.types.http import LONGEST_ANSWER, Delivery, Headers, Phase, Request, make_headers

logger = logging.getLogger(__name__)

#: Of a request whose caller was cancelled.
_CANCELLED_SEND = Failure(CANCELLED, Delivery.MAYBE_SENT, Phase.WAIT)


class RecordingTransport(WrappingTransport):
    """Sends with ``inner``, and records requests and responses on a cassette, without secrets.

    While it records, every finished interaction is in the cassette's ``part`` file, where it survives a kill
    (``vidgen cassette recover``). :meth:`aclose` replaces the cassette by it atomically; not while an exception
    propagates, and not after :meth:`give_up`. With ``auto_publish=False`` only :meth:`publish` does.

    If a request cannot be recorded, CassetteError is raised before anything is sent. If a response cannot be recorded,
    it is returned all the same, and publishing raises CassetteError. Cancelled sends are recorded as such. Bodies are
    passed on as they are received, whatever their length.
    """

    is_recording = True

    def __init__(
        self, inner: Transport, cassette: Cassette | str | os.PathLike[str], *, auto_publish: bool = True
    ) -> None:
        super().__init__(inner)
        self.cassette: Cassette = as_cassette(cassette)
        self._auto_publish = auto_publish
        self._recorder = Recorder(self.cassette, self.clock or LoopClock())
        self._is_closed = False
        self.is_published: bool = False

    @property
    def part(self) -> Path:
        """The file of the recording until it is published."""
        return self.cassette.part

    async def send(self, request: Request) -> Response:
        """Send the request with the inner transport; its errors propagate unchanged.

        Raises:
            CassetteBusyError: Another recording of the cassette is in progress; nothing was sent.
            CassetteError: The request cannot be recorded; nothing was sent.
        """
        interaction = await self._begin(request)
        return await self._send(interaction, partial(self.inner.send, request))

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Connect with the inner transport; its errors propagate unchanged, and CassetteError is raised as by
        :meth:`send`. A request that is not sent is recorded if a TransportError is the reason: connecting failed, or
        the connection was not ready any more."""
        interaction = await self._begin(request)
        try:
            async with self.inner.connect(request) as connection:
                interaction.is_connected = True
                yield connection.with_send(partial(self._send, interaction, connection.send))
        except asyncio.CancelledError as cancelled:
            if not interaction.is_connected and isinstance(proof := cancelled.__cause__, TransportError):
                await interaction.finish(Failure(CANCELLED, proof.delivery, proof.phase))
            raise
        except TransportError as error:
            if not interaction.is_sent and not self._is_closed:
                await interaction.record_error(error)
            raise
        finally:
            await interaction.end()

    async def _begin(self, request: Request) -> "InteractionRecorder":
        """Record the request, before anything is sent."""
        with nothing_sent(request):
            async with self._recorder.lock:
                self._check_open(request)
                n = self._recorder.begin(request)
            interaction = InteractionRecorder(self._recorder, n, self._recorder.elapsed)
            try:
                sent = None if request.body is None else await read_through(request.body)
            except Exception:  # noqa: BLE001 - it is the caller's own; the inner transport raises it with its evidence
                sent = None
            try:
                await self._recorder.write_request(n, request, sent, interaction.record_close)
            except BaseException:
                await interaction.discard()
                raise
        return interaction

    async def _send(self, interaction: "InteractionRecorder", send: Callable[[], Awaitable[Response]]) -> Response:
        """Send, and record how that ends."""
        interaction.is_sent = True
        try:
            response = await send()
        except TransportError as error:
            if self._is_closed and isinstance(error, TransportClosedError):
                await interaction.finish(Failure(CANCELLED, error.delivery, error.phase))
            else:
                await interaction.record_error(error)
            raise
        except asyncio.CancelledError:
            await interaction.finish(_CANCELLED_SEND)
            raise
        except BaseException:
            await interaction.discard()
            raise
        interaction.record_status(response.status, response.headers)
        return ObservedResponse(response, interaction)

    def publish(self) -> Path:
        """Replace the cassette by the finished interactions, and return its path.

        Raises:
            CassetteSecretError: The recording seems to contain a secret.
            CassetteError: The recording is incomplete or cannot be written.
                In both cases the old cassette and the ``part`` file are unchanged.
        """
        if self.is_published:
            return self.cassette.path
        path = self._recorder.publish()
        self.is_published = True
        return path

    def give_up(self) -> None:
        """Publish nothing: the old cassette stays, and the finished interactions are in the ``part`` file."""
        self._recorder.close()
        if self._recorder.began is not None:
            Event.CASSETTE_NOT_PUBLISHED.log(logger, path=self.part)

    async def aclose(self) -> None:
        """Close the inner transport, then publish the recording (see above). May be called twice."""
        is_failing = sys.exception() is not None
        self._is_closed = True
        await self.inner.aclose()
        for _, record_close in sorted(self._recorder.open.items()):
            await record_close()
        if self._recorder.is_over or not self._auto_publish or self._recorder.began is None:
            return
        if is_failing:
            self.give_up()
        else:
            async with self._recorder.lock:
                await self._recorder.run(self.publish)

    def _check_open(self, request: Request) -> None:
        if self._is_closed or self._recorder.is_over:
            message = f"{request.op}: the transport is closed"
            raise TransportClosedError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)


@mutable(eq=False)
class InteractionRecorder:
    """Records one request with its ordinal ``n``; the observer of its response."""

    recorder: Recorder
    n: int
    started: float
    answered: float | None = field(default=None, init=False)
    is_connected: bool = field(default=False, init=False)
    is_sent: bool = field(default=False, init=False)
    _status: int | None = field(default=None, init=False)
    _headers: Headers = field(factory=make_headers, init=False)
    _capture: BodyCapture = field(factory=BodyCapture, init=False)

    def record_status(self, status: int, headers: Headers) -> None:
        """The status line and the headers were received."""
        self.answered = self.recorder.elapsed
        self._status, self._headers = status, headers
        is_text = is_textual(headers.get("Content-Type", ""))
        self._capture = BodyCapture(LONGEST_ANSWER if is_text else self.recorder.cassette.largest_blob)

    def on_chunk(self, chunk: bytes) -> None:
        self._capture.add(chunk)

    async def on_end(self, error: BaseException | None) -> None:
        match error:
            case None:
                await self.finish(None)
            case BodyError():
                await self.record_error(error)
            case asyncio.CancelledError():
                await self.finish(None, "cancelled")

    async def on_close(self) -> None:
        is_complete = self._headers.get("Content-Length") == str(self._capture.length)
        await self.finish(None, None if is_complete else "closed early")

    async def record_error(self, error: TransportError) -> None:
        """No complete response was received. Only a failure to connect proves that a create was not sent."""
        is_doubtful = self.is_connected and self.is_sent and error.delivery is Delivery.NOT_SENT
        await self.finish(
            Failure(
                _class_name(error),
                Delivery.MAYBE_SENT if is_doubtful else error.delivery,
                error.phase,
                error.message,
                getattr(error, "received", 0),
                isinstance(error, ConnectionLostError) and error.is_reused,
            )
        )

    async def record_close(self) -> None:
        """The transport was closed before the interaction had an outcome."""
        if not self.is_sent:
            await self.discard()
        elif self._status is None:
            await self.finish(_CANCELLED_SEND)
        else:
            await self.finish(None, "cancelled")

    async def end(self) -> None:
        """The block of its connection was left."""
        if self._status is not None:
            await self.on_close()
        elif not self.is_sent:
            await self.discard()

    async def discard(self) -> None:
        """It never became a request: it could not be written, or was not sent."""
        await self.recorder.write_outcome(self.n, lambda: {"e": "drop", "n": self.n})

    async def finish(self, failure: Failure | None, how: str | None = None) -> None:
        """Record the outcome. ``how`` a body that is incomplete without an error ended: closed early, or cancelled."""
        times = times_form(self.started, self.answered, self.recorder.elapsed)
        await self.recorder.write_outcome(
            self.n,
            lambda: {"e": "done", "n": self.n, "t": times, **self._outcome(failure, how)},
            self._capture.length,
        )

    def _outcome(self, failure: Failure | None, how: str | None) -> dict[str, Any]:
        if failure is not None:
            failure = evolve(failure, message=self.recorder.redactor.text(failure.message))
        if self._status is None:
            return outcome_form(None, (), None, failure)
        body = self.recorder.encode_body(self._capture, self._headers)
        headers = self.recorder.redactor.headers(self._headers)
        if body is not None and "redacted" in body:
            # The redacted body has another length.
            lengths = str(self._capture.length), str(len(body_bytes(body) or b""))
            old, new = (("content-length", length) for length in lengths)
            headers = tuple(new if header == old else header for header in headers)
        if how is not None:
            body = {**(body or {}), "end": how}
        return outcome_form(self._status, headers, body, failure)


def _class_name(error: TransportError) -> str:
    """The nearest class of the SDK: a replay could not find a class of the user's."""
    names = (kind.__name__ for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
    return next(names, TransportError.__name__)
