"""A complete cassette is stored atomically, or not at all."""

from contextlib import suppress
from pathlib import Path

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.cassette.body_encoding import Blob
from vidgen_async.cassette.document import Document
from vidgen_async.cassette.reader import load
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.secret_scan import refuse_secrets, without_secrets
from vidgen_async.cassette.writer import write
from vidgen_async.errors import CassetteError, CassetteNotFoundError


def publish(document: Document, target: Path, redactor: Redactor | None = None) -> None:
    """Replace ``target`` by the cassette. ``redactor`` is that of a new recording: values that turned out to be secrets
    after they had been recorded are hidden.

    Raises:
        CassetteSecretError: The cassette seems to contain a secret.
        CassetteError: The file cannot be written.
            In both cases ``target`` is unchanged.
    """
    if redactor is None:
        refuse_secrets(document)
    else:
        document = without_secrets(document, redactor)
        refuse_secrets(document, redactor.secrets, origin=redactor.origin)
    write_atomically(target, write(document).encode())


def store(blob: Blob, directory: Path) -> bool:
    """Write a blob, unless it exists already, undamaged. Return whether it was written."""
    target = directory / blob.name
    with suppress(OSError):
        if target.read_bytes() == blob.data:
            return False
    write_atomically(target, blob.data, is_durable=False)
    return True


def load_if_there(path: Path) -> Document | None:
    """The cassette, or None if there is no such file."""
    try:
        return load(path)
    except CassetteNotFoundError:
        return None


def write_atomically(target: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Replace or create the file. ``is_durable``: it survives a loss of power; a blob need not, for its name shows
    whether it is complete."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(target, is_durable=is_durable) as file:
            file.write(data)
            file.commit()
    except OSError as error:
        raise CassetteError(f"{target} cannot be written: {error.strerror or error}") from error
