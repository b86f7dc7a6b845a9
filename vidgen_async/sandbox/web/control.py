"""The control paths: read and change a sandbox over HTTP.

They are outside ``/openapi/v1`` and need no key. A 400 names every problem of a request.
"""

from typing import Annotated, Any, TypedDict
from urllib.parse import parse_qs

from attrs import frozen

from vidgen_async.sandbox.catalog import changed_entry
from vidgen_async.sandbox.faults import OPS
from vidgen_async.sandbox.input_rules import (
    STRING,
    InvalidInputError,
    Rule,
    number,
    read_body,
    show,
    string,
    structure,
    whole_number,
)
from vidgen_async.sandbox.ledger import DEFAULT_BALANCE, KEY_RULE, NAME_RULE
from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.routes import Call
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.tasks import DEFAULT_REASON
from vidgen_async.sandbox.web import views
from vidgen_async.sandbox.web.fault_input import available_faults, plan, planned_as_json
from vidgen_async.sandbox.web.pages import Pages

DEFAULT_LIMIT = 200
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
        "/sandbox/creates": {"GET": control.show_creates},
        "/sandbox/requests": {"GET": control.show_requests},
        "/sandbox/requests/{n}": {"GET": control.show_request},
        "/sandbox/faults": {"GET": control.show_faults, "POST": control.plan_fault, "DELETE": control.clear_faults},
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

    def show_state(self, call: Call) -> Answer:
        query = structure(_query(call), StateQuery)
        addresses = self.sandbox.addresses_for(call.host)
        return Answer.json(200, views.state_of(self.sandbox, int(query.get("limit", DEFAULT_LIMIT)), addresses))

    def show_ledger(self, call: Call) -> Answer:
        query = structure(_query(call), LedgerQuery)
        try:
            account = self.sandbox.account(query["account"]) if "account" in query else None
        except LookupError as error:
            raise InvalidInputError(f"account: {error.args[0]}") from None
        return Answer.json(200, {"ledger": views.ledger_view(self.sandbox, account=account)})

    def show_creates(self, _: Call) -> Answer:
        return Answer.json(200, {"creates": [views.create_view(create) for create in self.sandbox.creates]})

    def show_requests(self, call: Call) -> Answer:
        return Answer.json(200, views.list_requests(self.sandbox, structure(_query(call), views.RequestsQuery)))

    def show_request(self, call: Call) -> Answer:
        found = next((each for each in self.sandbox.requests if str(each.n) == call.names["n"]), None)
        if found is None:
            raise Refusal(404, "NOT_FOUND", f"there is no request {show(call.names['n'])}, or none any more")
        return Answer.json(200, views.detail_of(self.sandbox, found))

    def show_faults(self, _: Call) -> Answer:
        return Answer.json(200, {**self._planned(), "ops": list(OPS), "available": available_faults()})

    def plan_fault(self, call: Call) -> Answer:
        return Answer.json(201, planned_as_json(plan(self.sandbox.faults, read_body(call.body))))

    def clear_faults(self, _: Call) -> Answer:
        self.sandbox.faults.clear()
        return Answer.json(200, self._planned())

    def remove_fault(self, call: Call) -> Answer:
        try:
            self.sandbox.faults.remove(call.names["id"])
        except KeyError:
            raise _missing("fault", call.names["id"], [fault.id for fault in self.sandbox.faults.planned]) from None
        return Answer.json(200, self._planned())

    def set_clock(self, call: Call) -> Answer:
        fields, clock = read_body(call.body), self.sandbox.clock
        change = structure(fields, ClockChange, [] if fields else ["speed or advance: required"])
        clock.speed = change.get("speed", clock.speed)
        clock.advance(change.get("advance", 0))
        return Answer.json(200, {"now": clock.now(), "speed": clock.speed})

    def show_accounts(self, _: Call) -> Answer:
        self.sandbox.settle()
        return Answer.json(
            200, {"accounts": [views.account_view(account) for account in self.sandbox.accounts.values()]}
        )

    def add_account(self, call: Call) -> Answer:
        fields = read_body(call.body)
        texts = {name: fields[name] for name in ("name", "api_key") if isinstance(fields.get(name), str)}
        checked = structure(fields, NewAccount, self.sandbox.accounts.problems(**texts))
        account = self.sandbox.add_account(**texts, balance=checked.get("balance", DEFAULT_BALANCE))
        return Answer.json(201, views.account_view(account))

    def set_balance(self, call: Call) -> Answer:
        try:
            account = self.sandbox.account(call.names["name"])
        except LookupError as error:
            raise Refusal(404, "NOT_FOUND", error.args[0]) from None
        self.sandbox.set_balance(account, structure(read_body(call.body), BalanceChange)["balance"])
        return Answer.json(200, views.account_view(account))

    def change_model(self, call: Call) -> Answer:
        code = call.names["code"]
        if code not in self.sandbox.models:
            raise _missing("model", code, list(self.sandbox.models))
        entry = changed_entry(read_body(call.body), self.sandbox.models[code])
        self.sandbox.add_model(entry)
        return Answer.json(200, entry.as_json())

    def fail_next(self, call: Call) -> Answer:
        failure = structure(read_body(call.body), PlannedFailure)
        reason, refund = failure.get("reason", DEFAULT_REASON), failure.get("refund", True)
        self.sandbox.fail_next_task(reason, refund=refund)
        return Answer.json(201, {"reason": reason, "refund": refund})

    def delete_asset(self, call: Call) -> Answer:
        asset_id = call.names["id"]
        try:
            self.sandbox.delete_asset(asset_id)
        except KeyError:
            raise Refusal(404, "NOT_FOUND", f"there is no asset {show(asset_id)}") from None
        return Answer.json(200, {"deleted": asset_id})

    def reset(self, call: Call) -> Answer:
        structure(read_body(call.body), NoFields)
        self.sandbox.reset()
        return Answer.json(200, {"counts": views.counts_of(self.sandbox)})

    def _planned(self) -> dict[str, Any]:
        return {"planned": [planned_as_json(planned) for planned in self.sandbox.faults.planned]}


def _query(call: Call) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(call.query, keep_blank_values=True).items()}


def _missing(what: str, name: str, existing: list[str]) -> Refusal:
    return Refusal(404, "NOT_FOUND", f"there is no {what} {show(name)}; there are: {', '.join(existing) or 'none'}")
