"""What a sandbox holds and has received, as JSON for the console and the control paths. Every list has the newest last.

Requests are filtered, and shown without secrets.
"""

import heapq
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, TypedDict, TypeVar
from urllib.parse import unquote

from attrs import asdict

from vidgen_async.sandbox.accounts import Account
from vidgen_async.sandbox.faults import OPS, PlannedFault
from vidgen_async.sandbox.http import find_route
from vidgen_async.sandbox.input_rules import one_of, string
from vidgen_async.sandbox.links import Addresses
from vidgen_async.sandbox.request_log import ReceivedCreate, ReceivedRequest
from vidgen_async.sandbox.state import SandboxState

T = TypeVar("T")

HIDDEN = "…"
Count = Annotated[str, string(r"[0-9]{1,6}", "a whole number of 0 to 999999")]
#: So many levels of percent-encoding are searched for secrets in a path.
_LEVELS = 5
#: A part of the names of secrets.
_SENSITIVE = (
    r"(?<!idempotency-)key(?![a-z])|token|secret|passw(?:or)?d|authori[sz]ation|authentication|cookie|credential|"
    r"signature|(?<![a-z])sig(?![a-z])"
)
_SECRET_HEADER = re.compile(_SENSITIVE, re.IGNORECASE)
_NAME = rf"[\w.-]{{0,40}}(?:{_SENSITIVE})[\w.-]{{0,40}}"
#: Secrets in a body or path, after a first group, which is shown: in JSON, in a query or form, and by their form.
_SECRETS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf'("{_NAME}"\s*:\s*")(?:[^"\\]|\\.)+',
        rf"((?<![\w.-]){_NAME}=)[^&\s\"'<>\\]+",
        r"(\b(?:Bearer|Basic)\s+)[\w.~+/=-]+",
        r"(://)[^/@\s\"'\\]+(?=@)",
    )
]
#: Base64, such as an image, of which only the beginning is shown.
LONGEST_WORD = 440
_LONG_WORD = re.compile(rf"([\w+/=-]{{40}})[\w+/=-]{{{LONGEST_WORD - 40},}}", re.ASCII)


def state_of(sandbox: SandboxState, limit: int, addresses: Addresses) -> dict[str, Any]:
    """Return everything; of long lists the newest ``limit`` members. ``addresses`` are those of the client."""
    sandbox.settle()
    now = sandbox.clock.now()
    return {
        "base_url": addresses.base_url,
        "links_url": addresses.links,
        "now": now,
        "speed": sandbox.clock.speed,
        "rendered": sandbox.rendered,
        "counts": counts_of(sandbox),
        "accounts": [account_view(account) for account in sandbox.accounts.values()],
        "models": [entry.as_json() for entry in sandbox.models.values()],
        "tasks": [_task(sandbox, task_id, now, addresses.links) for task_id in newest(list(sandbox.tasks), limit)],
        "ledger": ledger_view(sandbox, limit=limit),
        "assets": [
            {
                **sandbox.assets.as_json(asset),
                "account": asset.account.name,
                "size": len(asset.content),
                "expires_at": asset.expires_at,
                "is_expired": now >= asset.expires_at,
            }
            for asset in newest(list(sandbox.assets), limit)
        ],
        "creates": [create_view(create) for create in newest(sandbox.creates, limit)],
        "faults": [planned_view(planned) for planned in sandbox.faults.planned],
    }


def counts_of(sandbox: SandboxState) -> dict[str, int]:
    return {
        "tasks": len(sandbox.tasks),
        "ledger": sum(len(account.ledger) for account in sandbox.accounts.values()),
        "creates": len(sandbox.creates),
        "assets": len(sandbox.assets),
        "requests": len(sandbox.requests),
    }


def account_view(account: Account) -> dict[str, Any]:
    return {"name": account.name, "api_key": account.api_key, "balance": account.balance}


def ledger_view(
    sandbox: SandboxState, *, account: Account | None = None, limit: int | None = None
) -> Sequence[dict[str, Any]]:
    """Return the ledgers in order of time; those of one account in its order: a refund may be booked after its time."""
    sandbox.settle()
    accounts = [account] if account else list(sandbox.accounts.values())
    ledgers = [[{"account": each.name, **asdict(entry)} for entry in newest(each.ledger, limit)] for each in accounts]
    return newest(list(heapq.merge(*ledgers, key=lambda entry: entry["at"])), limit)


def planned_view(planned: PlannedFault) -> dict[str, Any]:
    return {"id": planned.id, **asdict(planned, recurse=False), "fault": planned.fault.name}


def create_view(create: ReceivedCreate) -> dict[str, Any]:
    names = ("n", "received_at", "idempotency_key", "body", "status", "task_id", "replayed", "fault")
    shown = {name: getattr(create, name) for name in names}
    return shown | {"sha256": create.sha256 if create.body_arrived else None}


