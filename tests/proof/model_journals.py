"""The journals that the model is held against: a new one joins by one line."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from attrs import evolve

from tests.journal.conftest import MEMORY
from tests.postgres import any_server, new_database
from vidgen_async.journal import Journal, MemoryJournal, Permission, PostgresJournal, SqliteJournal
from vidgen_async.types.orders import Attempt, AttemptOutcome, Closing, Evidence, Order, OrderRef, OrderState

JOURNALS: dict[str, Callable[[Path], Journal]] = {
    "memory": lambda _: MemoryJournal(),
    "sqlite": lambda directory: SqliteJournal(directory / "orders.db"),
}


#: Those on which paths of the model are carried out.
REPLAYED = (*JOURNALS, pytest.param("postgres", marks=pytest.mark.needs_engines))


@asynccontextmanager
async def use_journal(name: str) -> AsyncIterator[Journal]:
    """A new, empty journal."""
    if name == "postgres":
        with any_server() as server, new_database(server) as database:
            journal = PostgresJournal(database)
            try:
                yield journal
            finally:
                await journal.aclose()
        return
    with TemporaryDirectory(prefix="vidgen-proof-", dir=MEMORY) as directory:
        journal = JOURNALS[name](Path(directory))
        try:
            yield journal
        finally:
            await journal.aclose()


class ExpectedAttemptIgnored(MemoryJournal):
    """Wrong: a caller that may send an order in this state sends it, also after other attempts since its read."""

    async def begin(self, permission: Permission) -> Attempt:
        attempts = len(self._require(permission.ref).attempts)
        return await super().begin(evolve(permission, expect_attempt=attempts))


class StatesIgnored(MemoryJournal):
    """Wrong: an order is sent, and closed, in whatever state it is."""

    async def begin(self, permission: Permission) -> Attempt:
        attempts = len(self._require(permission.ref).attempts)
        return await super().begin(evolve(permission, states=frozenset(OrderState), expect_attempt=attempts))

    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        return await super().close_order(ref, closing, frozenset(OrderState))


class LateReceiptDropped(MemoryJournal):
    """Wrong: after its deadline an attempt is over."""

    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        order = self._require(ref)
        is_late = order.attempts[n - 1].outcome is not AttemptOutcome.SENDING
        return order if is_late else await super().settle(ref, n, evidence)
