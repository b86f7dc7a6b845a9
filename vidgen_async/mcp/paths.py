"""Files below the directory of the server: an agent can name no others."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from vidgen_async.errors import InvalidRequestError


def find_target(directory: Path, name: str) -> Path:
    """Return the path of a file to write, if its folder is below the directory. A link at its place is not followed."""
    path = Path(name)
    if not name.isprintable() or path.is_absolute() or ".." in path.parts or not path.name:
        raise _refusal(name, "must be a relative path without ..")
    root, folder = os.path.realpath(directory), os.path.realpath(directory / path.parent)
    if not Path(folder).is_relative_to(root):
        raise _refusal(name, "is not below the directory")
    return Path(folder, path.name)


def find_images(directory: Path, names: Sequence[str]) -> list[Path]:
    """Return the paths of files to read, without links, if they are regular files below the directory."""
    found = []
    for name in names:
        path = Path(os.path.realpath(find_target(directory, name)))
        if not path.is_relative_to(os.path.realpath(directory)):
            raise _refusal(name, "is not below the directory")
        if not is_regular(path):
            raise _refusal(name, "is no file below the directory")
        found.append(path)
    return found


def is_regular(path: Path) -> bool:
    """Whether a file, and no link or device, is at the path."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _refusal(name: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f"the file {name[:100]!r} {why}")
