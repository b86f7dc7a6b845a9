"""Faults by name, for HTTP and the command line. The arguments of a fault are those of its method of ``Fault``."""

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, NotRequired, TypedDict, Union, get_args, get_origin

from attrs import asdict

from vidgen_async.sandbox.faults import OPS, Fault, FaultPlan, Op, PlannedFault
from vidgen_async.sandbox.input_rules import (
    OBJECT,
    InvalidInputError,
    one_of,
    parse_json,
    show,
    structure,
    whole_number,
)

TYPE_NAMES = {int: "integer", float: "number", str: "string", bytes: "string", bool: "boolean", object: "any"}


#: The faults whose arguments are JSON.
NAMES = [
    name
    for name, method in vars(Fault).items()
    if isinstance(method, classmethod) and name[0] != "_" and name != "edit"
]


class FaultRequest(TypedDict):
    """A fault to plan. ``times`` null: for every request."""

    op: Annotated[Op, one_of(OPS)]
    fault: Annotated[str, one_of(NAMES)]
    times: NotRequired[Annotated[int, whole_number(1, 1_000_000)] | None]
    after: NotRequired[Annotated[int, whole_number(0, 1_000_000)]]
    args: NotRequired[Annotated[dict[str, Any], OBJECT]]


def available_faults() -> list[dict[str, Any]]:
    """Return what an input form needs."""
    return [
        {
            "name": name,
            "description": _plain(inspect.getdoc(getattr(Fault, name)) or ""),
            "args": [
                {
                    "name": each.name,
                    "type": _type_name(each.annotation),
                    "default": None if each.default is each.empty else _as_json(each.default),
                    "required": each.default is each.empty,
                }
                for each in _parameters(name)
            ],
        }
        for name in NAMES
    ]


def _parameters(name: str) -> Iterable[inspect.Parameter]:
    return inspect.signature(getattr(Fault, name)).parameters.values()


@cache
def _request_type(name: str) -> Any:
    """Return the type of a request for a fault. It is made of a signature, which type checkers do not allow."""
    typed_dict: Any = TypedDict
    types = {
        each.name: each.annotation if each.default is each.empty else NotRequired[each.annotation]
        for each in _parameters(name)
    }
    arguments = typed_dict("Arguments", types)
    return typed_dict("FaultRequest", {**FaultRequest.__annotations__, "args": Annotated[arguments, OBJECT]})


def plan(faults: FaultPlan, fields: Mapping[str, Any]) -> PlannedFault:
    """Plan the fault of a request ``{"op", "fault", "times", "after", "args"}``."""
    name = fields.get("fault")
    kind: Any = _request_type(name) if isinstance(name, str) and name in NAMES else FaultRequest
    request = structure({"args": {}, **fields}, kind)
    fault = getattr(Fault, request["fault"])(**request["args"])
    return faults.add(request["op"], fault, times=request.get("times", 1), after=request.get("after", 0))


def plan_text(faults: FaultPlan, text: str) -> PlannedFault:
    """Plan ``OP=NAME[,ARGUMENT=VALUE…][:TIMES]``, e.g. ``videos.create=status,code=503,made=true:2``.

    A value is JSON, or else text; TIMES is a number or ``always``.

    Raises:
        InvalidInputError: The message names every problem.
    """
    match = re.fullmatch(r"([^=]+)=([^,:]+)((?:,\w+=.*?)?)(?::(\d+|always))?", text, re.DOTALL)
    if match is None:
        raise InvalidInputError(f"{show(text)}: must be OP=NAME[,ARGUMENT=VALUE…][:TIMES]")
    op, name, arguments, times = match.groups()
    pairs = [part.partition("=") for part in re.split(r",(?=\w+=)", arguments)[1:]]
    fields: dict[str, Any] = {"op": op, "fault": name, "args": {key: _parse_value(value) for key, _, value in pairs}}
    if times:
        fields["times"] = None if times == "always" else int(times)
    try:
        return plan(faults, fields)
    except InvalidInputError as error:
        raise InvalidInputError(f"{show(text)}: {error}") from None


def planned_as_json(planned: PlannedFault) -> dict[str, Any]:
    return {"id": planned.id, **asdict(planned, recurse=False), "fault": planned.fault.name}


def _type_name(kind: Any) -> str:
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = get_args(kind)[0]
    return TYPE_NAMES.get(kind, "object")


def _parse_value(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _as_json(default: object) -> object:
    return default.decode("utf-8", "surrogateescape") if isinstance(default, bytes) else default


def _plain(text: str) -> str:
    return re.sub(r":\w+:`([^`]*)`|``([^`]*)``", r"\1\2", " ".join(text.split()))
