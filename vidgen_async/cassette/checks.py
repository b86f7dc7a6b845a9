"""Checks of cassettes before they are committed: valid, complete, without secrets, recent enough; and files beside
cassettes that belong to none."""

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from attrs import frozen

from vidgen_async.cassette.body_decoding import BLOBS, read_blob
from vidgen_async.cassette.document import FORMAT, Document
from vidgen_async.cassette.reader import load
from vidgen_async.cassette.secret_scan import scan
from vidgen_async.errors import CassetteError, CassetteInvalidError, CassetteNotFoundError, CassetteVersionError

#: The names of files that are written while recording, and of older recordings that did not end.
UNFINISHED = re.compile(r".*\.json\.part(?:\.old\d*)?")

#: A file that is damaged elsewhere still counts as a cassette.
_FORMAT = re.compile(rb'"format"\s*:\s*"' + FORMAT.encode() + rb'"')
_NAMED_BLOB = re.compile(rb'"blob"\s*:\s*"([^"\\]+)"')
_NOT_ENTERED = frozenset({"node_modules", "site-packages", "__pycache__"})


ProblemKind: TypeAlias = Literal[
    "invalid", "version", "secret", "blob-missing", "blob-damaged", "too-old", "orphan", "unfinished"
]


@frozen
class Problem:
    """A problem of the file at ``path``. ``where`` is a JSON pointer (RFC 6901) into it, or empty. It contains no
    secrets."""

    path: Path
    kind: ProblemKind
    where: str
    message: str


@frozen
class CheckResult:
    """What :func:`check` found."""

    cassettes: tuple[Path, ...]
    """Those that were checked, each once."""
    problems: tuple[Problem, ...]
    errors: tuple[CassetteError, ...]
    """Why a path could not be checked: it has no cassette, or cannot be read."""


def check(
    paths: Iterable[str | os.PathLike[str]], *, max_age: timedelta | None = None, with_orphans: bool = False
) -> CheckResult:
    """Check whether cassettes may be committed: each must be readable by this release, have all its blobs unchanged,
    and contain nothing that looks like a secret. Nothing is written and nothing is connected to.

    Args:
        paths: Cassettes, and directories to search recursively, except hidden ones and those of installed packages.
        max_age: Report older recordings, too.
        with_orphans: In the same directories, report blobs that no cassette references and recordings that did not end.
    """
    found: dict[Path, None] = {}
    folders: list[Path] = []
    problems: list[Problem] = []
    errors: list[CassetteError] = []
    for path in map(Path, paths):
        try:
            if path.is_dir():
                folders += (inside := list(_folders_below(path)))
                files = [file for folder in inside for file in _files_in(folder)]
                below = [file for file in files if file.suffix == ".json" and _is_cassette(file)]
                if not below:
                    raise CassetteNotFoundError(f"there is no cassette in the directory {path}", path=str(path))
                found.update(dict.fromkeys(below))
                continue
            folders += [path.parent] if path.exists() else []
            if not path.is_file() or not _is_cassette(path):
                load(path)  # raises the error that describes the file
            found[path] = None
        except CassetteError as error:
            errors.append(error)
        except OSError as error:
            errors.append(CassetteError(f"{error.filename}: {error.strerror or error}"))
    now = datetime.now(UTC)
    for path in found:
        problems += check_cassette(path, now=now, max_age=max_age)
    if with_orphans:
        problems += (problem for folder in dict.fromkeys(folders) for problem in orphans_in(folder))
    return CheckResult(tuple(found), tuple(problems), tuple(errors))


def _is_cassette(path: Path) -> bool:
    """Whether the file is a cassette, also a damaged one. OSError when it cannot be read."""
    return _FORMAT.search(path.read_bytes()) is not None


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file())


def _folders_below(directory: Path) -> Iterator[Path]:
    """The directories that are searched, each before those in it."""
    yield directory
    for folder in sorted(directory.iterdir()):
        if folder.is_dir() and not (folder.is_symlink() or folder.name[0] == "." or folder.name in _NOT_ENTERED):
            yield from _folders_below(folder)


def check_cassette(path: Path, *, now: datetime, max_age: timedelta | None = None) -> list[Problem]:
    """The problems of one cassette and its blobs. CassetteNotFoundError where there is no cassette."""
    try:
        document = load(path)
    except CassetteInvalidError as error:
        kind: ProblemKind = "version" if isinstance(error, CassetteVersionError) else "invalid"
        message = error.message.removeprefix(f"the cassette {path}: ").removeprefix(f"{error.pointer} ")
        return [Problem(path, kind, error.pointer, message)]
    problems = [Problem(path, "secret", one.where, f"looks like a secret: {one.kind}") for one in scan(document)]
    problems += _blob_problems(path, document)
    recorded_at = document.meta.recorded_at
    if max_age is not None and now - recorded_at > max_age:
        message = f"recorded {(now - recorded_at).days} days ago, on {recorded_at:%Y-%m-%d}: record it again"
        problems.append(Problem(path, "too-old", "/meta/recorded_at", message))
    return problems


def _blob_problems(path: Path, document: Document) -> Iterator[Problem]:
    for at, interaction in enumerate(document.interactions):
        body = interaction.body or {}
        if "blob" not in body:
            continue
        kind: ProblemKind = "blob-damaged"
        name = f"{BLOBS}/{body['blob']}"
        try:
            read_blob(body, path.parent / BLOBS)
            continue
        except FileNotFoundError:
            kind, message = "blob-missing", f"there is no {name}"
        except OSError as error:
            message = f"{name} cannot be read: {error.strerror or error}"
        except ValueError as error:
            message = f"{name} {error}"
        yield Problem(path, kind, f"/interactions/{at}/response/body", message)


def orphans_in(folder: Path) -> Iterator[Problem]:
    """Blobs that no file of the directory references, also no damaged cassette, and recordings that did not end."""
    files = [file for file in _files_in(folder) if file.name.endswith(".json") or UNFINISHED.fullmatch(file.name)]
    for file in files:
        if UNFINISHED.fullmatch(file.name):
            message = "left by a recording that did not end: vidgen cassette recover makes a cassette of it"
            yield Problem(file, "unfinished", "", message)
    blobs = folder / BLOBS
    if not blobs.is_dir():
        return
    named = {name.decode("utf-8", "replace") for file in files for name in _NAMED_BLOB.findall(file.read_bytes())}
    for file in _files_in(blobs):
        if file.name.lstrip(".").startswith("sha256-") and file.name not in named:
            yield Problem(file, "orphan", "", "no cassette references it")
