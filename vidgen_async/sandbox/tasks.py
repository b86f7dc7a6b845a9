"""Video tasks and their life: queued, running, then completed or failed (section 3)."""

import heapq
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import define, field, frozen

from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.media.video_content import Film

Status = Literal["queued", "running", "completed", "failed"]

DEFAULT_REASON = "the sandbox failed this task on request"


@frozen
class Failure:
    """How a task ends when it fails. ``refund`` False keeps the charge: only the ledger tells (section 7, rule 2)."""

    reason: str
    refund: bool = True


@frozen(kw_only=True)
class SandboxTask:
    """One task. Its state is computed from the clock whenever somebody looks."""

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

    @property
    def prompt(self) -> str:
        """What the video is of."""
        return self.film.prompt

    @property
    def starts_at(self) -> float:
        """When it is queued no more, on the sandbox's clock."""
        return self.created_at + self.queued_for

    @property
    def ends_at(self) -> float:
        """When it becomes completed or failed, on the sandbox's clock."""
        return self.starts_at + self.running_for

    @property
    def upstream_task_id(self) -> str:
        """For diagnosis only; no endpoint knows it."""
        return f"up-{self.id[::-1]}"

    def status_at(self, now: float) -> Status:
        """Its state at a moment of the sandbox's clock (section 3)."""
        if now < self.starts_at:
            return "queued"
        if now < self.ends_at:
            return "running"
        return "failed" if self.failure else "completed"

    def as_json(self, now: float, video_url: str) -> dict[str, Any]:
        """The task as GET /videos/{id} shows it (2.5)."""
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


#: Decides, when a task is made, whether it will fail.
Outcome = Callable[[SandboxTask], Failure | None]


def outcome_by_prompt(task: SandboxTask) -> Failure | None:
    """Fail a task whose prompt holds ``[fail]`` or ``[fail: reason]``; every other one completes."""
    asked = re.search(r"\[fail(?::\s*([^\]]*))?\]", task.prompt)
    return Failure(asked[1] or "the prompt asked the sandbox for a failure") if asked else None


@define
class Refunds:
    """Books the refunds that have fallen due, in the order of the failures."""

    _due: list[tuple[float, str, SandboxTask]] = field(factory=list)

    def expect(self, task: SandboxTask) -> None:
        if task.failure and task.failure.refund:
            heapq.heappush(self._due, (task.ends_at, task.id, task))

    def clear(self) -> None:
        self._due.clear()

    def settle(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            at, _, task = heapq.heappop(self._due)
            task.account.book(at, "refund", task.points, task.id)
