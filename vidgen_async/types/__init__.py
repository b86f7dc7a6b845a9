"""The classes and types that the signatures of the SDK name.

Values that users hold are frozen. Orders, and classes of higher layers, which users only name in annotations, are
imported lazily, on first access.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from vidgen_async.redaction.messages import csv_cell, printable
from vidgen_async.types.budgets import Budget, BudgetState, Price, SpendKey, SpendRow
from vidgen_async.types.http import (
    Body,
    BytesBody,
    Delivery,
    Headers,
    KeyFunction,
    Phase,
    Request,
    Timeouts,
    make_headers,
)
from vidgen_async.types.limits import Hold, LimitState, Pacing, Spending, SpendingLimit, Turn
from vidgen_async.types.resources import (
    CHECK_REFUND,
    Account,
    Catalog,
    CatalogModel,
    Extra,
    GenerateStage,
    ImageSource,
    OnStage,
    Ratio,
    Receipt,
    ReferenceAsset,
    RequestFields,
    Resolution,
    TaskLike,
    TaskStatus,
    TerminalStatus,
    VideoFields,
    VideoRequest,
    VideoTask,
    failure_text,
)
from vidgen_async.types.serialization import Serializable, kind_of

if TYPE_CHECKING:
    from vidgen_async.batch import Batch, BatchCheck, BatchOutcome, BatchRow, BatchRows, BatchState, PointsBasis
    from vidgen_async.client.resources import AccountInfo, Files, Models
    from vidgen_async.client.videos import Videos
    from vidgen_async.clock import Clock
    from vidgen_async.errors import AuthenticationSource
    from vidgen_async.journal.base import Journal, RunningPage
    from vidgen_async.media.download import FileProblem, VideoStream
    from vidgen_async.orders import ImagesToUpload, OnReceipt, Orders
    from vidgen_async.transports.base import Connection, Response, Transport
    from vidgen_async.types.orders import (
        Attempt,
        AttemptKind,
        AttemptOutcome,
        Balance,
        Closing,
        Decision,
        DecisionKind,
        Evidence,
        Order,
        OrderContent,
        OrderRef,
        OrderState,
        OrderStateName,
        OrderStates,
        OrderSummary,
        Permission,
        RunningTask,
        Shard,
        Spend,
        TaskResult,
    )
    from vidgen_async.watcher import Watcher, WatcherStats
    from vidgen_async.watcher.hooks import OnUpdate
    from vidgen_async.watcher.listeners import Poll, Polling

__all__ = [
    "CHECK_REFUND",
    "Account",
    "AccountInfo",
    "Attempt",
    "AttemptKind",
    "AttemptOutcome",
    "AuthenticationSource",
    "Balance",
    "Batch",
    "BatchCheck",
    "BatchOutcome",
    "BatchRow",
    "BatchRows",
    "BatchState",
    "Body",
    "Budget",
    "BudgetState",
    "BytesBody",
    "Catalog",
    "CatalogModel",
    "Clock",
    "Closing",
    "Connection",
    "Decision",
    "DecisionKind",
    "Delivery",
    "Evidence",
    "Extra",
    "FileProblem",
    "Files",
    "GenerateStage",
    "Headers",
    "Hold",
    "ImageSource",
    "ImagesToUpload",
    "Journal",
    "KeyFunction",
    "LimitState",
    "Models",
    "OnReceipt",
    "OnStage",
    "OnUpdate",
    "Order",
    "OrderContent",
    "OrderRef",
    "OrderState",
    "OrderStateName",
    "OrderStates",
    "OrderSummary",
    "Orders",
    "Pacing",
    "Permission",
    "Phase",
    "PointsBasis",
    "Poll",
    "Polling",
    "Price",
    "Ratio",
    "Receipt",
    "ReferenceAsset",
    "Request",
    "RequestFields",
    "Resolution",
    "Response",
    "RunningPage",
    "RunningTask",
    "Serializable",
    "Shard",
    "Spend",
    "SpendKey",
    "SpendRow",
    "Spending",
    "SpendingLimit",
    "TaskLike",
    "TaskResult",
    "TaskStatus",
    "TerminalStatus",
    "Timeouts",
    "Transport",
    "Turn",
    "VideoFields",
    "VideoRequest",
    "VideoStream",
    "VideoTask",
    "Videos",
    "Watcher",
    "WatcherStats",
    "csv_cell",
    "failure_text",
    "kind_of",
    "make_headers",
    "printable",
]

#: The names above that are imported lazily, by their modules.
_LAZY = {
    "batch": ("Batch", "BatchCheck", "BatchOutcome", "BatchRow", "BatchRows", "BatchState", "PointsBasis"),
    "client.resources": ("AccountInfo", "Files", "Models"),
    "client.videos": ("Videos",),
    "clock": ("Clock",),
    "errors": ("AuthenticationSource",),
    "journal.base": ("Journal", "RunningPage"),
    "media.download": ("FileProblem", "VideoStream"),
    "orders": ("ImagesToUpload", "OnReceipt", "Orders"),
    "transports.base": ("Connection", "Response", "Transport"),
    "types.orders": (
        *("Attempt", "AttemptKind", "AttemptOutcome", "Balance", "Closing", "Decision", "DecisionKind"),
        *("Evidence", "Order", "OrderContent", "OrderRef", "OrderState", "OrderStateName", "OrderStates"),
        *("OrderSummary", "Permission", "RunningTask", "Shard", "Spend", "TaskResult"),
    ),
    "watcher": ("Watcher", "WatcherStats"),
    "watcher.hooks": ("OnUpdate",),
    "watcher.listeners": ("Poll", "Polling"),
}

if not TYPE_CHECKING:  # otherwise type checkers would accept every attribute

    def __getattr__(name: str) -> Any:
        home = next((home for home, names in _LAZY.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        found = getattr(importlib.import_module(f"vidgen_async.{home}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
