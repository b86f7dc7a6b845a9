"""Where a cassette is, and how it is recorded and replayed."""

from collections.abc import Iterable
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from attrs import field, frozen

from vidgen_async.cassette.body_decoding import BLOBS
from vidgen_async.cassette.document import Document
from vidgen_async.cassette.reader import load
from vidgen_async.cassette.recovery import ENDING
from vidgen_async.cassette.redactor import Prompts
from vidgen_async.errors import ConfigurationError

Exhausted: TypeAlias = Literal["error", "repeat-last"]


class Mode(StrEnum):
    """How a cassette is used."""

    REPLAY = "replay"
    """Replay it, without a network."""
    RECORD = "record"
    """Record a new one; the old one stays until the new one is complete."""
    APPEND = "append"
    """Replay what is on it, and record the rest."""
    AUTO = "auto"
    """Replay it if it exists, else record it; never record on a CI system."""

    @classmethod
    def named(cls, name: str) -> "Mode":
        """Return the mode of this name; ConfigurationError if there is none."""
        try:
            return cls(name)
        except ValueError as error:
            raise ConfigurationError(f"unknown cassette mode {name!r}: it is one of {', '.join(cls)}") from error


ModeName: TypeAlias = Literal["replay", "record", "append", "auto"]
"""The values of :class:`Mode`, for calls that accept a mode by its name."""


def _items(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)


@frozen
class Cassette:
    """A cassette at ``path``: how it is recorded and replayed. Making one opens no file.

    Args:
        path: The file.
        prompts: ``"keep"``, or ``"pseudonym"`` to hide prompts like other secrets; requests that differ only in hidden
            values are then matched by their order.
        secrets: Further values that must never be recorded.
        exhausted: What happens to a request that is made more often than it was recorded: ``"error"``, or
            ``"repeat-last"``.
        ignore: JSON pointers of fields of request bodies that are not compared, such as ``"/prompt"``.
        largest_blob: In bytes. Of a longer binary response, only both ends, the length and a digest are recorded; a
            replay has zeros between the ends.
    """

    path: Path = field(converter=Path)
    prompts: Prompts = field(default="keep", kw_only=True)
    secrets: tuple[str, ...] = field(default=(), kw_only=True, converter=_items, repr=False)
    exhausted: Exhausted = field(default="error", kw_only=True)
    ignore: tuple[str, ...] = field(default=(), kw_only=True, converter=_items)
    largest_blob: int = field(default=1 << 20, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, allowed in (("prompts", get_args(Prompts)), ("exhausted", get_args(Exhausted))):
            if (value := getattr(self, name)) not in allowed:
                message = f"Cassette({name}=…) is {' or '.join(map(repr, allowed))}, not {value!r}"
                raise ConfigurationError(message)
        if not all(isinstance(text, str) for text in self.secrets):  # which are not shown
            raise ConfigurationError("Cassette(secrets=…) holds texts")
        for pointer in self.ignore:
            if not isinstance(pointer, str) or not pointer.startswith("/"):
                raise ConfigurationError(f"Cassette(ignore=…) holds JSON pointers like '/prompt', not {pointer!r}")

    @property
    def part(self) -> Path:
        """The file of a recording in progress, or of one that was killed."""
        return self.path.with_name(f"{self.path.name}{ENDING}")

    @property
    def blobs(self) -> Path:
        """The directory of large bodies; the cassettes of one directory share it."""
        return self.path.parent / BLOBS

    def exists(self) -> bool:
        return self.path.exists()

    def load(self) -> Document:
        """Read it, as :func:`load` does."""
        return load(self.path)


def as_cassette(given: Cassette | str | PathLike[str]) -> Cassette:
    """A path means a cassette with default settings."""
    return given if isinstance(given, Cassette) else Cassette(Path(given))
