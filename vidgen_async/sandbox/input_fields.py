"""What people and programs outside hand in as JSON: checked field by field, with all problems told at once."""

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from vidgen_async.sandbox import json_codec

T = TypeVar("T")
U = TypeVar("U")

SHOWN = 80


class Wrong(ValueError):  # noqa: N818 - not an error of the sandbox
    """What was handed in is wrong; the message names everything."""


@frozen
class Kind(Generic[T]):
    """A kind of value: what is allowed in words, a short name for forms, and how it is read; ``read`` raises
    ValueError or TypeError for what does not fit."""

    says: str
    form: str
    read: Callable[[Any], T]


@define
class Given:
    """The fields of one JSON object. Each is taken once; :meth:`check` raises for everything that was wrong."""

    fields: dict[str, Any]
    problems: list[str] = field(factory=list)
    _known: list[str] = field(factory=list)

    @classmethod
    def of_body(cls, raw: bytes) -> "Given":
        """A request's body; an empty one stands for an object without fields."""
        try:
            fields = json_codec.read(raw) if raw.strip() else {}
        except ValueError:
            raise Wrong(f"the body must be JSON, nested at most {json_codec.DEEPEST} deep") from None
        if not isinstance(fields, dict):
            raise Wrong(f"the body must be a JSON object, not {shown(fields)}")
        return cls(fields)

    def has(self, name: str) -> bool:
        return name in self.fields

    def take(self, name: str, kind: Kind[T], default: U) -> T | U:
        """The value of a field, or ``default`` where it is absent or wrong."""
        self._known.append(name)
        if name not in self.fields:
            return default
        try:
            return kind.read(self.fields[name])
        except (ValueError, TypeError):
            self.problems.append(f"{name}: must be {kind.says}, not {shown(self.fields[name])}")
            return default

    def require(self, *names: str) -> None:
        """Note those that are missing."""
        self.problems += [f"{name}: required" for name in names if name not in self.fields]

    def check(self) -> None:
        """Raise :class:`Wrong` with every problem, unknown fields among them."""
        unknown = [name for name in self.fields if name not in self._known]
        known = ", ".join(self._known) or "none"
        self.problems += [f"{shown(name)}: there is no such field; there are: {known}" for name in unknown]
        if self.problems:
            raise Wrong("; ".join(self.problems))


def shown(value: object) -> str:
    """A value as it stands in a message: as JSON, and not all of a long one."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def integer(low: int, high: int) -> Kind[int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        return _within(value, low, high)

    return Kind(f"a whole number of {low} to {high}", "integer", read)


def number(low: float, high: float) -> Kind[float]:
    """An int stays an int. NaN is within no limits."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        return _within(value, low, high)

    return Kind(f"a number of {low:g} to {high:g}", "number", read)


def text(pattern: str = r".*", says: str = "a string") -> Kind[str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.DOTALL):
            raise ValueError
        return value

    return Kind(says, "string", read)


def one_of(allowed: Collection[str]) -> Kind[str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError
        return value

    return Kind(f"one of {', '.join(allowed)}", "string", read)


def list_of(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """An array with at least one item."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list) or not value:
            raise TypeError
        return tuple(kind.read(item) for item in value)

    return Kind(f"an array, not empty, each item {kind.says}", "array", read)


def mapping_of(name: Kind[str], kind: Kind[T]) -> Kind[dict[str, T]]:
    def read(value: object) -> dict[str, T]:
        if not isinstance(value, dict):
            raise TypeError
        return {name.read(key): kind.read(item) for key, item in value.items()}

    return Kind(f"an object, each name {name.says}, each value {kind.says}", "object", read)


def or_null(kind: Kind[T]) -> Kind[T | None]:
    def read(value: object) -> T | None:
        return None if value is None else kind.read(value)

    return Kind(f"{kind.says}, or null", kind.form, read)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _json(value: object) -> object:
    json.dumps(value, allow_nan=False)
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


BOOLEAN = Kind("true or false", "boolean", _boolean)
ANYTHING = Kind("any JSON", "any", _json)
#: What lies in it is for its reader to check.
OBJECT = Kind("an object", "object", _object)
HEADER_NAME = text(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "a header's name")
HEADER_VALUE = text(r"[^\x00-\x1f\x7f\ud800-\udfff]*", "a header's value, in one line")

Number = TypeVar("Number", int, float)


def _within(value: Number, low: float, high: float) -> Number:
    if not low <= value <= high:
        raise ValueError
    return value
