"""Accounts with their credit ledgers (2.2), and their video tasks (section 3)."""

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import define, field, frozen

from vidgen_async.sandbox.media import Film

LedgerKind = Literal["opening", "charge", "refund", "adjustment"]

DEFAULT_BALANCE = 100_000

NAME_RULE = "1 to 100 printable characters, without a space at either end"
KEY_RULE = "8 to 200 visible ASCII characters"


@frozen
class LedgerEntry:
    """One change of a balance: ``points`` was added to it (a charge is negative), and ``balance`` is the result."""

    at: float
    kind: LedgerKind
    points: int
    task_id: str | None
    balance: int


@define
class Account:
    """One user of the service: an API key, a balance with its ledger, its Idempotency-Keys and recent submissions."""

    name: str
    api_key: str = field(repr=False)
    ledger: list[LedgerEntry] = field(factory=list, repr=False)
    #: The task ids by Idempotency-Key.
    keys: dict[str, str] = field(factory=dict, repr=False)
    #: The times of the submissions in the last 60 seconds.
    submitted_at: deque[float] = field(factory=deque, repr=False)

    @property
    def balance(self) -> int:
        """The credits, which are those of the latest entry."""
        return self.ledger[-1].balance if self.ledger else 0

    def book(self, at: float, kind: LedgerKind, points: int, task_id: str | None = None) -> None:
        """Add ``points`` to the balance, with a ledger entry."""
        self.ledger.append(LedgerEntry(at, kind, points, task_id, self.balance + points))

    def reset(self, at: float) -> None:
        """Restore the opening balance, without keys and submissions. The name and the API key stay."""
        opening = next((entry.points for entry in self.ledger if entry.kind == "opening"), 0)
        self.ledger.clear()
        self.keys.clear()
        self.submitted_at.clear()
        self.book(at, "opening", opening)


class Accounts(dict[str, Account]):
    """The accounts by API key, in the order of their creation. Names and API keys are unique."""

    def put(self, account: Account) -> None:
        if problems := self.problems(account.name, account.api_key):
            raise ValueError("; ".join(problems))
        self[account.api_key] = account

    def problems(self, name: str | None = None, api_key: str | None = None) -> list[str]:
        """Return why a new account cannot have this name and API key. The key is not shown."""
        found = []
        if name is not None and (not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip()):
            found.append(f"name: must be {NAME_RULE}, not {name[:100]!r}")
        elif name in self.names:
            found.append(f"name: there is already an account {name!r}")
        if api_key is not None and not re.fullmatch(r"[!-~]{8,200}", api_key):
            found.append(f"api_key: must be {KEY_RULE}")
        elif api_key is not None and api_key in self:
            found.append(f"api_key: this is the key of the account {self[api_key].name!r}")
        return found

    def by_header(self, authorization: str) -> Account | None:
        match = re.fullmatch(r"Bearer +(\S+)", authorization, re.IGNORECASE)
        return self.get(match[1]) if match else None

    @property
    def names(self) -> list[str]:
        return [account.name for account in self.values()]


Status = Literal["queued", "running", "completed", "failed"]


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
