"""A journal that stores orders and attempts, but no outcome."""

import asyncio

from vidgen_async import JournalError
from vidgen_async.journal import MemoryJournal
from vidgen_async.types.orders import Evidence, Order, OrderRef


class FullJournal(MemoryJournal):
    """Its disk is full when the outcome of an attempt is to be stored."""

    def __init__(self) -> None:
        super().__init__()
        self.is_settling = asyncio.Event()
        """Set once that was requested."""

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        self.is_settling.set()
        message = "the disk is full"
        raise JournalError(message)
