"""The asyncio SDK of a paid video generation service: no order is ever sent twice by accident.

Submodules are imported lazily, on first access to a name.
"""

import typing as _typing  # private names: completion shows all others

if _typing.TYPE_CHECKING:
    from vidgen_async.client import Client
    from vidgen_async.errors import (
        AuthenticationError,
        BudgetExceededError,
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
    from vidgen_async.service.catalog import RequestCheck
    from vidgen_async.types import (
        Account,
        Budget,
        Catalog,
        CatalogModel,
        Order,
        Pacing,
        Receipt,
        ReferenceAsset,
        Timeouts,
        VideoFields,
        VideoRequest,
        VideoTask,
    )
    from vidgen_async.watcher import Outcome

__version__ = "0.2.0"

__all__ = [
    "Account",
    "AuthenticationError",
    "Budget",
    "BudgetExceededError",
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

#: The modules of the names above that are neither errors nor in ``types``.
_HOMES = {"Client": "client", "Outcome": "watcher", "RequestCheck": "service.catalog"}

#: The public modules. All others are private.
_MODULES = (
    *("blocking", "cassette", "clock", "errors", "journal"),
    *("otel", "pytest_plugin", "sandbox", "transports", "types"),
)

if not _typing.TYPE_CHECKING:  # otherwise type checkers would accept every attribute

    def __getattr__(name):
        import importlib.util  # noqa: PLC0415 - as above
        import sys  # noqa: PLC0415

        if name in __all__:
            home = _HOMES.get(name) or ("errors" if name.endswith("Error") else "types")
            found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        elif importlib.util.find_spec(f"{__name__}.{name}"):
            found = importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
