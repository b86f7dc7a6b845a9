"""The path of the cassette of a test: unique on every file system."""

import hashlib
import re
from pathlib import Path

#: Longer names are cut: with their suffixes they are valid where file names have at most 143 bytes.
LONGEST = 100

# Some file systems ignore the case of letters; upper case is common in names of classes, and accepted there.
_PLAIN = re.compile(r"[A-Za-z0-9_.]+(\[[a-z0-9_.,=+@()\[\]-]*\])?")
_OTHER = re.compile(r"[^A-Za-z0-9_.,=+@()\[\]-]+")


def file_name(test: str) -> str:
    """The file for a test named ``Class.test[param]``. In a name that is too long or has other characters, these are
    replaced, and a digest of the whole name is appended; no plain name has this form."""
    if len(test) <= LONGEST and _PLAIN.fullmatch(test):
        return f"{test}.json"
    digest = hashlib.sha256(test.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{_OTHER.sub('_', test)[:LONGEST]}-{digest}.json"


def cassettes_of(test_file: Path, together: Path | None, root: Path) -> Path:
    """The directory of cassettes for a test file: ``cassettes`` beside it, or its own directory below ``together``, for
    the cassettes of all tests; ``root`` is pytest's rootdir."""
    if together is None:
        return test_file.parent / "cassettes"
    below = test_file.parent.relative_to(root) if test_file.is_relative_to(root) else test_file.parent
    return together.joinpath(*below.parts[1:] if below.is_absolute() else below.parts)


def is_name(name: object) -> bool:
    """Whether it is a valid name of a cassette: a relative path of plain words."""
    words = name.split("/") if isinstance(name, str) else [""]
    return all(re.fullmatch(r"[\w.,=+@()\[\]-]+", word) and word.strip(".") for word in words)
