"""Find the cassettes that a command names, and write a recovered one."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from attrs import evolve

from vidgen_async.cassette import Interaction, RecoveredRecording, load
from vidgen_async.cassette.body_decoding import BLOBS
from vidgen_async.cassette.body_encoding import Blob
from vidgen_async.cassette.checks import blob_names, cassettes_below, is_cassette
from vidgen_async.cassette.secret_scan import refuse_secrets
from vidgen_async.cassette.storage import store
from vidgen_async.errors import CassetteError, CassetteInvalidError, CassetteNotFoundError


def find_cassettes(paths: Iterable[Path]) -> tuple[list[Path], list[Exception]]:
    """Return the cassettes at the paths, each once, and an error for each path without one."""
    found: dict[Path, None] = {}
    errors: list[Exception] = []
    for path in paths:
        try:
            found.update(dict.fromkeys(_cassettes_at(path)))
        except (CassetteError, OSError) as error:
            errors.append(error)
    return list(found), errors


def _cassettes_at(path: Path) -> list[Path]:
    if path.is_dir():
        below = cassettes_below(path)
        if not below:
            raise CassetteNotFoundError(f"there is no cassette in the directory {path}", path=str(path))
        return below
    if not path.is_file() or not is_cassette(path):
        load(path)  # raises the error that describes the file
    return [path]


def refuse_to_replace(recovered: RecoveredRecording) -> None:
    """Raise CassetteError if an existing cassette has interactions that the recovered one does not have."""
    target = recovered.target
    try:
        old = load(target)
    except CassetteNotFoundError:
        return
    except CassetteInvalidError as error:
        raise CassetteError(f"{error.message.rstrip('.')}. Nothing was written; --force replaces it.") from error
    missing = Counter(map(_content, old.interactions)) - Counter(map(_content, recovered.document.interactions))
    if missing:
        message = f"{target} has interactions that were not recovered. Nothing was written; --force replaces it."
        raise CassetteError(message)


def _content(one: Interaction) -> str:
    """An interaction without its number and times, which differ between two recordings of the same requests."""
    return repr(evolve(one, n=0, started=0.0, answered=None, ended=None))


def publish(recovered: RecoveredRecording, part: Path) -> list[str]:
    """Write the cassette and its missing blobs, and return the names of those that are lost. CassetteError means that
    nothing was written, usually because of a secret."""
    numbers = {one.n for one in recovered.document.interactions}
    if len(numbers) < len(recovered.document.interactions):
        raise CassetteError(f"{recovered.target} already has the interactions of {part}; nothing was written")
    refuse_secrets(recovered.document)
    source, target = part.parent / BLOBS, recovered.target.parent / BLOBS
    lost = []
    for name in sorted(blob_names(recovered.document)):
        if (target / name).exists():
            continue
        if (source / name).is_file():
            store(Blob(name, (source / name).read_bytes()), target)
        else:
            lost.append(name)
    recovered.publish()
    return lost
