"""One request of a recording, from its beginning to its outcome."""

import asyncio
from typing import TYPE_CHECKING, Any

from attrs import mutable

from vidgen_async import errors
from vidgen_async.cassette.body_decoding import body_length
from vidgen_async.cassette.body_encoding import Tee, limit_for, read_through, request_body
from vidgen_async.cassette.document import CANCELLED, Failure
from vidgen_async.cassette.writer import outcome_form, times_form, to_text
from vidgen_async.errors import BodyError, ConnectionLostError, TransportError
from vidgen_async.types.http import Delivery, Headers, Phase, Probe, Request

if TYPE_CHECKING:
    from vidgen_async.cassette.recorder import Recorder


@mutable(kw_only=True)
class Taken:
    """One request under way, with its ordinal."""

    recorder: "Recorder"
    request: Request
    n: int
    started: float
    answered: float | None = None
    _status: int | None = None
    _headers: Headers | None = None
    _tee: Tee | None = None
    _is_written: bool = False
    _is_over: bool = False

    async def write_down(self) -> None:
        """Before anything is sent. CassetteError when it cannot be written."""
        body = self.request.body
        try:
            sent = None if body is None else await read_through(body)
        except Exception:  # noqa: BLE001 - it is the caller's own; the inner transport meets it too, and says what it means
            sent = None
        recorded = None if sent is None else request_body(sent, self.recorder.redactor)
        self.recorder.opened(self.n, self.request, recorded)
        self._is_written = True

    def answer(self, status: int, headers: Headers) -> None:
        """The status came."""
        self.answered = self.recorder.elapsed
        self._status, self._headers = status, headers
        self._tee = Tee(limit_for(headers.get("Content-Type", ""), self.recorder.cassette.largest_blob))

    def on_chunk(self, chunk: bytes) -> None:
        if self._tee is not None and not self._is_over:
            self._tee.take(chunk)

    def on_end(self, error: BaseException | None) -> None:
        match error:
            case None:
                self.end()
            case BodyError():
                self.fail(error)
            case asyncio.CancelledError():
                self.end("cancelled")

    def on_close(self) -> None:
        self.end("closed early")

    def end(self, how: str | None = None) -> None:
        """The body came to its end; or how else it ended: ``"closed early"``, ``"cancelled"``."""
        if how == "closed early" and self._is_all_here():
            how = None
        self._finish(None, how)

    def fail(self, error: TransportError, probe: Probe | None = None) -> None:
        """No whole answer came. What the probe of the send knows counts as well."""
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

    def give_up(self, delivery: Delivery, phase: Phase) -> None:
        """Its caller was cancelled, or the transport closed, before an answer came."""
        self._finish(Failure(CANCELLED, delivery, phase))

    def cut_off(self) -> None:
        """The transport was closed while it was under way."""
        if self._status is None:
            self.give_up(Delivery.MAYBE_SENT, Phase.WAIT)
        else:
            self.end("cancelled")

    def drop(self) -> None:
        """It never was a request: it could not be written down, or its gate did not let it pass."""
        if not self._is_written:
            self.recorder.forget(self.n)
        elif not self._is_over:
            self._is_over = True
            self.recorder.finished(self.n, to_text({"e": "drop", "n": self.n}))

    def _is_all_here(self) -> bool:
        if self._headers is None or self._tee is None:
            return False
        return self._headers.get("Content-Length") == str(self._tee.length)

    def _finish(self, failure: Failure | None, how: str | None = None) -> None:
        if not self._is_written:
            self.recorder.forget(self.n)
        if self._is_over or not self._is_written:
            return
        self._is_over = True
        try:
            line = self._line(failure, how)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller's answer must not be lost by it
            self.recorder.broke(error)
            return
        self.recorder.finished(self.n, line)

    def _line(self, failure: Failure | None, how: str | None) -> str:
        """What is written of an outcome."""
        times = to_text(times_form(self.started, self.answered, self.recorder.elapsed))
        outcome = self._outcome(failure, how)
        return f'{{"e":"done","n":{self.n},"t":{times},{outcome[1:]}'

    def _outcome(self, failure: Failure | None, how: str | None) -> str:
        if self._tee is None or self._headers is None:
            return to_text(outcome_form(self._status, (), None, failure))
        recorder = self.recorder
        body, text = recorder.body_of(self._tee, self._headers)
        headers = _fitting(recorder.redactor.headers(self._headers), self._tee, body)
        if failure is not None or how is not None:
            ended = body if how is None else {**(body or {}), "end": how}
            return to_text(outcome_form(self._status, headers, ended, failure))
        shown = to_text([f"{name}: {value}" for name, value in headers])
        return f'{{"response":{{"status":{self._status},"headers":{shown}{text}}}}}'


def _fitting(
    headers: tuple[tuple[str, str], ...], tee: Tee | None, body: dict[str, Any] | None
) -> tuple[tuple[str, str], ...]:
    """A Content-Length that was right still is after the redaction."""
    if tee is None or body is None or "redacted" not in body:
        return headers
    return tuple(
        (name, str(body_length(body)) if name == "content-length" and value == str(tee.length) else value)
        for name, value in headers
    )


def _class_name(error: TransportError) -> str:
    """Of a class of our own: what a user's transport made of it could not be found again."""
    names = (kind.__name__ for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
    return next(names, TransportError.__name__)
