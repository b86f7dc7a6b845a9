"""One recording: numbers the interactions in the order in which they begin, and writes each to its file when it ends.

The file has lines of redacted JSON, and survives a kill; the cassette itself is replaced only by a complete one.
"""

import asyncio
import logging
import os
import stat
import weakref
from collections.abc import Awaitable, Callable, Container
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vidgen_async.cassette.body_encoding import BodyCapture, answer_body, request_body
from vidgen_async.cassette.document import (
    FORMAT,
    VERSION,
    Document,
    Meta,
    RecordedRequest,
    interaction_form,
    meta_form,
    request_form,
    to_text,
    write,
)
from vidgen_async.cassette.recovery import object_of, recover
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.secret_scan import (
    drop_secret_bytes,
    map_line,
    refuse_secrets,
    store,
    without_secrets,
    write_atomically,
)
from vidgen_async.cassette.settings import Cassette
from vidgen_async.clock import Clock, hold_of, run_in_thread
from vidgen_async.errors import CassetteBusyError, CassetteError
from vidgen_async.events import Event
from vidgen_async.types.http import Headers, Request

try:
    import fcntl
except ImportError:  # no such locks on this system: two recordings of one cassette are not detected
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

#: In bytes; these are redacted in some ten milliseconds.
_LONGEST_IN_TURN = 1 << 13


class Recorder:
    """Writes the file of a recording and makes a cassette of it. The file is opened for the first request."""

    def __init__(self, cassette: Cassette, clock: Clock) -> None:
        self.cassette = cassette
        self.clock = clock
        self.redactor = Redactor(prompts=cassette.prompts, secrets=cassette.secrets)
        self.part = PartialRecording(cassette.part)
        #: Held by whatever uses the redactor or writes: long texts are redacted in a thread.
        self.lock: asyncio.Lock = asyncio.Lock()
        self._is_append = False
        self._count = 0
        self._offset = 0.0
        self.began: float | None = None
        self._broken: Exception | None = None
        self.is_over: bool = False
        #: The ordinals of requests without an outcome, and what records the end of the transport as their outcome.
        self.open: dict[int, Callable[[], Awaitable[None]]] = {}
        #: The blobs that it references, and whether it created them.
        self._blobs: dict[str, bool] = {}

    def append_to(self, before: Document) -> None:
        """Continue this cassette."""
        self._is_append = True
        self._count = max((one.n for one in before.interactions), default=0)
        self._offset = max((one.ended or one.started for one in before.interactions), default=0.0)
        for interaction in before.interactions:
            self.redactor.secrets.reserve(str(interaction_form(interaction)))

    def begin(self, request: Request) -> int:
        """Return the ordinal of this request; nothing is awaited, so that ordinals are in the order of the requests."""
        if self.began is None:
            try:
                self.part.open(self._meta(), is_append=self._is_append)
            except CassetteError as error:
                self._record_failure(error)
                raise
            self.began, self._broken = self.clock.now(), None
        self.redactor.learn(request)
        self._count += 1
        return self._count

    @property
    def elapsed(self) -> float:
        """Seconds since the recording began."""
        return self._offset + self.clock.now() - (self.began or 0.0)

    async def run(self, call: Callable[[], object], size: int = _LONGEST_IN_TURN + 1) -> None:
        """Call what redacts or writes ``size`` bytes; long ones in a thread, without virtual time, and to their end."""
        if size <= _LONGEST_IN_TURN:
            call()
            return
        with hold_of(self.clock)():
            await run_in_thread(call)

    async def write_request(
        self, n: int, request: Request, sent: BodyCapture | None, on_close: Callable[[], Awaitable[None]]
    ) -> None:
        """Write a request to the partial file. CassetteError if that fails."""

        def write() -> None:
            body = None if sent is None else request_body(sent, self.redactor)
            headers = self.redactor.headers(request.headers)
            form = request_form(RecordedRequest(request.method, self.redactor.url(str(request.url)), headers, body))
            try:
                self._write({"e": "open", "n": n, "op": request.op, "request": form})
            except OSError as error:
                message = f"{request.op}: the recording cannot be written ({error.strerror or error}); nothing was sent"
                raise CassetteError(message) from error
            self.open[n] = on_close

        async with self.lock:
            await self.run(write, 0 if sent is None or sent.text is None else sent.length)
            await self._hide_late_secrets()

    async def write_outcome(self, n: int, make_line: Callable[[], dict[str, Any]], size: int = 0) -> None:
        """Write the outcome of a request that has none. A failure is raised by :meth:`publish`, never to the caller."""

        def write() -> None:
            try:
                self._write(make_line())
            except Exception as error:  # noqa: BLE001 - the caller's response must not be lost because of it
                self._record_failure(error)

        if n not in self.open:
            return
        async with self.lock:
            if self.open.pop(n, None) is not None and not self.is_over:
                await self.run(write, size)
                await self._hide_late_secrets()

    def _write(self, line: dict[str, Any]) -> None:
        if self.redactor.secrets.late:
            line = self._without_secrets(line)
        self.part.write(to_text(line))

    def _without_secrets(self, line: dict[str, Any], bad_blobs: Container[object] = ()) -> dict[str, Any]:
        return drop_secret_bytes(map_line(line, self.redactor.secrets.replace), self.redactor, bad_blobs)

    async def _hide_late_secrets(self) -> None:
        """Remove values from what was written before they turned out to be secrets."""
        secrets = self.redactor.secrets
        late, secrets.late = secrets.late, []

        def rewrite() -> None:
            blobs = self.cassette.blobs
            try:
                bad = {name for name in self._blobs if secrets.were_written(late, (blobs / name).read_bytes())}
                for name in bad:
                    if self._blobs.pop(name):  # other cassettes may have the rest
                        (blobs / name).unlink(missing_ok=True)
                if bad or secrets.were_written(late, self.part.path.read_bytes()):
                    self.part.rewrite(lambda line: self._without_secrets(line, bad))
            except Exception as error:  # noqa: BLE001 - as above
                self._record_failure(error)

        if late:
            await self.run(rewrite)

    def encode_body(self, capture: BodyCapture, headers: Headers) -> dict[str, Any] | None:
        """Return a response's recorded body."""
        body, data = answer_body(capture, headers, self.redactor)
        if body is not None and data is not None:
            # It may turn out later that the blob contains a secret.
            is_new = store(data, self.cassette.blobs / body["blob"])
            self._blobs[body["blob"]] = is_new or self._blobs.get(body["blob"], False)
        return body

    def _record_failure(self, error: Exception) -> None:
        """The recording is incomplete: nothing can be published any more."""
        if self._broken is None and not self.is_over:
            self._broken = error
            Event.CASSETTE_WRITE_FAILED.log(logger, path=self.part.path, error=error)

    def publish(self) -> Path:
        """Replace the cassette by the finished interactions. CassetteError: the old cassette is unchanged."""
        if self._broken is not None:
            message = f"the recording at {self.part.path} is incomplete, nothing was published: {self._broken}"
            raise CassetteError(message) from self._broken
        if self.began is not None:
            recovered = recover(self.part.path)
            if recovered.damaged:
                raise CassetteError(
                    f"{recovered.damaged} lines of the recording at {self.part.path} cannot be read; "
                    "nothing was published"
                )
            document = without_secrets(recovered.document, self.redactor)
            refuse_secrets(document, self.redactor.secrets, origin=self.redactor.origin)
            write_atomically(self.cassette.path, write(document).encode())
            if recovered.unfinished:
                Event.CASSETTE_UNFINISHED.log(logger, count=len(recovered.unfinished), path=self.cassette.path)
            self.part.discard()
        elif not self._is_append:
            write_atomically(self.cassette.path, write(Document(self._meta())).encode())
        self.is_over = True
        return self.cassette.path

    def close(self) -> None:
        """End the recording; its file stays."""
        self.is_over = True
        self.part.close()

    def _meta(self) -> Meta:
        try:
            name = f"vidgen_async/{version('vidgen-async')}"
        except PackageNotFoundError:  # the package is not installed
            name = "vidgen_async"
        return Meta(self.clock.wall(), name)


