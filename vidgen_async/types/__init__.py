"""The classes and types that the signatures of the SDK name.

Values that users hold are frozen. Orders, and classes of higher layers, which users only name in annotations, are
imported lazily, on first access.
"""

import typing as _typing

from vidgen_async.redaction.messages import csv_cell as csv_cell
from vidgen_async.redaction.messages import printable as printable
from vidgen_async.types.budgets import Budget as Budget
from vidgen_async.types.budgets import BudgetState as BudgetState
from vidgen_async.types.budgets import Price as Price
from vidgen_async.types.budgets import SpendKey as SpendKey
from vidgen_async.types.budgets import SpendRow as SpendRow
from vidgen_async.types.http import Body as Body
from vidgen_async.types.http import BytesBody as BytesBody
from vidgen_async.types.http import Delivery as Delivery
from vidgen_async.types.http import Headers as Headers
from vidgen_async.types.http import KeyFunction as KeyFunction
from vidgen_async.types.http import Phase as Phase
from vidgen_async.types.http import Request as Request
from vidgen_async.types.http import Timeouts as Timeouts
from vidgen_async.types.http import make_headers as make_headers
from vidgen_async.types.limits import Hold as Hold
from vidgen_async.types.limits import LimitState as LimitState
from vidgen_async.types.limits import Pacing as Pacing
from vidgen_async.types.limits import Spending as Spending
from vidgen_async.types.limits import SpendingLimit as SpendingLimit
from vidgen_async.types.limits import Turn as Turn
from vidgen_async.types.resources import CHECK_REFUND as CHECK_REFUND
from vidgen_async.types.resources import Account as Account
from vidgen_async.types.resources import Catalog as Catalog
from vidgen_async.types.resources import CatalogModel as CatalogModel
from vidgen_async.types.resources import Extra as Extra
from vidgen_async.types.resources import GenerateStage as GenerateStage
from vidgen_async.types.resources import ImageSource as ImageSource
from vidgen_async.types.resources import OnStage as OnStage
from vidgen_async.types.resources import Ratio as Ratio
from vidgen_async.types.resources import Receipt as Receipt
from vidgen_async.types.resources import ReferenceAsset as ReferenceAsset
from vidgen_async.types.resources import RequestFields as RequestFields
from vidgen_async.types.resources import Resolution as Resolution
from vidgen_async.types.resources import TaskLike as TaskLike
from vidgen_async.types.resources import TaskStatus as TaskStatus
from vidgen_async.types.resources import TerminalStatus as TerminalStatus
from vidgen_async.types.resources import VideoFields as VideoFields
from vidgen_async.types.resources import VideoRequest as VideoRequest
from vidgen_async.types.resources import VideoTask as VideoTask
from vidgen_async.types.resources import failure_text as failure_text
from vidgen_async.types.serialization import Serializable as Serializable
from vidgen_async.types.serialization import kind_of as kind_of

if _typing.TYPE_CHECKING:
    from vidgen_async.batch import Batch as Batch
    from vidgen_async.batch import BatchCheck as BatchCheck
    from vidgen_async.batch import BatchOutcome as BatchOutcome
    from vidgen_async.batch import BatchRow as BatchRow
    from vidgen_async.batch import BatchRows as BatchRows
    from vidgen_async.batch import BatchState as BatchState
    from vidgen_async.batch import PointsBasis as PointsBasis
    from vidgen_async.client.resources import AccountInfo as AccountInfo
    from vidgen_async.client.resources import Files as Files
    from vidgen_async.client.resources import Models as Models
    from vidgen_async.client.videos import Videos as Videos
    from vidgen_async.clock import Clock as Clock
    from vidgen_async.errors import AuthenticationSource as AuthenticationSource
    from vidgen_async.journal.base import Journal as Journal
    from vidgen_async.journal.base import RunningPage as RunningPage
    from vidgen_async.media.download import FileProblem as FileProblem
    from vidgen_async.media.download import VideoStream as VideoStream
    from vidgen_async.orders import ImagesToUpload as ImagesToUpload
    from vidgen_async.orders import OnReceipt as OnReceipt
    from vidgen_async.orders import Orders as Orders
    from vidgen_async.transports.base import Connection as Connection
    from vidgen_async.transports.base import Response as Response
    from vidgen_async.transports.base import Transport as Transport
    from vidgen_async.types.orders import Attempt as Attempt
    from vidgen_async.types.orders import AttemptKind as AttemptKind
    from vidgen_async.types.orders import AttemptOutcome as AttemptOutcome
    from vidgen_async.types.orders import Balance as Balance
    from vidgen_async.types.orders import Closing as Closing
    from vidgen_async.types.orders import Decision as Decision
    from vidgen_async.types.orders import DecisionKind as DecisionKind
    from vidgen_async.types.orders import Evidence as Evidence
    from vidgen_async.types.orders import Order as Order
    from vidgen_async.types.orders import OrderContent as OrderContent
    from vidgen_async.types.orders import OrderRef as OrderRef
    from vidgen_async.types.orders import OrderState as OrderState
    from vidgen_async.types.orders import OrderStateName as OrderStateName
    from vidgen_async.types.orders import OrderStates as OrderStates
    from vidgen_async.types.orders import OrderSummary as OrderSummary
    from vidgen_async.types.orders import Permission as Permission
    from vidgen_async.types.orders import RunningTask as RunningTask
    from vidgen_async.types.orders import Shard as Shard
    from vidgen_async.types.orders import Spend as Spend
    from vidgen_async.types.orders import TaskResult as TaskResult
    from vidgen_async.watcher import Watcher as Watcher
    from vidgen_async.watcher import WatcherStats as WatcherStats
    from vidgen_async.watcher.hooks import OnUpdate as OnUpdate
    from vidgen_async.watcher.listeners import Poll as Poll
    from vidgen_async.watcher.listeners import Polling as Polling
else:
    from vidgen_async import _lazy_names

    __all__, __getattr__, __dir__ = _lazy_names(globals(), {
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
            "Attempt", "AttemptKind", "AttemptOutcome", "Balance", "Closing", "Decision", "DecisionKind", "Evidence",
            "Order", "OrderContent", "OrderRef", "OrderState", "OrderStateName", "OrderStates", "OrderSummary",
            "Permission", "RunningTask", "Shard", "Spend", "TaskResult",
        ),
        "watcher": ("Watcher", "WatcherStats"),
        "watcher.hooks": ("OnUpdate",),
        "watcher.listeners": ("Poll", "Polling"),
    })  # fmt: skip
