"""The asyncio SDK of a paid video generation service: no order is ever sent twice by accident.

Submodules are imported lazily, on first access to a name.
"""

import sys as _sys  # private names: completion shows all others
import typing as _typing

if _typing.TYPE_CHECKING:
    from vidgen_async.client import Client as Client
    from vidgen_async.errors import AuthenticationError as AuthenticationError
    from vidgen_async.errors import BudgetExceededError as BudgetExceededError
    from vidgen_async.errors import ClientStateError as ClientStateError
    from vidgen_async.errors import ConfigurationError as ConfigurationError
    from vidgen_async.errors import CreateError as CreateError
    from vidgen_async.errors import DownloadError as DownloadError
    from vidgen_async.errors import InsufficientCreditsError as InsufficientCreditsError
    from vidgen_async.errors import InvalidRequestError as InvalidRequestError
    from vidgen_async.errors import JournalError as JournalError
    from vidgen_async.errors import NotFoundError as NotFoundError
    from vidgen_async.errors import NotReadyError as NotReadyError
    from vidgen_async.errors import NotSentError as NotSentError
    from vidgen_async.errors import OrderConflictError as OrderConflictError
    from vidgen_async.errors import OrderStateError as OrderStateError
    from vidgen_async.errors import RateLimitError as RateLimitError
    from vidgen_async.errors import ReceiptNotStoredError as ReceiptNotStoredError
    from vidgen_async.errors import RejectedError as RejectedError
    from vidgen_async.errors import ServiceError as ServiceError
    from vidgen_async.errors import TaskFailedError as TaskFailedError
    from vidgen_async.errors import TransportError as TransportError
    from vidgen_async.errors import UncertainCreateError as UncertainCreateError
    from vidgen_async.errors import VidgenError as VidgenError
    from vidgen_async.errors import WaitTimeoutError as WaitTimeoutError
    from vidgen_async.service.catalog import RequestCheck as RequestCheck
    from vidgen_async.types import Account as Account
    from vidgen_async.types import Budget as Budget
    from vidgen_async.types import Catalog as Catalog
    from vidgen_async.types import CatalogModel as CatalogModel
    from vidgen_async.types import Order as Order
    from vidgen_async.types import Pacing as Pacing
    from vidgen_async.types import Receipt as Receipt
    from vidgen_async.types import ReferenceAsset as ReferenceAsset
    from vidgen_async.types import Timeouts as Timeouts
    from vidgen_async.types import VideoFields as VideoFields
    from vidgen_async.types import VideoRequest as VideoRequest
    from vidgen_async.types import VideoTask as VideoTask
    from vidgen_async.watcher import Outcome as Outcome

__version__ = "0.2.0"

#: The public modules. All others are private.
_MODULES = (
    *("blocking", "cassette", "clock", "errors", "journal"),
    *("otel", "pytest_plugin", "sandbox", "transports", "types"),
)

if not _typing.TYPE_CHECKING:  # otherwise type checkers would accept every attribute

    def _lazy_names(namespace, homes, modules=()):
        """The ``__all__``, ``__getattr__`` and ``__dir__`` of a package that has these names, and others in the modules
        ``homes``, which are imported on first access. With ``modules``, which are listed too, so is every module."""
        package = namespace["__name__"]
        lazy = {name: home for home, names in homes.items() for name in names}
        own = (name for name, value in namespace.items() if name[0] != "_" and not isinstance(value, type(_sys)))
        public = sorted({*own, *lazy})

        def find(name):
            import importlib.util  # noqa: PLC0415 - only where a name is looked up

            if name in lazy:
                found = getattr(importlib.import_module(f"vidgen_async.{lazy[name]}"), name)
            elif modules and importlib.util.find_spec(f"{package}.{name}"):
                found = importlib.import_module(f"{package}.{name}")
            else:
                message = f"module {package!r} has no attribute {name!r}"
                raise AttributeError(message, name=name, obj=_sys.modules[package])
            namespace[name] = found
            return found

        return public, find, lambda: sorted({*public, *modules})

    __all__, __getattr__, __dir__ = _lazy_names(globals(), {
        "client": ("Client",),
        "errors": (
            "AuthenticationError", "BudgetExceededError", "ClientStateError", "ConfigurationError", "CreateError",
            "DownloadError", "InsufficientCreditsError", "InvalidRequestError", "JournalError", "NotFoundError",
            "NotReadyError", "NotSentError", "OrderConflictError", "OrderStateError", "RateLimitError",
            "ReceiptNotStoredError", "RejectedError", "ServiceError", "TaskFailedError", "TransportError",
            "UncertainCreateError", "VidgenError", "WaitTimeoutError",
        ),
        "service.catalog": ("RequestCheck",),
        "types": (
            "Account", "Budget", "Catalog", "CatalogModel", "Order", "Pacing", "Receipt", "ReferenceAsset", "Timeouts",
            "VideoFields", "VideoRequest", "VideoTask",
        ),
        "watcher": ("Outcome",),
    }, modules=(*_MODULES, "__version__"))  # fmt: skip
