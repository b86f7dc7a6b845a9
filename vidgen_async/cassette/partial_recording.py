"""A recording in progress: lines of redacted JSON, each written to the file before the recording continues. Finished
interactions survive a kill; the cassette itself is replaced only by a complete one."""

import json
import os
import re
import stat
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from vidgen_async.cassette.body_decoding import BLOBS
from vidgen_async.cassette.document import FORMAT, VERSION, Document, Interaction, Meta, meta_form, to_text, write
from vidgen_async.cassette.reader import Reader, load
from vidgen_async.cassette.secret_scan import redact_again, refuse_secrets, store, write_atomically
from vidgen_async.errors import CassetteBusyError, CassetteError, CassetteInvalidError, CassetteNotFoundError

try:
    import fcntl
except ImportError:  # no such locks on this system: two recordings of one cassette are not detected
    fcntl = None  # type: ignore[assignment]

ENDING = ".part"
#: The path of the endpoint of each operation, below the base URL.
_ENDPOINTS = {
    "models.list": "models",
    "account.get": "account",
    "files.create": "files",
    "videos.create": "videos",
    "videos.get": "videos/[^/]+",
    "videos.content": "videos/[^/]+/content",
}
_REPLACE = "publish(replace=True) replaces it."


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
        lines = [_object(line) for line in self.path.read_bytes().splitlines()]
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


@frozen
class RecoveredRecording:
    """The finished interactions of a recording."""

    part: Path
    """The file of the recording."""
    target: Path
    """Where the cassette is stored: beside the recording, unless it is changed with ``attrs.evolve``."""
    document: Document
    #: Requests without an outcome.
    unfinished: tuple[str, ...] = ()
    #: Lines that could not be read.
    damaged: int = 0

    def publish(self, *, replace: bool = True) -> Path:
        """Store the cassette atomically, after a scan for secrets, and copy its blobs to another directory.

        Args:
            replace: Replace a cassette that is damaged, or has interactions that were not recovered.

        Raises:
            CassetteError: The cassette was not written; a CassetteSecretError if it seems to contain a secret.
        """
        try:
            old = None if replace or not self.target.exists() else load(self.target)
        except CassetteInvalidError as error:
            raise CassetteError(f"{error.message.rstrip('.')}. Nothing was written.", advice=_REPLACE) from error
        recovered = self.document.interactions
        if old is not None and Counter(map(_content, old.interactions)) - Counter(map(_content, recovered)):
            raise CassetteError(
                f"{self.target} has interactions that were not recovered. Nothing was written.", advice=_REPLACE
            )
        refuse_secrets(self.document)
        source, target = self.part.parent / BLOBS, self.target.parent / BLOBS
        for name in {one.body["blob"] for one in recovered if one.body and "blob" in one.body}:
            if (source / name).is_file() and not (target / name).exists():
                store((source / name).read_bytes(), target / name)
        write_atomically(self.target, write(self.document).encode())
        return self.target


def _content(one: Interaction) -> str:
    """An interaction without its number and times, which differ between two recordings of the same requests."""
    return repr(evolve(one, n=0, started=0.0, answered=None, ended=None))


def recover(part: str | os.PathLike[str]) -> RecoveredRecording:
    """Read the file of a recording: all finished interactions, in order. The file is not changed.

    The interactions of an appending recording follow those of its cassette.

    Raises:
        CassetteNotFoundError: There is no such file.
        CassetteInvalidError: It is not a recording.
    """
    path = Path(part)
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        raise CassetteNotFoundError(f"there is no recording at {path}", path=str(path)) from error
    except OSError as error:
        message = f"the recording {path} cannot be read: {error.strerror or error}"
        raise CassetteInvalidError(message, path=str(path)) from error
    began = _object(lines[0])
    if began is None or began.get("format") != FORMAT:
        raise CassetteInvalidError(f"{path} is not a recording of a cassette", path=str(path))
    name = re.sub(r"\.old\d*$", "", path.name)
    target = path.with_name(name.removesuffix(ENDING) if name.endswith(ENDING) else f"{name}.recovered.json")
    reader = Reader(str(path))
    opened: dict[int, dict[str, Any]] = {}
    finished: list[Interaction] = []
    damaged = 0
    for line in filter(None, lines[1:]):
        try:
            finished += _read_line(_object(line) or {}, opened, reader)
        except (KeyError, TypeError, ValueError, RecursionError, CassetteInvalidError):
            damaged += 1
    is_append = began.get("append") and target.exists()
    before = load(target) if is_append else Document(reader.meta(began.get("meta")))
    # The interactions of an appending recording that was already published are on the cassette.
    there = {interaction.n for interaction in before.interactions}
    new = sorted((one for one in finished if one.n not in there), key=lambda one: one.n)
    before = redact_again(before, new)
    unfinished = (f"{one['request']['method']} {one['request']['url']} ({one['op']})" for one in opened.values())
    meta = evolve(before.meta, base_url=before.meta.base_url or _base_url_of(new))
    document = evolve(before, meta=meta, interactions=(*before.interactions, *new))
    return RecoveredRecording(path, target, document, tuple(unfinished), damaged)


def _base_url_of(interactions: Iterable[Interaction]) -> str | None:
    """That of the service, by the first request to one of its endpoints."""
    known = ((one.request.url, _ENDPOINTS[one.op]) for one in interactions if one.op in _ENDPOINTS)
    matches = (re.fullmatch(rf"(https?://.+)/{endpoint}", url) for url, endpoint in known)
    return next((match[1] for match in matches if match), None)


def _read_line(line: dict[str, Any], opened: dict[int, dict[str, Any]], reader: Reader) -> list[Interaction]:
    """The interaction that the line finishes, if it does; ``opened`` is updated."""
    match line["e"]:
        case "open":
            opened[line["n"]] = line
        case "drop":
            del opened[line["n"]]
        case "done":
            whole = opened[line["n"]] | line
            del whole["e"]
            interaction = reader.interaction(whole, f"/{whole['n']}")
            del opened[line["n"]]
            return [interaction]
    return []


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
