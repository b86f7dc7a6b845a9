"""Orders: one order = one Idempotency-Key = one body, forever; and at most one POST with an unknown outcome."""

from vidgen_async.orders.error_messages import WHAT_TO_DO
from vidgen_async.orders.orders import KEY_LIFETIME, Orders
from vidgen_async.orders.sending import OnReceipt, Sender

__all__ = ["KEY_LIFETIME", "WHAT_TO_DO", "OnReceipt", "Orders", "Sender"]
