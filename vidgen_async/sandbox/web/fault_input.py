"""Faults by name, for HTTP and the command line. The arguments of a fault are those of its method of ``Fault``."""

import inspect
import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints

from attrs import frozen

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


@frozen
class FaultForm:
    """A fault that can be planned by name: the types of its arguments with their rules, and the defaults."""

    name: str
    make: Callable[..., Fault]
    types: Mapping[str, Any]
    defaults: Mapping[str, Any]
    #: The type of a request for this fault.
    request: type[Any]

    @classmethod
    def of(cls, name: str) -> "FaultForm":
        make = getattr(Fault, name)
        hints = get_type_hints(make, include_extras=True)
        parameters = inspect.signature(make).parameters.items()
        types = {argument: hints[argument] for argument, _ in parameters}
        defaults = {argument: found.default for argument, found in parameters if found.default is not found.empty}
        # These types are made of a signature, which type checkers do not allow.
        typed_dict: Any = TypedDict
        fields = {argument: NotRequired[kind] if argument in defaults else kind for argument, kind in types.items()}
        arguments: Any = typed_dict("Arguments", fields)
        request = get_type_hints(FaultRequest, include_extras=True) | {"args": Annotated[arguments, OBJECT]}
        return cls(name, make, types, defaults, typed_dict("FaultRequest", request))

    def as_json(self) -> dict[str, Any]:
        """Return what an input form needs: each argument with its type, and its default unless it is required."""
        return {
            "name": self.name,
            "description": _plain(inspect.getdoc(self.make) or ""),
            "args": [
                {
                    "name": name,
                    "type": _type_name(kind),
                    "default": _as_json(self.defaults.get(name)),
                    "required": name not in self.defaults,
                }
                for name, kind in self.types.items()
            ],
        }


FORMS: Mapping[str, FaultForm] = {name: FaultForm.of(name) for name in NAMES}


def plan(faults: FaultPlan, fields: Mapping[str, Any]) -> PlannedFault:
    """Plan the fault of a request ``{"op", "fault", "times", "after", "args"}``.

    Raises:
        InvalidInputError: The message names every problem.
    """
    name = fields.get("fault")
    form = FORMS.get(name) if isinstance(name, str) else None
    request: Any = structure({"args": {}, **fields}, form.request if form else FaultRequest)
    fault = FORMS[request["fault"]].make(**request["args"])
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
    return {
        "id": planned.id,
        "op": planned.op,
        "fault": planned.fault.name,
        "times": planned.times,
        "after": planned.after,
    }


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
    """Return a docstring as one line without its markup."""
    return re.sub(r":\w+:`([^`]*)`|``([^`]*)``", r"\1\2", " ".join(text.split()))
