"""Journals: orders are stored here before they are sent. The one on SQLite is imported when it is first used."""

import typing

from vidgen_async.journal.base import Journal, RunningPage
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
    from vidgen_async.journal.sqlite.journal import SqliteJournal

__all__ = [
    "Attempt",
    "AttemptOutcome",
    "Closing",
    "Decision",
    "Evidence",
    "Journal",
    "MemoryJournal",
    "Order",
    "OrderRef",
    "OrderState",
    "Permission",
    "RunningPage",
    "RunningTask",
    "SqliteJournal",
    "TaskResult",
    "journal_from",
]


def __getattr__(name: str) -> object:
    if name != "SqliteJournal":
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name)
    from vidgen_async.journal.sqlite.journal import SqliteJournal  # noqa: PLC0415 - see above

    return SqliteJournal


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
