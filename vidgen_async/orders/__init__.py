"""Orders: one order = one Idempotency-Key = one body, forever; and at most one POST with an unknown outcome."""

from vidgen_async.orders.error_messages import WHAT_TO_DO
from vidgen_async.orders.orders import ImagesToUpload, Orders
from vidgen_async.orders.sending import OnReceipt, Sender, Shared

__all__ = ["WHAT_TO_DO", "ImagesToUpload", "OnReceipt", "Orders", "Sender", "Shared"]
