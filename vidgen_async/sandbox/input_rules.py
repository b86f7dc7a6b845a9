"""Checks of JSON from outside: cattrs structures it by types, and every problem is reported at once.

A type is annotated with a :class:`Rule` where not every value of it is allowed; ``X | None`` also allows null.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from attrs import frozen
from cattrs import BaseValidationError, Converter, ForbiddenExtraKeysError, transform_error

T = TypeVar("T")

SHOWN = 80
#: How deep arrays and objects may be nested. The sandbox's own limit: the description sets none.
DEEPEST = 100
NOT_JSON = f"the body must be JSON, nested at most {DEEPEST} deep, with Content-Type: application/json"


class InvalidInputError(ValueError):
    """The message names every problem: the field, what is allowed there, and the value unless it is secret."""


@frozen
class Rule:
    """Which JSON values are allowed. ``text`` completes "must be …"; no message shows a secret value."""

    text: str
    allows: Callable[[Any], bool]
    is_secret: bool = False

    def check(self, value: T) -> T:
        """Return an allowed value; raise a ValueError whose arguments are this rule and the value for another."""
        if not self.allows(value):
            raise ValueError(self, value)
        return value


BOOLEAN = Rule("true or false", lambda value: type(value) is bool)
OBJECT = Rule("an object", lambda value: type(value) is dict)
STRING = Rule("a string", lambda value: type(value) is str)
#: Of a string that stands for bytes: a lone surrogate from U+DC80 to U+DCFF is a single byte.
BYTES = Rule("a string", lambda value: type(value) is str and not re.search("[\ud800-\udc7f\udd00-\udfff]", value))


def whole_number(low: int, high: int) -> Rule:
    return Rule(f"a whole number of {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def number(low: float, high: float) -> Rule:
    """NaN is within no limits."""
    return Rule(f"a number of {low:g} to {high:g}", lambda value: type(value) in (int, float) and low <= value <= high)


def string(pattern: str, text: str) -> Rule:
    return Rule(text, lambda value: type(value) is str and re.fullmatch(pattern, value, re.DOTALL) is not None)


def one_of(names: Iterable[str]) -> Rule:
    allowed = tuple(names)
    return Rule(f"one of {', '.join(allowed)}", lambda value: type(value) is str and value in allowed)


def array_of(item: Rule) -> Rule:
    """At least one item; the type of the items has their rule too."""
    return Rule(f"an array, not empty, each item {item.text}", lambda value: type(value) is list and value != [])


def parse_json(raw: bytes | str) -> Any:
    """Return the value of JSON; a ValueError for NaN, what is beyond a float, and what is nested too deep."""
    try:
        value = json.loads(raw, parse_constant=_parse_float, parse_float=_parse_float)
    except RecursionError:
        raise ValueError("too deep") from None
    if _is_deeper(value, DEEPEST):
        raise ValueError("too deep")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    members = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and (not levels or any(_is_deeper(each, levels - 1) for each in members))


def _parse_float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not JSON, or beyond the range of a float")
    return number


def read_body(raw: bytes) -> dict[str, Any]:
    """Return the fields of a body that is a JSON object; an empty body has none."""
    try:
        fields = parse_json(raw) if raw.strip() else {}
    except ValueError:
        raise InvalidInputError(NOT_JSON) from None
    if not isinstance(fields, dict):
        raise InvalidInputError(f"the body must be a JSON object, not {show(fields)}")
    return fields


def structure(fields: Mapping[str, Any], kind: type[T], problems: Iterable[str] = ()) -> T:
    """Return the fields as a ``kind``, which is a TypedDict; an InvalidInputError if there are problems."""
    try:
        structured, found = _CONVERTER.structure(fields, kind), [*problems]
    except BaseValidationError as error:
        found = [*map(_name_field_first, transform_error(error, format_exception=_describe)), *problems]
    if found:
        raise InvalidInputError("; ".join(found))
    return structured


def show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _name_field_first(problem: str) -> str:
    """Turn ``PROBLEM @ $.FIELD`` into ``FIELD: PROBLEM``."""
    text, _, path = problem.rpartition(" @ $")
    return f"{path[1:]}: {text}" if path else text


def _describe(error: BaseException, kind: Any) -> str:
    match error:
        case ValueError(args=(Rule() as rule, value)):
            null = ", or null" if type(None) in get_args(kind) else ""
            return f"must be {rule.text}{null}" + ("" if rule.is_secret else f", not {show(value)}")
        case ForbiddenExtraKeysError():
            names = ", ".join(map(show, sorted(error.extra_fields)))
            return f"{names}: there is no such field; there are: {', '.join(get_type_hints(error.cl)) or 'none'}"
        case _:
            return "required" if isinstance(error, KeyError) else str(error)


def _has_rule(kind: Any) -> bool:
    return get_origin(kind) is Annotated


def _check_and_structure(value: Any, kind: Any) -> Any:
    base, rule = get_args(kind)[:2]
    rule.check(value)
    # An int stays an int where a float is allowed.
    return value if base in (int, float, str, object) else _CONVERTER.structure(value, base)


_CONVERTER = Converter(forbid_extra_keys=True)
_CONVERTER.register_structure_hook(bool, lambda value, _: BOOLEAN.check(value))
_CONVERTER.register_structure_hook(str, lambda value, _: STRING.check(value))
_CONVERTER.register_structure_hook(bytes, lambda value, _: BYTES.check(value).encode("utf-8", "surrogateescape"))
_CONVERTER.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
_CONVERTER.register_structure_hook_func(_has_rule, _check_and_structure)
