"""A sandbox of the service: real sockets, rules and videos, and no charges. It imports nothing of the SDK."""

try:
    from vidgen_async.sandbox.service import Sandbox
except ModuleNotFoundError as error:
    if error.name != "PIL":
        raise
    raise ImportError("the sandbox needs PIL: pip install 'vidgen-async[sandbox]'") from error

from vidgen_async.sandbox.accounts import Account, Failure, LedgerEntry, SandboxTask, outcome_by_prompt
from vidgen_async.sandbox.catalog import SNAPSHOT, CatalogEntry
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.faults import Fault, FaultPlan, PlannedFault
from vidgen_async.sandbox.request_log import ReceivedCreate, ReceivedRequest
from vidgen_async.sandbox.state_file import StateError
from vidgen_async.sandbox.web.control import plan_text

__all__ = [
    "SNAPSHOT",
    "Account",
    "CatalogEntry",
    "Failure",
    "Fault",
    "FaultPlan",
    "LedgerEntry",
    "PlannedFault",
    "ReceivedCreate",
    "ReceivedRequest",
    "Sandbox",
    "SandboxClock",
    "SandboxTask",
    "StateError",
    "outcome_by_prompt",
    "plan_text",
]
