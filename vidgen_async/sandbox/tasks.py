"""Video tasks and their states: queued, running, then completed or failed (section 3)."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, lt

from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.media import Film

Status = Literal["queued", "running", "completed", "failed"]

DEFAULT_REASON = "the sandbox failed this task on request"


@frozen
class Failure:
    """How a task fails. Without ``refund`` the charge stays; only the ledger shows it (section 7, rule 2)."""

    reason: str
    refund: bool = True


@frozen(kw_only=True)
class SandboxTask:
    """One task. Its state is computed from the clock on each request."""

    id: str
    account: Account = field(repr=False)
    request: Mapping[str, Any] = field(repr=False)
    model: str
    points: int
    film: Film = field(repr=False)
    created_at: float
    queued_for: float
    running_for: float
    failure: Failure | None = None
    idempotency_key: str | None = field(default=None, repr=False)

    @property
    def prompt(self) -> str:
        """The prompt of the video."""
        return self.film.prompt

    @property
    def starts_at(self) -> float:
        """When it becomes running, on the sandbox's clock."""
        return self.created_at + self.queued_for

    @property
    def ends_at(self) -> float:
        """When it becomes completed or failed, on the sandbox's clock."""
        return self.starts_at + self.running_for

    @property
    def upstream_task_id(self) -> str:
        """For diagnosis only; no endpoint accepts it."""
        return f"up-{self.id[::-1]}"

    def status_at(self, now: float) -> Status:
        """Return its state at a time of the sandbox's clock (section 3)."""
        if now < self.starts_at:
            return "queued"
        if now < self.ends_at:
            return "running"
        return "failed" if self.failure else "completed"

    def as_json(self, now: float, video_url: str) -> dict[str, Any]:
        """Return the task as GET /videos/{id} shows it (2.5)."""
        status = self.status_at(now)
        changed_at = {"queued": self.created_at, "running": self.starts_at}.get(status, self.ends_at)
        return {
            "id": self.id,
            "task_id": self.id,
            "status": status,
            "model": self.model,
            "points": self.points,
            "video_url": video_url if status == "completed" else None,
            "failure_reason": self.failure.reason if self.failure and status == "failed" else None,
            "upstream_task_id": None if status == "queued" else self.upstream_task_id,
            "provider": "sandbox",
            "created_at": int(self.created_at),
            "updated_at": int(changed_at),
        }


#: Decides, when a task is created, whether it will fail.
Outcome = Callable[[SandboxTask], Failure | None]


def outcome_by_prompt(task: SandboxTask) -> Failure | None:
    """Return a failure for a prompt that contains ``[fail]`` or ``[fail: reason]``, and None for others."""
    match = re.search(r"\[fail(?::\s*([^\]]*))?\]", task.prompt)
    return Failure(match[1] or "the prompt requested a failure") if match else None


@frozen
class CreateOptions:
    """How creates are handled: the arguments of :class:`~vidgen_async.sandbox.Sandbox` of the same names."""

    queued_for: float = field(validator=[ge(0.0), lt(math.inf)])
    running_for: float = field(validator=[ge(0.0), lt(math.inf)])
    submission_limit: int
    allow_unknown_fields: bool
    outcome: Outcome
