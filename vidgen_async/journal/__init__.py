"""Journals: orders are stored here before they are sent."""

from vidgen_async.journal.base import Journal, RunningPage
from vidgen_async.journal.memory import MemoryJournal
from vidgen_async.journal.opening import journal_from
from vidgen_async.journal.sqlite.journal import SqliteJournal
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
