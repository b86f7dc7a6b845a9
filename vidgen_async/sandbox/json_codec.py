"""Reads and writes JSON with a limit of its depth, and without NaN and infinite numbers."""

import json
import math
from collections.abc import Iterable
from typing import Any

#: How deep arrays and objects may be nested. The sandbox's own limit: the description sets none.
DEEPEST = 100
#: An integer with more digits is read as infinity, which is beyond every limit.
MOST_DIGITS = 400


def read(raw: bytes | str) -> Any:
    """Return the value of JSON for a caller that checks every number: NaN and infinite numbers are returned too.

    Raises:
        ValueError: It is not JSON, or nested too deep.
    """
    return _check_depth(_load(raw, parse_int=_parse_integer))


def read_strictly(raw: bytes | str) -> Any:
    """Return the value of JSON.

    Raises:
        ValueError: It is not JSON by RFC 8259 (without NaN and Infinity), has a number beyond the range of a float, or
            is nested too deep.
    """
    return _check_depth(_load(raw, parse_constant=_refuse_constant, parse_float=_parse_float))


def encode(value: Any) -> bytes:
    """Return JSON in ASCII, which also holds lone surrogates. NaN and infinite numbers become null."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_without_infinity(value), allow_nan=False).encode()


def is_strict(value: Any) -> bool:
    """Return whether a value that was read from JSON has neither NaN nor infinite numbers."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _load(raw: bytes | str, **options: Any) -> Any:
    try:
        return json.loads(raw, **options)
    except RecursionError:
        raise ValueError("too deep") from None


def _check_depth(value: Any) -> Any:
    level = _nested([value])
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _nested(outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise ValueError("too deep")
    return value


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, list | dict)]


def _parse_integer(digits: str) -> float:
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("the number is beyond the range of a float")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _without_infinity(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_infinity(inner) for name, inner in value.items()}
    return [_without_infinity(inner) for inner in value] if isinstance(value, list | tuple) else value
