"""The asyncio SDK of a paid video generation service: no order is ever sent twice by accident."""

from vidgen_async.attempts import Order
from vidgen_async.client import Client
from vidgen_async.errors import (
    AuthenticationError,
    ClientStateError,
    ConfigurationError,
    CreateError,
    DownloadError,
    InsufficientCreditsError,
    InvalidRequestError,
    JournalError,
    NotFoundError,
    NotReadyError,
    NotSentError,
    OrderConflictError,
    OrderStateError,
    RateLimitError,
    ReceiptNotStoredError,
    RejectedError,
    ServiceError,
    TaskFailedError,
    TransportError,
    UncertainCreateError,
    VidgenError,
    WaitTimeoutError,
)
from vidgen_async.live_catalog import RequestCheck
from vidgen_async.messages import Timeouts
from vidgen_async.pacing import Pacing
from vidgen_async.resources import (
    Account,
    Catalog,
    CatalogModel,
    Receipt,
    ReferenceAsset,
    VideoFields,
    VideoRequest,
    VideoTask,
)
from vidgen_async.watcher import Outcome

__version__ = "0.1.0"

__all__ = [
    "Account",
    "AuthenticationError",
    "Catalog",
    "CatalogModel",
    "Client",
    "ClientStateError",
    "ConfigurationError",
    "CreateError",
    "DownloadError",
    "InsufficientCreditsError",
    "InvalidRequestError",
    "JournalError",
    "NotFoundError",
    "NotReadyError",
    "NotSentError",
    "Order",
    "OrderConflictError",
    "OrderStateError",
    "Outcome",
    "Pacing",
    "RateLimitError",
    "Receipt",
    "ReceiptNotStoredError",
    "ReferenceAsset",
    "RejectedError",
    "RequestCheck",
    "ServiceError",
    "TaskFailedError",
    "Timeouts",
    "TransportError",
    "UncertainCreateError",
    "VideoFields",
    "VideoRequest",
    "VideoTask",
    "VidgenError",
    "WaitTimeoutError",
]
