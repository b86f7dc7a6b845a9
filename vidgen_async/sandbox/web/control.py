"""The control paths: read and change a sandbox over HTTP.

They are outside ``/openapi/v1`` and need no key. A 400 names every problem of a request.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, NotRequired, TypedDict, Union, get_args, get_origin
from urllib.parse import parse_qs

from attrs import asdict, frozen

from vidgen_async.sandbox.accounts import DEFAULT_BALANCE, KEY_RULE, NAME_RULE
from vidgen_async.sandbox.catalog import changed_entry
from vidgen_async.sandbox.faults import OPS, Fault, FaultPlan, Op, PlannedFault
from vidgen_async.sandbox.http import Answer, Call, Refusal
from vidgen_async.sandbox.input_rules import (
    OBJECT,
    STRING,
    InvalidInputError,
    Rule,
    number,
    one_of,
    parse_json,
    read_body,
    show,
    string,
    structure,
    whole_number,
)
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.web import views
from vidgen_async.sandbox.web.pages import Pages

DEFAULT_LIMIT = 200
TYPE_NAMES = {int: "integer", float: "number", str: "string", bytes: "string", bool: "boolean", object: "any"}
#: The faults whose arguments are JSON.
NAMES = [
    name
    for name, method in vars(Fault).items()
    if isinstance(method, classmethod) and name[0] != "_" and name != "edit"
]
Balance = Annotated[int, whole_number(0, 1_000_000_000_000)]


class StateQuery(TypedDict, total=False):
    limit: views.Count


class LedgerQuery(TypedDict, total=False):
    account: str


class NoFields(TypedDict):
    pass


class ClockChange(TypedDict, total=False):
    speed: Annotated[float, number(0, 1_000_000)]
    advance: Annotated[float, number(0, 1_000_000_000)]


class NewAccount(TypedDict, total=False):
    name: Annotated[str, Rule(NAME_RULE, STRING.allows)] | None
    api_key: Annotated[str, Rule(KEY_RULE, STRING.allows, is_secret=True)] | None
    balance: Balance


class BalanceChange(TypedDict):
    balance: Balance


class PlannedFailure(TypedDict, total=False):
    reason: Annotated[str, string(r".{1,1000}", "a string of 1 to 1000 characters")]
    refund: bool


def control_pages(sandbox: SandboxState) -> Pages:
    control = _Control(sandbox)
    return {
        "/sandbox/state": {"GET": control.show_state},
        "/sandbox/ledger": {"GET": control.show_ledger},
        "/sandbox/creates": {"GET": lambda _: {"creates": [views.create_view(create) for create in sandbox.creates]}},
        "/sandbox/requests": {
            "GET": lambda call: views.list_requests(sandbox, structure(_query(call), views.RequestsQuery))
        },
        "/sandbox/requests/{n}": {"GET": control.show_request},
        "/sandbox/faults": {
            "GET": lambda _: {**control.planned(), "ops": list(OPS), "available": available_faults()},
            "POST": lambda call: Answer.json(201, views.planned_view(plan(sandbox.faults, read_body(call.body)))),
            "DELETE": control.clear_faults,
        },
        "/sandbox/faults/{id}": {"DELETE": control.remove_fault},
        "/sandbox/clock": {"POST": control.set_clock},
        "/sandbox/accounts": {"GET": control.show_accounts, "POST": control.add_account},
        "/sandbox/accounts/{name}": {"PATCH": control.set_balance},
        "/sandbox/models/{code}": {"PATCH": control.change_model},
        "/sandbox/fail-next": {"POST": control.fail_next},
        "/sandbox/assets/{id}": {"DELETE": control.delete_asset},
        "/sandbox/reset": {"POST": control.reset},
    }


@frozen
class _Control:
    """The control paths. Its methods raise InvalidInputError for invalid requests, a Refusal for unknown names."""

    sandbox: SandboxState

    def show_state(self, call: Call) -> dict[str, Any]:
        query = structure(_query(call), StateQuery)
        addresses = self.sandbox.addresses_for(call.host)
        return views.state_of(self.sandbox, int(query.get("limit", DEFAULT_LIMIT)), addresses)

    def show_ledger(self, call: Call) -> dict[str, Any]:
        query = structure(_query(call), LedgerQuery)
        try:
            account = self.sandbox.account(query["account"]) if "account" in query else None
        except LookupError as error:
            raise InvalidInputError(f"account: {error.args[0]}") from None
        return {"ledger": views.ledger_view(self.sandbox, account=account)}

    def show_request(self, call: Call) -> dict[str, Any]:
        for each in self.sandbox.requests:
            if str(each.n) == call.names["n"]:
                return views.detail_of(self.sandbox, each)
        raise _not_found(f"request {show(call.names['n'])}, or none any more")

    def planned(self) -> dict[str, Any]:
        return {"planned": [views.planned_view(planned) for planned in self.sandbox.faults.planned]}

    def clear_faults(self, _: Call) -> dict[str, Any]:
        self.sandbox.faults.clear()
        return self.planned()

    def remove_fault(self, call: Call) -> dict[str, Any]:
        try:
            self.sandbox.faults.remove(call.names["id"])
        except KeyError:
            existing = ", ".join(fault.id for fault in self.sandbox.faults.planned) or "none"
            raise _not_found(f"fault {show(call.names['id'])}; there are: {existing}") from None
        return self.planned()

    def set_clock(self, call: Call) -> dict[str, Any]:
        fields, clock = read_body(call.body), self.sandbox.clock
        change = structure(fields, ClockChange, [] if fields else ["speed or advance: required"])
        clock.speed = change.get("speed", clock.speed)
        clock.advance(change.get("advance", 0))
        return {"now": clock.now(), "speed": clock.speed}

    def show_accounts(self, _: Call) -> dict[str, Any]:
        self.sandbox.settle()
        return {"accounts": [views.account_view(account) for account in self.sandbox.accounts.values()]}

    def add_account(self, call: Call) -> Answer:
        fields = read_body(call.body)
        texts = {name: fields[name] for name in ("name", "api_key") if isinstance(fields.get(name), str)}
        checked = structure(fields, NewAccount, self.sandbox.accounts.problems(**texts))
        account = self.sandbox.add_account(**texts, balance=checked.get("balance", DEFAULT_BALANCE))
        return Answer.json(201, views.account_view(account))

    def set_balance(self, call: Call) -> dict[str, Any]:
        try:
            account = self.sandbox.account(call.names["name"])
        except LookupError as error:
            raise Refusal(404, "NOT_FOUND", error.args[0]) from None
        self.sandbox.set_balance(account, structure(read_body(call.body), BalanceChange)["balance"])
        return views.account_view(account)

    def change_model(self, call: Call) -> dict[str, Any]:
        code, models = call.names["code"], self.sandbox.models
        if code not in models:
            raise _not_found(f"model {show(code)}; there are: {', '.join(models) or 'none'}")
        models[code] = changed_entry(read_body(call.body), models[code])
        return models[code].as_json()

    def fail_next(self, call: Call) -> Answer:
        self.sandbox.fail_next_task(**structure(read_body(call.body), PlannedFailure))
        return Answer.json(201, asdict(self.sandbox.next_failures[-1]))

    def delete_asset(self, call: Call) -> dict[str, Any]:
        asset_id = call.names["id"]
        try:
            self.sandbox.delete_asset(asset_id)
        except KeyError:
            raise _not_found(f"asset {show(asset_id)}") from None
        return {"deleted": asset_id}

    def reset(self, call: Call) -> dict[str, Any]:
        structure(read_body(call.body), NoFields)
        self.sandbox.reset()
        return {"counts": views.counts_of(self.sandbox)}


def _query(call: Call) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(call.query, keep_blank_values=True).items()}


def _not_found(what: str) -> Refusal:
    return Refusal(404, "NOT_FOUND", f"there is no {what}")


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
