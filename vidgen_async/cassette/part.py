"""A recording while it is under way: lines of JSON, already redacted, each handed to the system before the recording
goes on. What was finished survives a kill; the cassette itself is replaced only by a whole one."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from vidgen_async.cassette.document import (
    FORMAT,
    VERSION,
    Document,
    Interaction,
    Meta,
    Reader,
    meta_form,
    to_text,
)
from vidgen_async.cassette.publishing import load_if_there, publish
from vidgen_async.errors import CassetteBusyError, CassetteError, CassetteInvalidError, CassetteNotFoundError

try:
    import fcntl
except ImportError:  # no such locks on this system: two recordings of one cassette are not told apart
    fcntl = None  # type: ignore[assignment]

ENDING = ".part"


class PartFile:
    """The lines of one recording. It is locked for as long as it is open; of a killed recording the lock is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def open(self, meta: Meta, *, is_append: bool) -> None:
        """Begin. CassetteBusyError when another recording holds it; what a dead one left is kept beside it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while self._file is None:
                self._file = self._locked()
        except OSError as error:
            message = f"the recording cannot be written to {self.path}: {error.strerror}"
            raise CassetteError(message) from error
        self.write({"e": "begin", "format": FORMAT, "version": VERSION, "append": is_append, "meta": meta_form(meta)})

    def write(self, line: dict[str, Any]) -> None:
        """One line, whole."""
        if self._file is None:
            message = f"the recording at {self.path} is not open"
            raise CassetteError(message)
        self._file.write(f"{to_text(line)}\n".encode())

    def close(self) -> None:
        """Unlock it; it stays where it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def discard(self) -> None:
        """Remove it, and what an older recording had left."""
        for path in (self.path, self._old):
            with suppress(FileNotFoundError):
                path.unlink()
        self.close()

    def _locked(self) -> BinaryIO | None:
        """The file, empty and ours; None when it was removed before we had the lock."""
        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_still_at_its_path(file):
                file.close()
                return None
            if self.path.stat().st_size:
                # Somebody may still want to recover it.
                self.path.replace(self._old)
                file.close()
                return None
        except BlockingIOError as error:
            file.close()
            message = f"another recording of this cassette is under way ({self.path})"
            raise CassetteBusyError(message) from error
        except BaseException:
            file.close()
            raise
        return file

    def _is_still_at_its_path(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(self.path.stat(), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False

    @property
    def _old(self) -> Path:
        return self.path.with_name(f"{self.path.name}.old")


@frozen
class Recovered:
    """What a recording had finished."""

    target: Path
    document: Document
    #: Requests that had no outcome yet.
    unfinished: tuple[str, ...] = ()
    #: Lines that could not be read.
    damaged: int = 0

    def publish(self) -> Path:
        """Write the cassette, after a scan for secrets, at one go. CassetteSecretError: nothing was written."""
        publish(self.document, self.target)
        return self.target


def recover(part: str | os.PathLike[str]) -> Recovered:
    """Read what a recording left: all that was finished, in order. The file stays as it is.

    CassetteNotFoundError, and CassetteInvalidError for what is no recording. An appending recording is joined to the
    cassette beside it.
    """
    path = Path(part)
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        message = f"there is no recording at {path}"
        raise CassetteNotFoundError(message, path=str(path)) from error
    except OSError as error:
        message = f"the recording {path} cannot be read: {error.strerror}"
        raise CassetteInvalidError(message, path=str(path)) from error
    began = _object(lines[0])
    if began is None or began.get("format") != FORMAT:
        message = f"{path} is no recording of a cassette"
        raise CassetteInvalidError(message, path=str(path))
    target = path.with_name(path.name.removesuffix(".old").removesuffix(ENDING))
    return _read(path, target, began, lines[1:])


def _read(path: Path, target: Path, began: dict[str, Any], lines: list[bytes]) -> Recovered:
    reader = Reader(str(path))
    meta = reader.meta(began.get("meta"))
    opened: dict[int, dict[str, Any]] = {}
    finished: list[Interaction] = []
    damaged = 0
    for line in filter(None, lines):
        data = _object(line)
        if data is None:
            damaged += 1
        elif data.get("e") == "open":
            opened[data["n"]] = data
        elif data.get("e") == "drop":
            opened.pop(data["n"], None)
        elif data.get("e") == "done" and data["n"] in opened:
            whole = opened.pop(data["n"]) | data
            del whole["e"]
            finished.append(reader.interaction(whole, f"/{whole['n']}"))
    interactions = tuple(sorted(finished, key=lambda interaction: interaction.n))
    if began.get("append"):
        before = load_if_there(target)
        if before is not None:
            meta, interactions = before.meta, (*before.interactions, *interactions)
    unfinished = tuple(f"{one['request']['method']} {one['request']['url']} ({one['op']})" for one in opened.values())
    return Recovered(target, Document(meta, interactions), unfinished, damaged)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
