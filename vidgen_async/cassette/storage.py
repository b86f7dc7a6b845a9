"""A whole cassette takes its place at one go, or not at all."""

import os
import secrets as random_names
from contextlib import suppress
from pathlib import Path

from vidgen_async.cassette.body_encoding import Blob
from vidgen_async.cassette.document import Document
from vidgen_async.cassette.reader import load
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.secret_scan import is_any_in, map_texts, refuse_secrets, without_telling_bytes
from vidgen_async.cassette.writer import write
from vidgen_async.errors import CassetteError, CassetteNotFoundError


def publish(document: Document, target: Path) -> None:
    """Write the cassette to ``target``. What stood there before still does when this raises: CassetteSecretError, and
    CassetteError for what the system refuses."""
    refuse_secrets(document)
    write_at_one_go(target, write(document).encode())


def publish_recorded(document: Document, target: Path, redactor: Redactor) -> None:
    """The same for what was just recorded, with all that is known by now: a value may have turned out to be a secret
    after it had been written down."""
    secrets = redactor.secrets
    if is_any_in(document, secrets):
        document = map_texts(document, secrets.replace)
    document = without_telling_bytes(document, redactor)
    refuse_secrets(document, secrets, origin=redactor.origin)
    write_at_one_go(target, write(document).encode())


def store(blob: Blob, directory: Path) -> bool:
    """Write a blob, unless it is there already: it is named by its content. Whether it was new."""
    target = directory / blob.name
    if target.exists():
        return False
    write_at_one_go(target, blob.data, is_synced=False)
    return True


def load_if_there(path: Path) -> Document | None:
    """The cassette, or None where there is none."""
    try:
        return load(path)
    except CassetteNotFoundError:
        return None


def write_at_one_go(target: Path, data: bytes, *, is_synced: bool = True) -> None:
    """``is_synced``: it survives a loss of power, too. A blob need not: its name tells whether it is whole."""
    temporary = target.with_name(f".{target.name[:50]}.{random_names.token_hex(4)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise CassetteError(message) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