def _task(sandbox: SandboxState, task_id: str, now: float, links_url: str) -> dict[str, Any]:
    """Return a task as GET /videos/{id} shows it, with a link that needs no key, and with more fields."""
    task = sandbox.tasks[task_id]
    return {
        **task.as_json(now, sandbox.new_link(task_id, links_url=links_url)),
        "account": task.account.name,
        "prompt": task.prompt,
        "duration": task.film.seconds,
        "starts_at": task.starts_at,
        "ends_at": task.ends_at,
    }


def newest(members: Sequence[T], limit: int | None) -> Sequence[T]:
    return members[None if limit is None else max(0, len(members) - limit) :]


class RequestsQuery(TypedDict, total=False):
    """Which requests are shown: of those with a smaller number than ``before`` the newest ``limit``."""

    limit: Count
    before: Annotated[str, string(r"[0-9]{1,15}", "a number of a request")]
    search: str
    op: Annotated[str, one_of(op for op in OPS if op != "*")]
    status: Annotated[str, string(r"[1-5]xx|[1-5][0-9]{2}|none", "a status, 1xx to 5xx, or none")]
    account: str


def list_requests(sandbox: SandboxState, query: RequestsQuery) -> dict[str, Any]:
    limit = int(query["limit"]) if "limit" in query else None
    found = (request for request in reversed(sandbox.requests) if _matches(sandbox, query, request))
    shown = list(islice(found, limit))
    has_older = limit is not None and next(found, None) is not None
    return {"requests": [_view(sandbox, request) for request in reversed(shown)], "has_older": has_older}


def _matches(sandbox: SandboxState, query: RequestsQuery, request: ReceivedRequest) -> bool:
    status = request.status
    return (
        ("before" not in query or request.n < int(query["before"]))
        and query.get("op", request.op) == request.op
        and ("status" not in query or query["status"] in ((str(status), f"{status // 100}xx") if status else ("none",)))
        and ("account" not in query or _account(sandbox, request) in (None, query["account"]))
        and ("search" not in query or query["search"].lower() in _text(request).lower())
    )


def _text(request: ReceivedRequest) -> str:
    ids = (request.create.idempotency_key, request.create.task_id) if request.create else ()
    body = request.body.decode("utf-8", "replace")
    shown = (request.method, request.path, request.op, request.status, request.request_id, request.fault, *ids, body)
    return " ".join(map(str, shown))


def detail_of(sandbox: SandboxState, request: ReceivedRequest) -> dict[str, Any]:
    create = request.create
    return _view(sandbox, request) | {
        "body": _without_secrets(sandbox, request.body.decode("utf-8", "replace")),
        "size": request.size,
        "is_cut": len(request.body) < request.size,
        "sha256": create.sha256 if create and create.body_arrived else None,
    }


def _view(sandbox: SandboxState, request: ReceivedRequest) -> dict[str, Any]:
    names = ("n", "at", "origin", "op", "method", "has_key", "fault", "status", "request_id", "milliseconds", "is_over")
    create = request.create
    return {name: getattr(request, name) for name in names} | {
        "path": _path(sandbox, request.path),
        "account": _account(sandbox, request),
        "task_id": _task_id(sandbox, request),
        "headers": {
            name: _without_secrets(sandbox, text)
            for name, text in request.headers.items()
            if not _SECRET_HEADER.search(name)
        },
        "idempotency_key": request.headers.get("Idempotency-Key"),
        "create": create.n if create else None,
        "replayed": create is not None and create.replayed,
    }


def _account(sandbox: SandboxState, request: ReceivedRequest) -> str | None:
    account = sandbox.accounts.by_header(request.headers.get("Authorization", ""))
    return account.name if account else None


def _task_id(sandbox: SandboxState, request: ReceivedRequest) -> str | None:
    """Return the id of the task that a create created, or that is in the path of a read, there without secrets."""
    if request.create:
        return request.create.task_id
    path = _without_secrets(sandbox, request.path.partition("?")[0])
    return _path(sandbox, find_route(request.origin, request.method, path).names.get("id", "")) or None


def _path(sandbox: SandboxState, path: str) -> str:
    """The path as received; with a secret that percent-encoding conceals, decoded, and without the secret."""
    shown = decoded = _without_secrets(sandbox, path)
    for _ in range(_LEVELS):
        if "%" not in decoded:
            break
        # On each level: a secret may contain an encoded separator, and end there once it is decoded.
        decoded = unquote(decoded)
        if (hidden := _without_secrets(sandbox, decoded)) != decoded:
            shown = decoded = hidden
    return shown


def _without_secrets(sandbox: SandboxState, text: str) -> str:
    for key in sandbox.accounts:
        text = text.replace(key, HIDDEN)
    return _hide(text)


@lru_cache(1024)  # most requests have the same headers
def _hide(text: str) -> str:
    for pattern in _SECRETS:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return _LONG_WORD.sub(rf"\1{HIDDEN}", text) if len(text) > LONGEST_WORD else text
