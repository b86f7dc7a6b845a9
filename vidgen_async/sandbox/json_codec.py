"""JSON as it comes and goes: never deeper than can be shown again, and without the numbers that JSON does not know."""

import json
import math
from collections.abc import Iterable
from typing import Any

#: How many arrays and objects may lie in each other. The sandbox's own: the description sets no limit.
DEEPEST = 100
#: Digits of a whole number that are read exactly; one with more is beyond all limits, and infinite.
MOST_DIGITS = 400


def read(raw: bytes | str) -> Any:
    """For a reader who checks every number: NaN and infinite ones are read too.

    ValueError for what is no JSON, or too deep.
    """
    return _shallow(_loaded(raw, parse_int=_whole))


def read_strictly(raw: bytes | str) -> Any:
    """ValueError for what is no JSON by RFC 8259 (NaN and Infinity are none), a number that no float can hold, or too
    deep."""
    return _shallow(_loaded(raw, parse_constant=_refused, parse_float=_finite))


def written(value: Any) -> bytes:
    """In ASCII, for what may hold text that is none; NaN and infinite numbers, which JSON does not know, are null."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_without_infinity(value), allow_nan=False).encode()


def is_strict(value: Any) -> bool:
    """Return whether a value that was read holds neither NaN nor infinite numbers."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _loaded(raw: bytes | str, **ways: Any) -> Any:
    try:
        return json.loads(raw, **ways)
    except RecursionError:
        raise ValueError("too deep") from None


def _shallow(value: Any) -> Any:
    level = _nested([value])
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _nested(outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise ValueError("too deep")
    return value


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, list | dict)]


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("no float can hold the number")
    return number


def _refused(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _without_infinity(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_infinity(inner) for name, inner in value.items()}
    return [_without_infinity(inner) for inner in value] if isinstance(value, list | tuple) else value
