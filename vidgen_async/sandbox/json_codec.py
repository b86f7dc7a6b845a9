"""Reads JSON with a limit of its depth, and without NaN and infinite numbers."""

import json
import math
from collections.abc import Iterable
from typing import Any

#: How deep arrays and objects may be nested. The sandbox's own limit: the description sets none.
DEEPEST = 100


def read(raw: bytes | str) -> Any:
    """Return the value of JSON.

    Raises:
        ValueError: It is not JSON by RFC 8259 (without NaN and Infinity), has a number beyond the range of a float, or
            is nested too deep.
    """
    try:
        value = json.loads(raw, parse_constant=_parse_float, parse_float=_parse_float)
    except RecursionError:
        raise ValueError("too deep") from None
    level = _nested([value])
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _nested(outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise ValueError("too deep")
    return value


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, list | dict)]


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not JSON, or beyond the range of a float")
    return number
