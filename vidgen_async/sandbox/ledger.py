"""Accounts and their credit ledgers (2.2)."""

from collections import deque
from typing import Literal

from attrs import define, field, frozen

LedgerKind = Literal["opening", "charge", "refund", "adjustment"]


@frozen
class LedgerEntry:
    """One movement of credits: ``points`` is added to the balance, so a charge is negative; ``balance`` is after it."""

    at: float
    kind: LedgerKind
    points: int
    task_id: str | None
    balance: int


@frozen
class KeyedCreate:
    """What an Idempotency-Key stands for: one body, one task."""

    body: str
    task_id: str


@define
class Account:
    """One user of the service: an API key, a balance, and what the submission rules remember."""

    name: str
    api_key: str = field(repr=False)
    balance: int = 0
    ledger: list[LedgerEntry] = field(factory=list, repr=False)
    keys: dict[str, KeyedCreate] = field(factory=dict, repr=False)
    submitted_at: deque[float] = field(factory=deque, repr=False)

    def book(self, at: float, kind: LedgerKind, points: int, task_id: str | None = None) -> None:
        """Move ``points`` credits, on record."""
        self.balance += points
        self.ledger.append(LedgerEntry(at, kind, points, task_id, self.balance))
