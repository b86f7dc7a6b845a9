"""The account's balance before and after uncertain attempts: evidence for an operator, since no endpoint lists tasks.
Nothing is decided by it, and no create waits for it."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime

from attrs import evolve

from vidgen_async.clock import Clock, within
from vidgen_async.events import Event
from vidgen_async.orders.settlement import Settlement
from vidgen_async.types.orders import Balance, Evidence, OrderRef
from vidgen_async.types.resources import Account
from vidgen_async.user_code import UserCode

logger = logging.getLogger(__name__)

#: Time limit in seconds of a read of the account.
READ_TIMEOUT = 10.0
#: Number of stored readings: the one before an attempt is among them, unless very many overlap.
_MAX_READINGS = 32


class Balances:
    """The balances that ``read``, one GET /account (4.2), has returned; without it, the account is never read."""

    def __init__(self, read: Callable[[], Awaitable[Account]] | None, clock: Clock, settlement: Settlement) -> None:
        self._read = read
        self._clock = clock
        self._settlement = settlement
        self._readings: deque[Balance] = deque(maxlen=_MAX_READINGS)
        self._waiting: list[tuple[OrderRef, int, Evidence]] = []
        self._is_reading = False

    def remember(self, account: Account) -> Balance:
        """Remember this answer of the service."""
        balance = Balance(at=self._clock.wall(), numbers=account.numbers)
        self._readings.append(balance)
        return balance

    def before(self, moment: datetime) -> Balance | None:
        """The last balance that was read before that moment."""
        return next((balance for balance in reversed(self._readings) if balance.at <= moment), None)

    def read_after(self, ref: OrderRef, n: int, evidence: Evidence) -> None:
        """Read the balance soon, once for all that wait for it, and add it to the evidence of this attempt."""
        if self._read is None:
            return
        self._waiting.append((ref, n, evidence))
        if not self._is_reading:
            self._is_reading = True
            self._settlement.start_reader(self._read_all(self._read))

    async def _read_all(self, read: Callable[[], Awaitable[Account]]) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            with UserCode() as call:  # only additional evidence: neither the service nor a journal may raise here
                balance = self.remember(await within(self._clock, READ_TIMEOUT, read))
                for ref, n, evidence in waiting:
                    await self._settlement.journal.settle(ref, n, evolve(evidence, balance_after=balance))
            if call.error is not None:
                Event.BALANCE_READ_FAILED.log(logger, count=len(waiting), error=type(call.error).__name__)
        self._is_reading = False
