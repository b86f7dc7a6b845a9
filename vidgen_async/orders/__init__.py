"""Orders: one order = one Idempotency-Key = one body, for ever; and at most one POST that nobody can account for."""

from vidgen_async.orders.core import KEY_LIFETIME, Check, Names, Orders
from vidgen_async.orders.submissions import OnReceipt
from vidgen_async.orders.words import WHAT_TO_DO

__all__ = ["KEY_LIFETIME", "WHAT_TO_DO", "Check", "Names", "OnReceipt", "Orders"]
