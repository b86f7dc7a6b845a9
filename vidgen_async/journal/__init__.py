"""Journals: orders are stored here before they are sent. Those in databases are imported when they are first used."""

import typing
from importlib import import_module

from vidgen_async.journal.base import Journal, MustWait, OrderChanged, OverBudget, RunningPage, SpendingJournal
from vidgen_async.journal.memory import MemoryJournal
from vidgen_async.journal.opening import journal_from
from vidgen_async.types.orders import (
    Attempt,
    AttemptOutcome,
    Closing,
    Decision,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    Permission,
    RunningTask,
    TaskResult,
)

if typing.TYPE_CHECKING:
    from vidgen_async.journal.postgres.journal import PostgresJournal
    from vidgen_async.journal.postgres.schema import postgres_schema
    from vidgen_async.journal.sqlite.journal import SqliteJournal

__all__ = [
    "Attempt",
    "AttemptOutcome",
    "Closing",
    "Decision",
    "Evidence",
    "Journal",
    "MemoryJournal",
    "MustWait",
    "Order",
    "OrderChanged",
    "OrderRef",
    "OrderState",
    "OverBudget",
    "Permission",
    "PostgresJournal",
    "RunningPage",
    "RunningTask",
    "SpendingJournal",
    "SqliteJournal",
    "TaskResult",
    "journal_from",
    "postgres_schema",
]

_HOMES = {
    "PostgresJournal": "postgres.journal",
    "SqliteJournal": "sqlite.journal",
    "postgres_schema": "postgres.schema",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
