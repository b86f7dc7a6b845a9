"""Accounts and their credit ledgers (2.2)."""

import re
import secrets
from collections import deque
from collections.abc import Iterable
from typing import Literal

from attrs import define, field, frozen

LedgerKind = Literal["opening", "charge", "refund", "adjustment"]

DEFAULT_BALANCE = 100_000

NAME_RULE = "1 to 100 printable characters, without a blank at either end"
KEY_RULE = "8 to 200 visible ASCII characters"


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
    #: The submissions of the last 60 seconds, and how many there ever were.
    submitted_at: deque[float] = field(factory=deque, repr=False)
    submissions: int = field(default=0, repr=False)

    def book(self, at: float, kind: LedgerKind, points: int, task_id: str | None = None) -> None:
        """Move ``points`` credits, on record."""
        self.balance += points
        self.ledger.append(LedgerEntry(at, kind, points, task_id, self.balance))

    def submit(self, at: float) -> None:
        """Count a submission."""
        self.submitted_at.append(at)
        self.submissions += 1

    def start_over(self, at: float) -> None:
        """Back to the opening balance; the name and the key stay."""
        opening = next((entry.points for entry in self.ledger if entry.kind == "opening"), 0)
        self.ledger.clear()
        self.keys.clear()
        self.submitted_at.clear()
        self.submissions = self.balance = 0
        self.book(at, "opening", opening)


class Accounts(dict[str, Account]):
    """The accounts by API key, in the order of their making; names and keys are unique."""

    def open(self, name: str | None, api_key: str | None, balance: int, now: float) -> Account:
        """A new account with its opening entry. ValueError lists everything that is wrong."""
        if problems := self.problems(name, api_key):
            raise ValueError("; ".join(problems))
        account = Account(name or self._free_name(), api_key or f"sandbox-key-{secrets.token_hex(16)}")
        account.book(now, "opening", balance)
        self[account.api_key] = account
        return account

    def problems(self, name: str | None, api_key: str | None) -> list[str]:
        """Why there can be no new account of this name with this key; without showing the key."""
        found = []
        if name is not None and (not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip()):
            found.append(f"name: must be {NAME_RULE}, not {name[:100]!r}")
        elif name in self.names:
            found.append(f"name: there is an account {name!r} already")
        if api_key is not None and not re.fullmatch(r"[!-~]{8,200}", api_key):
            found.append(f"api_key: must be {KEY_RULE}")
        elif api_key is not None and api_key in self:
            found.append(f"api_key: it is the key of the account {self[api_key].name!r}")
        return found

    def add_missing(self, accounts: Iterable[Account]) -> None:
        """Add those whose names are new; ValueError for a new one with the key of another."""
        for account in accounts:
            if account.name not in self.names:
                if problems := self.problems(account.name, account.api_key):
                    raise ValueError("; ".join(problems))
                self[account.api_key] = account

    def named(self, name: str) -> Account:
        """The account of this name; LookupError lists those that there are."""
        for account in self.values():
            if account.name == name:
                return account
        raise LookupError(f"there is no account {name!r}; there are: {', '.join(self.names)}")

    @property
    def names(self) -> list[str]:
        return [account.name for account in self.values()]

    def _free_name(self) -> str:
        taken = set(self.names)
        return next(name for n in range(1, len(self) + 2) if (name := f"account-{n}") not in taken)
