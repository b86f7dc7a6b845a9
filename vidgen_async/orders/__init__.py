"""Orders: one order = one Idempotency-Key = one body, for ever; and at most one POST that nobody can account for."""

from vidgen_async.orders.error_messages import WHAT_TO_DO
from vidgen_async.orders.orders import KEY_LIFETIME, Check, Names, Orders
from vidgen_async.orders.submission import OnReceipt

__all__ = ["KEY_LIFETIME", "WHAT_TO_DO", "Check", "Names", "OnReceipt", "Orders"]
