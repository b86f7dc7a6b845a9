"""The cassettes that a command was given, and where a recovered one goes."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from attrs import evolve

from vidgen_async.cassette import Document, Interaction, Recovered, load
from vidgen_async.cassette.body_decoding import BLOBS
from vidgen_async.cassette.body_encoding import Blob
from vidgen_async.cassette.checks import blob_names, cassettes_below, folders_below, is_cassette
from vidgen_async.cassette.secret_scan import refuse_secrets
from vidgen_async.cassette.storage import store
from vidgen_async.errors import CassetteError, CassetteInvalidError, CassetteNotFoundError


def find(paths: Iterable[Path]) -> tuple[list[Path], list[Exception]]:
    """The cassettes that the paths name, each once, and an error for each path without one."""
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
            message = f"there is no cassette in the directory {path}"
            raise CassetteNotFoundError(message, path=str(path))
        return below
    if not path.is_file() or not is_cassette(path):
        load(path)  # says what it is instead
    return [path]


def folders_of(path: Path) -> list[Path]:
    """The directories in which a path's cassettes are."""
    return folders_below(path) if path.is_dir() else [path.parent]


def interaction(path: Path, document: Document, n: int) -> Interaction:
    """The one with this number; CassetteError when there is none."""
    for one in document.interactions:
        if one.n == n:
            return one
    count = len(document.interactions)
    message = f"there is no interaction {n} on {path}, which has {count}"
    raise CassetteError(message)


def refuse_to_replace(recovered: Recovered) -> None:
    """CassetteError where there is a cassette that has what the recovered one has not."""
    target = recovered.target
    try:
        old = load(target)
    except CassetteNotFoundError:
        return
    except CassetteInvalidError as error:
        message = f"{error.message.rstrip('.')}. Nothing was written; --force replaces it."
        raise CassetteError(message) from error
    missing = Counter(map(_content, old.interactions)) - Counter(map(_content, recovered.document.interactions))
    if missing:
        message = f"{target} holds what was not recovered, or other answers. Nothing was written; --force replaces it."
        raise CassetteError(message)


def _content(one: Interaction) -> str:
    """An interaction without its number and its times: another recording of the same has others."""
    return repr(evolve(one, n=0, started=0.0, answered=None, ended=None))


def publish(recovered: Recovered, part: Path) -> list[str]:
    """Write the cassette, and beside it those of its blobs that are not there yet; the names of blobs that are lost.

    CassetteError, above all CassetteSecretError, says why nothing was written.
    """
    numbers = {one.n for one in recovered.document.interactions}
    if len(numbers) < len(recovered.document.interactions):
        message = f"{recovered.target} has what is in {part} already; nothing was written"
        raise CassetteError(message)
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
