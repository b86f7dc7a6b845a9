"""One send of an order: the only code in the package that lets a POST /videos leave."""

from vidgen_async.creates.core import Creates, Sent, Wish

__all__ = ["Creates", "Sent", "Wish"]
