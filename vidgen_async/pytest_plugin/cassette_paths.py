"""Where the cassette of a test is: a path that no other test has, on any file system."""

import hashlib
import re
from pathlib import Path

#: Longer names are cut: with what is put behind them they still fit wherever file names are at most 143 bytes long.
LONGEST = 100

# Letters of both cases are told apart by some file systems only; in a class's name they are usual, and they stay.
_PLAIN = re.compile(r"[A-Za-z0-9_.]+(\[[a-z0-9_.,=+@()\[\]-]*\])?")
_ODD = re.compile(r"[^A-Za-z0-9_.,=+@()\[\]-]+")


def file_name(test: str) -> str:
    """The file for a test called ``Class.test[param]``. An over-long or odd name is cut, made plain and told apart by
    a digest of all of it; no plain name looks like one of those."""
    if len(test) <= LONGEST and _PLAIN.fullmatch(test):
        return f"{test}.json"
    digest = hashlib.sha256(test.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{_ODD.sub('_', test)[:LONGEST]}-{digest}.json"


def cassettes_of(test_file: Path, together: Path | None, root: Path) -> Path:
    """The directory of cassettes for a test file: ``cassettes`` beside it, or its own place below ``together``, where
    the cassettes of all tests are; ``root`` is pytest's rootdir."""
    if together is None:
        return test_file.parent / "cassettes"
    below = test_file.parent.relative_to(root) if test_file.is_relative_to(root) else test_file.parent
    return together.joinpath(*below.parts[1:] if below.is_absolute() else below.parts)


def is_name(name: object) -> bool:
    """Whether a test may say that its cassette is called so: a relative path of plain words."""
    words = name.split("/") if isinstance(name, str) else [""]
    return all(re.fullmatch(r"[\w.,=+@()\[\]-]+", word) and word.strip(".") for word in words)
