"""The account's balance before and after uncertain attempts: evidence for an operator, since no endpoint lists tasks.
Nothing is decided by it, and no create waits for it."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

from attrs import evolve

from vidgen_async.clock import Clock, within
from vidgen_async.events import Event, report
from vidgen_async.journal.base import Journal
from vidgen_async.types.orders import Balance, Evidence, OrderRef
from vidgen_async.types.resources import Account
from vidgen_async.user_code import UserCode

logger = logging.getLogger(__name__)

#: Time limit in seconds of a read of the account, and the one that remains when the client is closed.
READ_TIMEOUT = 10.0
CLOSING_TIMEOUT = 2.0
#: Number of stored readings: the one before an attempt is among them, unless very many overlap.
_MAX_READINGS = 32


class Balances:
    """Remembers the balances that were read, and reads the account once more soon after an uncertain attempt.

    Args:
        read: Sends one GET /account (4.2); None: the account is never read.
        readers: Where the worker is that reads, as long as it runs; its owner calls :func:`end_readers`.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Account]] | None,
        journal: Journal,
        clock: Clock,
        readers: set[asyncio.Task[None]],
    ) -> None:
        self._read = read
        self._journal = journal
        self._clock = clock
        self._readings: deque[Balance] = deque(maxlen=_MAX_READINGS)
        self._waiting: list[tuple[OrderRef, int, Evidence]] = []
        self._readers = readers
        self._reader: asyncio.Task[None] | None = None

    def remember(self, account: Account) -> Balance:
        """Remember this answer of the service."""
        balance = Balance(at=self._clock.wall(), numbers=account.numbers)
        self._readings.append(balance)
        return balance

    def before(self, moment: datetime) -> Balance | None:
        """The last balance that was read before that moment."""
        return next((balance for balance in reversed(self._readings) if balance.at <= moment), None)

    def read_after(self, ref: OrderRef, n: int, evidence: Evidence) -> None:
        """Read the balance soon, and add it to the evidence of this attempt, which is *uncertain*. One GET serves all
        attempts that wait for it."""
        if self._read is None:
            return
        self._waiting.append((ref, n, evidence))
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._read_all(self._read), name="balance")
            self._readers.add(self._reader)
            self._reader.add_done_callback(self._readers.discard)

    async def _read_all(self, read: Callable[[], Awaitable[Account]]) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            with UserCode() as call:  # only additional evidence: neither the service nor a journal may raise here
                balance = self.remember(await within(self._clock, READ_TIMEOUT, read))
                for ref, n, evidence in waiting:
                    await self._journal.settle(ref, n, evolve(evidence, balance_after=balance))
            if call.error is not None:
                message = "the balance after %(count)d uncertain creates could not be recorded: %(error)s"
                name = type(call.error).__name__
                report(logger, logging.INFO, Event.BALANCE_READ_FAILED, message, count=len(waiting), error=name)


async def end_readers(readers: set[asyncio.Task[None]], clock: Clock, grace: float) -> None:
    """Wait for reads under way for ``grace`` seconds, at most two; then cancel them."""
    if readers:
        running = set(readers)
        with suppress(TimeoutError):
            await within(clock, min(grace, CLOSING_TIMEOUT), lambda: asyncio.wait(running))
        for reader in running:
            reader.cancel()
        await asyncio.wait(running)
