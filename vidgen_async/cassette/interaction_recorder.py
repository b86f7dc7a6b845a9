"""One request of a recording, from its start to its outcome."""

import asyncio
from typing import Any, Self

from attrs import mutable

from vidgen_async import errors
from vidgen_async.cassette.body_decoding import body_length
from vidgen_async.cassette.body_encoding import BodyCapture, limit_for, read_through, request_body
from vidgen_async.cassette.document import CANCELLED, Failure
from vidgen_async.cassette.recorder import Recorder
from vidgen_async.cassette.writer import outcome_form, times_form
from vidgen_async.errors import BodyError, ConnectionLostError, TransportError
from vidgen_async.types.http import Delivery, Headers, Phase, Probe, Request


@mutable(kw_only=True, eq=False)
class InteractionRecorder:
    """Records one request with its ordinal ``n``; the observer of its response."""

    recorder: Recorder
    #: All that have no outcome yet, this one included.
    active: "set[InteractionRecorder]"
    request: Request
    n: int
    started: float
    answered: float | None = None
    _status: int | None = None
    _headers: Headers | None = None
    _capture: BodyCapture | None = None
    _is_written: bool = False
    _is_over: bool = False

    @classmethod
    def begin(cls, recorder: Recorder, request: Request, active: "set[InteractionRecorder]") -> Self:
        """CassetteBusyError, CassetteError: the recording cannot begin."""
        interaction = cls(
            recorder=recorder, active=active, request=request, n=recorder.begin(request), started=recorder.elapsed
        )
        active.add(interaction)
        return interaction

    async def record_request(self) -> None:
        """Before anything is sent. CassetteError when it cannot be written."""
        body = self.request.body
        try:
            sent = None if body is None else await read_through(body)
        except Exception:  # noqa: BLE001 - it is the caller's own; the inner transport raises it, too, with its evidence
            sent = None
        recorded = None if sent is None else request_body(sent, self.recorder.redactor)
        self.recorder.write_request(self.n, self.request, recorded)
        self._is_written = True

    def record_status(self, status: int, headers: Headers) -> None:
        """The status line and the headers were received."""
        self.answered = self.recorder.elapsed
        self._status, self._headers = status, headers
        self._capture = BodyCapture(limit_for(headers.get("Content-Type", ""), self.recorder.cassette.largest_blob))

    def on_chunk(self, chunk: bytes) -> None:
        if self._capture is not None and not self._is_over:
            self._capture.add(chunk)

    def on_end(self, error: BaseException | None) -> None:
        match error:
            case None:
                self.record_end()
            case BodyError():
                self.record_error(error)
            case asyncio.CancelledError():
                self.record_end("cancelled")

    def on_close(self) -> None:
        self.record_end("closed early")

    def record_end(self, how: str | None = None) -> None:
        """The body is complete; or how it ended otherwise: ``"closed early"``, ``"cancelled"``."""
        if how == "closed early" and self._headers is not None and self._capture is not None:
            is_complete = self._headers.get("Content-Length") == str(self._capture.length)
            how = None if is_complete else how
        self._finish(None, how)

    def record_error(self, error: TransportError, probe: Probe | None = None) -> None:
        """No complete response was received. The evidence of the send's probe counts as well."""
        evidence = Probe()
        evidence.learn(error.delivery)
        if probe is not None:
            evidence.learn(probe.delivery)
        self._finish(
            Failure(
                _class_name(error),
                evidence.delivery,
                error.phase,
                self.recorder.redactor.text(error.message),
                getattr(error, "received", 0),
                isinstance(error, ConnectionLostError) and error.is_reused,
            )
        )

    def record_cancellation(self, delivery: Delivery, phase: Phase) -> None:
        """Its caller was cancelled, or the transport was closed, before a response was received."""
        self._finish(Failure(CANCELLED, delivery, phase))

    def record_close(self) -> None:
        """The transport was closed before the interaction had an outcome."""
        if self._status is None:
            self.record_cancellation(Delivery.MAYBE_SENT, Phase.WAIT)
        else:
            self.record_end("cancelled")

    def discard(self) -> None:
        """It never became a request: it could not be written, or its gate did not open."""
        self.active.discard(self)
        if self._is_written and not self._is_over:
            self._is_over = True
            self.recorder.write_outcome({"e": "drop", "n": self.n})

    def _finish(self, failure: Failure | None, how: str | None = None) -> None:
        self.active.discard(self)
        if self._is_over or not self._is_written:
            return
        self._is_over = True
        times = times_form(self.started, self.answered, self.recorder.elapsed)
        try:
            outcome = self._outcome(failure, how)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller's response must not be lost because of it
            self.recorder.record_failure(error)
            return
        self.recorder.write_outcome({"e": "done", "n": self.n, "t": times, **outcome})

    def _outcome(self, failure: Failure | None, how: str | None) -> dict[str, Any]:
        if self._capture is None or self._headers is None:
            return outcome_form(self._status, (), None, failure)
        body = self.recorder.encode_body(self._capture, self._headers)
        headers = self.recorder.redactor.headers(self._headers)
        if body is not None and "redacted" in body:
            # The redacted body has another length.
            length, new = ("content-length", str(self._capture.length)), ("content-length", str(body_length(body)))
            headers = tuple(new if header == length else header for header in headers)
        if how is not None:
            body = {**(body or {}), "end": how}
        return outcome_form(self._status, headers, body, failure)


def _class_name(error: TransportError) -> str:
    """The nearest class of the SDK: a replay could not find a class of the user's."""
    names = (kind.__name__ for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
    return next(names, TransportError.__name__)
