"""What the file of a recording contains, after its end or a kill: all finished interactions, which make a cassette."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from vidgen_async.cassette.body_decoding import BLOBS
from vidgen_async.cassette.document import FORMAT, Document, Interaction, write
from vidgen_async.cassette.reader import Reader, load
from vidgen_async.cassette.secret_scan import redact_again, refuse_secrets, store, write_atomically
from vidgen_async.errors import CassetteError, CassetteInvalidError, CassetteNotFoundError

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
    began = object_of(lines[0])
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
            finished += _read_line(object_of(line) or {}, opened, reader)
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


def object_of(line: bytes) -> dict[str, Any] | None:
    """The JSON object of one line; None for another value, and for a line that was cut."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
