"""What a sandbox holds, as JSON for people and programs that look at it from outside."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vidgen_async.sandbox.service import Sandbox


def state_of(sandbox: "Sandbox") -> dict[str, Any]:
    """Everything at a glance; newest last. Times are seconds since 1970 on the sandbox's clock."""
    now = sandbox.clock.now()
    sandbox.settle()
    return {
        "base_url": sandbox.base_url,
        "links_url": sandbox.links_url,
        "now": now,
        "speed": sandbox.clock.speed,
        "rendered": sandbox.rendered,
        "accounts": [
            {"name": account.name, "api_key": account.api_key, "balance": account.balance}
            for account in sandbox.accounts.values()
        ],
        "models": [entry.as_json() for entry in sandbox.models.values()],
        "tasks": [_task(sandbox, task_id, now) for task_id in sandbox.tasks],
        "ledger": [
            {
                "account": account.name,
                "at": entry.at,
                "kind": entry.kind,
                "points": entry.points,
                "task_id": entry.task_id,
                "balance": entry.balance,
            }
            for account in sandbox.accounts.values()
            for entry in account.ledger
        ],
        "assets": [
            {
                **sandbox.assets.as_json(asset),
                "account": asset.account.name,
                "size": len(asset.content),
                "expires_at": asset.expires_at,
                "is_expired": now >= asset.expires_at,
            }
            for asset in sandbox.assets
        ],
        "creates": [
            {
                "n": create.n,
                "received_at": create.received_at,
                "idempotency_key": create.idempotency_key,
                "sha256": create.sha256 if create.body_arrived else None,
                "body": create.body,
                "status": create.status,
                "task_id": create.task_id,
                "replayed": create.replayed,
                "fault": create.fault,
            }
            for create in sandbox.creates
        ],
        "faults": [
            {"op": plan.op, "fault": plan.fault.name, "times": plan.times, "after": plan.after}
            for plan in sandbox.faults.planned
        ],
    }


def _task(sandbox: "Sandbox", task_id: str, now: float) -> dict[str, Any]:
    """As GET /videos/{id} shows it, with what only the sandbox knows. The video needs no key here."""
    task = sandbox.tasks[task_id]
    return {
        **task.as_json(now, sandbox.new_link(task_id)),
        "account": task.account.name,
        "prompt": task.prompt,
        "duration": task.film.seconds,
        "starts_at": task.starts_at,
        "ends_at": task.ends_at,
    }
