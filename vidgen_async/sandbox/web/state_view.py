"""What a sandbox holds, as JSON for the console and the control paths. Every list has the newest last."""

import heapq
from collections.abc import Sequence
from typing import Any, TypeVar

from attrs import asdict

from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.links import Addresses
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.web.fault_input import planned_as_json

T = TypeVar("T")


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
        "faults": [planned_as_json(planned) for planned in sandbox.faults.planned],
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
