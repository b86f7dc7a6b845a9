"""Accounts and their credit ledgers (2.2)."""

import re
import secrets
from collections import deque
from typing import Literal

from attrs import define, field, frozen

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
    balance: int = 0
    ledger: list[LedgerEntry] = field(factory=list, repr=False)
    #: The task ids by Idempotency-Key.
    keys: dict[str, str] = field(factory=dict, repr=False)
    #: The times of the submissions in the last 60 seconds.
    submitted_at: deque[float] = field(factory=deque, repr=False)

    def book(self, at: float, kind: LedgerKind, points: int, task_id: str | None = None) -> None:
        """Add ``points`` to the balance, with a ledger entry."""
        self.balance += points
        self.ledger.append(LedgerEntry(at, kind, points, task_id, self.balance))

    def reset(self, at: float) -> None:
        """Restore the opening balance, without keys and submissions. The name and the API key stay."""
        opening = next((entry.points for entry in self.ledger if entry.kind == "opening"), 0)
        self.ledger.clear()
        self.keys.clear()
        self.submitted_at.clear()
        self.balance = 0
        self.book(at, "opening", opening)


class Accounts(dict[str, Account]):
    """The accounts by API key, in the order of their creation. Names and API keys are unique."""

    def open(self, name: str | None, api_key: str | None, balance: int, now: float) -> Account:
        name = self._free_name() if name is None else name
        account = Account(name, f"sandbox-key-{secrets.token_hex(16)}" if api_key is None else api_key)
        self.put(account)
        account.book(now, "opening", balance)
        return account

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

    def by_name(self, name: str) -> Account:
        """Return the account of this name; a LookupError lists the names that exist."""
        for account in self.values():
            if account.name == name:
                return account
        raise LookupError(f"there is no account {name!r}; there are: {', '.join(self.names)}")

    @property
    def names(self) -> list[str]:
        return [account.name for account in self.values()]

    def _free_name(self) -> str:
        names = set(self.names)
        return next(name for n in range(1, len(self) + 2) if (name := f"account-{n}") not in names)
