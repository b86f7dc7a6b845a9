"""A whole cassette takes its place at one go, or not at all."""

import os
import secrets as random_names
from contextlib import suppress
from pathlib import Path

from vidgen_async.cassette.bodies import Blob
from vidgen_async.cassette.document import Document, load, write
from vidgen_async.cassette.scanning import is_any_in, map_texts, refuse_secrets
from vidgen_async.cassette.secrets import Secrets
from vidgen_async.errors import CassetteError, CassetteNotFoundError


def publish(document: Document, target: Path, secrets: Secrets | None = None) -> None:
    """Write the cassette to ``target``. What stood there before still does when this raises: CassetteSecretError, and
    CassetteError for what the system refuses."""
    if secrets is not None and is_any_in(document, secrets):
        # A value that was told to be a secret only after it had been written down elsewhere.
        document = map_texts(document, lambda text: secrets.replace(text, thoroughly=True))
    refuse_secrets(document, secrets)
    write_at_one_go(target, write(document).encode())


def store(blob: Blob, directory: Path) -> None:
    """Write a blob, unless it is there already: it is named by its content."""
    target = directory / blob.name
    if not target.exists():
        write_at_one_go(target, blob.data)


def load_if_there(path: Path) -> Document | None:
    """The cassette, or None where there is none."""
    try:
        return load(path)
    except CassetteNotFoundError:
        return None


def write_at_one_go(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{target.name[:50]}.{random_names.token_hex(4)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror}"
        raise CassetteError(message) from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