def _lock(file: int) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class PartialRecording:
    """The file of one recording. It is locked while it is open; a killed recording holds no lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._length = 0
        self._finalizer: weakref.finalize[..., PartialRecording] | None = None

    def open(self, meta: Meta, *, is_append: bool) -> None:
        """Begin. CassetteBusyError when another recording has locked it; the file of a killed one is renamed."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while (file := self._open()) is None:
                pass
            self._hold(file, 0)
            begin = {"e": "begin", "format": FORMAT, "version": VERSION, "append": is_append, "meta": meta_form(meta)}
            self.write(to_text(begin))
        except OSError as error:
            self.close()
            raise CassetteError(f"the recording cannot be written to {self.path}: {error.strerror or error}") from error

    def write(self, line: str) -> None:
        """Write one complete line; after an OSError, nothing of it was written."""
        if self._file is None:
            raise CassetteError(f"the recording at {self.path} is not open")
        rest = memoryview(f"{line}\n".encode())
        length = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with suppress(OSError):  # a partial line would also damage the next one
                os.ftruncate(self._file, self._length)
            raise
        self._length += length

    def rewrite(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Change written lines atomically, without releasing the lock."""
        lines = [object_of(line) for line in self.path.read_bytes().splitlines()]
        text = "".join(f"{to_text(change(line))}\n" for line in lines if line is not None).encode()
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.unlink(missing_ok=True)
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        _lock(file)
        with os.fdopen(os.dup(file), "ab") as whole:
            whole.write(text)
        beside.replace(self.path)
        self.close()
        self._hold(file, len(text))

    def close(self) -> None:
        """Unlock and close it; the file stays."""
        self._file = None
        if self._finalizer is not None:
            self._finalizer()

    def discard(self) -> None:
        """Remove it. The files of older recordings stay."""
        self.path.unlink(missing_ok=True)
        self.close()

    def _hold(self, file: int, length: int) -> None:
        self._file, self._length = file, length
        # Also for a recording that is never closed.
        self._finalizer = weakref.finalize(self, os.close, file)

    def _open(self) -> int | None:
        """The file, empty and locked; None when it was removed before it was locked, or was an older one."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with ExitStack() as stack, suppress(FileNotFoundError):
            stack.callback(os.close, file)
            try:
                _lock(file)
            except BlockingIOError as error:
                raise CassetteBusyError(f"another recording of this cassette is under way ({self.path})") from error
            found = os.fstat(file)
            if not os.path.samestat(self.path.stat(), found):
                return None
            if stat.S_ISREG(found.st_mode) and found.st_size:
                # The user may still want to recover it, from ….part.old, ….part.old2 and so on.
                names = (f"{self.path.name}.old{number or ''}" for number in (0, *range(2, 10**6)))
                self.path.replace(next(path for path in map(self.path.with_name, names) if not path.exists()))
                return None
            stack.pop_all()
            return file
        return None
