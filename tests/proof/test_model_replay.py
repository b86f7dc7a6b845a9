"""Every journal does what the model says: a shortest path to each record that can be, carried out on it."""

from collections.abc import Collection
from datetime import datetime

import pytest
from attrs import evolve

from tests.proof import model
from tests.proof.model import Design, search, search_all
from tests.proof.model_journals import (
    JOURNALS,
    REPLAYED,
    ExpectedAttemptIgnored,
    LateReceiptDropped,
    StatesIgnored,
    use_journal,
)
from tests.proof.model_replay import Path, Step, longest, mismatches, refusals, shortest
from vidgen_async.journal import MemoryJournal
from vidgen_async.types.orders import Attempt, Closing, Evidence, Order, OrderRef, OrderState

pytestmark = pytest.mark.slow

LARGE = Design(workers=2, resends=1, attempts=4)
MEDIUM = Design(workers=2, resends=1, attempts=3)
SMALL = Design(workers=2, resends=1, attempts=2)
UNGATED = Design(workers=1, resends=1, attempts=2, gated=False)


@pytest.fixture(scope="module")
def records() -> dict[model.Order, Path]:
    """All that two workers, a resend and an adoption can leave in the journal, with a shortest path to each."""
    return shortest(search_all(workers=2, resends=1, attempts=3))


@pytest.fixture(scope="module")
def few_records() -> dict[model.Order, Path]:
    return shortest(search(SMALL))


@pytest.mark.parametrize("name", REPLAYED)
async def test_a_journal_stores_what_the_model_predicts_on_every_path(name, records):
    assert len(records) > 300
    async with use_journal(name) as journal:
        assert await mismatches(journal, MEDIUM, longest(records.values())) == []


@pytest.mark.parametrize("name", REPLAYED)
async def test_a_send_without_the_gate_is_stored_as_the_model_predicts(name):
    paths = [path for path in shortest(search(UNGATED)).values() if any(move.rule == "force" for move, _ in path)]
    assert len(paths) > 50
    async with use_journal(name) as journal:
        assert await mismatches(journal, UNGATED, longest(paths)) == []


@pytest.mark.needs_dev
async def test_a_journal_stores_what_the_model_predicts_also_with_one_more_attempt():
    records = shortest(search(LARGE))
    assert len(records) > 1_000
    for name in JOURNALS:
        async with use_journal(name) as journal:
            assert await mismatches(journal, LARGE, longest(records.values())) == []


@pytest.mark.parametrize("name", REPLAYED)
async def test_a_journal_applies_a_deadline_that_was_not_read_before(name, records):
    late = [path for path in records.values() if len(path) < 9 and any(move.rule == "expire" for move, _ in path)]
    async with use_journal(name) as journal:
        assert await mismatches(journal, MEDIUM, longest(late), unseen_deadlines=True) == []


@pytest.mark.parametrize("name", REPLAYED)
async def test_operations_that_must_not_change_an_order_change_it_in_no_state(name, few_records):
    async with use_journal(name) as journal:
        assert await mismatches(journal, SMALL, refused(few_records)) == []


def refused(records: dict[model.Order, Path]) -> list[Path]:
    """To each record; there everything is tried that must not change it."""
    return [path + tuple(Step(move, order) for move in refusals(SMALL, order)) for order, path in records.items()]


# -- journals that are wrong are found out -----------------------------------------------------------------------------


class LastAttemptWins(MemoryJournal):
    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        order = await super().settle(ref, n, evidence)
        for attempt in order.unclear:
            if attempt.n < n:
                order = await super().settle(ref, attempt.n, evidence)
        return order


class ClosingHidesReceipt(MemoryJournal):
    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        order = self._require(ref)
        return order if order.closing else await super().settle(ref, n, evidence)


class AdoptionTakesOverTheLastAttempt(MemoryJournal):
    async def adopt(self, ref: OrderRef, attempt: Attempt, states: Collection[OrderState]) -> Order:
        order = self._read(ref, attempt.sent_at)
        if order.state not in states or attempt.evidence is None:
            return order
        return await self.settle(ref, len(order.attempts), attempt.evidence)


class DeadlineForgotten(MemoryJournal):
    async def get(self, ref: OrderRef, now: datetime) -> Order | None:
        return self._orders.get(ref)


class WritesAfterItAnswers(MemoryJournal):
    async def close_order(self, ref: OrderRef, closing: Closing, states: Collection[OrderState]) -> Order:
        order = self._read(ref, closing.at)
        return evolve(order, closing=closing) if order.state in states else order


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (LateReceiptDropped, "not 'accepted'"),
        (LastAttemptWins, "'rejected', not 'uncertain'"),
        (ClosingHidesReceipt, "'abandoned', not 'accepted'"),
        (AdoptionTakesOverTheLastAttempt, "'adopt'"),
        (DeadlineForgotten, "'sending', not 'uncertain'"),
        (WritesAfterItAnswers, "not what is in the journal"),
    ],
)
async def test_a_journal_that_breaks_a_rule_is_detected_on_some_path(broken, what, records):
    paths = [path for path in records.values() if len(path) < 8]
    assert what in " ".join(await mismatches(broken(), MEDIUM, longest(paths)))


class LastReceiptWins(MemoryJournal):
    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        order = self._require(ref)
        attempts = [evolve(attempt, evidence=evidence) if attempt.n == n else attempt for attempt in order.attempts]
        return self._store(evolve(order, attempts=tuple(attempts)))


@pytest.mark.parametrize("broken", [ExpectedAttemptIgnored, StatesIgnored, LastReceiptWins])
async def test_a_journal_that_changes_what_it_must_not_change_is_detected(broken, few_records):
    assert await mismatches(broken(), SMALL, refused(few_records)) != []
