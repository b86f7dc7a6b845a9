"""Faults by name, for those who cannot call :class:`Fault`: over HTTP and on the command line."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import frozen

from vidgen_async.sandbox import json_codec
from vidgen_async.sandbox.faults import OPS, Fault, FaultPlan, Op, PlannedFault
from vidgen_async.sandbox.input_fields import (
    ANYTHING,
    BOOLEAN,
    HEADER_NAME,
    HEADER_VALUE,
    OBJECT,
    Given,
    Kind,
    Wrong,
    integer,
    mapping_of,
    number,
    one_of,
    or_null,
    shown,
)

TIMES = integer(1, 1_000_000)
AFTER = integer(0, 1_000_000)
BODY_SIZE = integer(0, 1 << 32)


def _bytes(value: object) -> bytes:
    """UTF-8; a lone surrogate from U+DC80 to U+DCFF is the single byte that it escapes."""
    if not isinstance(value, str):
        raise TypeError
    return value.encode("utf-8", "surrogateescape")


BYTES: Kind[bytes] = Kind("a string", "string", _bytes)

#: What the arguments of the faults may be. Nobody can see a status below 200: an answer is still to come then.
ARGUMENTS: Mapping[str, Kind[Any]] = {
    "code": integer(200, 999),
    "status": integer(200, 999),
    "headers": or_null(mapping_of(HEADER_NAME, HEADER_VALUE)),
    "content_type": or_null(HEADER_VALUE),
    "location": HEADER_VALUE,
    "made": BOOLEAN,
    "seconds": or_null(number(0, 1e9)),
    "raw": BYTES,
    "after": number(0, 1 << 32),
    "bytes_per_second": number(0.1, 1e9),
    "first": BODY_SIZE,
    "length": or_null(BODY_SIZE),
}
#: Arguments that mean something else in one fault.
SPECIAL: Mapping[tuple[str, str], Kind[Any]] = {
    ("status", "body"): ANYTHING,
    ("garble", "body"): BYTES,
    ("rewrite", "body"): or_null(BYTES),
    ("rewrite", "status"): or_null(integer(200, 999)),
}


@frozen
class FaultForm:
    """A fault that can be asked for by name, and what its arguments may be."""

    name: str
    make: Callable[..., Fault]
    arguments: Mapping[str, inspect.Parameter]

    def kind(self, argument: str) -> Kind[Any]:
        return SPECIAL.get((self.name, argument)) or ARGUMENTS[argument]

    @property
    def required(self) -> list[str]:
        return [name for name, found in self.arguments.items() if found.default is found.empty]

    def as_json(self) -> dict[str, Any]:
        """For a form: each argument with its type, and the default where it need not be given."""
        return {
            "name": self.name,
            "says": _plain(inspect.getdoc(self.make) or ""),
            "args": [
                {
                    "name": name,
                    "type": self.kind(name).form,
                    "default": _as_json(None if name in self.required else found.default),
                    "required": name in self.required,
                }
                for name, found in self.arguments.items()
            ],
        }

    def fault(self, args: Mapping[str, Any]) -> Fault:
        """The fault with these arguments; :class:`Wrong` names all that are wrong."""
        given = Given(dict(args))
        given.require(*self.required)
        read = {name: given.take(name, self.kind(name), None) for name in self.arguments}
        try:
            given.check()
        except Wrong:
            raise Wrong("; ".join(f"args of {self.name}: {problem}" for problem in given.problems)) from None
        return self.make(**{name: value for name, value in read.items() if given.has(name)})


def _forms() -> dict[str, FaultForm]:
    forms = {}
    for name, found in vars(Fault).items():
        if isinstance(found, classmethod) and not name.startswith("_") and name != "edit":
            make = getattr(Fault, name)
            forms[name] = FaultForm(name, make, inspect.signature(make).parameters)
    return forms


#: Every fault whose arguments are JSON.
FORMS: Mapping[str, FaultForm] = _forms()


def plan(faults: FaultPlan, given: Given) -> PlannedFault:
    """Plan what is asked for as ``{"op", "fault", "times", "after", "args"}``.

    :class:`Wrong` names all that is wrong.
    """
    given.require("op", "fault")
    op = given.take("op", one_of(OPS), "*")
    name = given.take("fault", one_of(FORMS), "")
    times = given.take("times", or_null(TIMES), 1)
    after = given.take("after", AFTER, 0)
    args = given.take("args", OBJECT, {})
    fault = None
    if name:
        try:
            fault = FORMS[name].fault(args)
        except Wrong as wrong:
            given.problems.append(str(wrong))
    given.check()
    assert fault is not None, "a fault that could not be made is a problem"  # noqa: S101 - for the type checker
    return faults.add(cast("Op", op), fault, times=times, after=after)


def plan_text(faults: FaultPlan, written: str) -> PlannedFault:
    """Plan ``OP=NAME[,ARGUMENT=VALUE…][:TIMES]``, e.g. ``videos.create=status,code=503,made=true:2``.

    A value is JSON, or else taken as text; TIMES is a number or ``always``. :class:`Wrong` names all that is wrong.
    """
    shape = re.fullmatch(r"([^=]+)=([^,:]+)((?:,\w+=.*?)?)(?::(\d+|always))?", written, re.DOTALL)
    if shape is None:
        raise Wrong(f"{shown(written)}: must be OP=NAME[,ARGUMENT=VALUE…][:TIMES]")
    op, name, arguments, times = shape.groups()
    pairs = [part.partition("=") for part in re.split(r",(?=\w+=)", arguments)[1:]]
    given: dict[str, Any] = {"op": op, "fault": name, "args": {key: _value(value) for key, _, value in pairs}}
    if times:
        given["times"] = None if times == "always" else int(times)
    try:
        return plan(faults, Given(given))
    except Wrong as wrong:
        raise Wrong(f"{shown(written)}: {wrong}") from None


def _value(written: str) -> Any:
    try:
        return json_codec.read(written)
    except ValueError:
        return written


def _as_json(default: object) -> object:
    return default.decode("utf-8", "surrogateescape") if isinstance(default, bytes) else default


def planned_as_json(planned: PlannedFault) -> dict[str, Any]:
    return {
        "id": planned.id,
        "op": planned.op,
        "fault": planned.fault.name,
        "times": planned.times,
        "after": planned.after,
    }


def _plain(text: str) -> str:
    """A docstring as one line without its markup."""
    return re.sub(r":\w+:`([^`]*)`|``([^`]*)``", r"\1\2", " ".join(text.split()))
