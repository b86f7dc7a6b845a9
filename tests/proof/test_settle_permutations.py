"""Evidence about an order in any sequence, any piece of it repeated, gives one record, on every journal."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import islice, permutations, product

import pytest
from attrs import evolve

from tests.proof.model_journals import REPLAYED, use_journal
from vidgen_async.journal import Journal, MemoryJournal, Permission
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import SENDABLE, Attempt, AttemptOutcome, Closing, Evidence, Order, OrderRef, OrderState

SENDING, NOT_SENT, UNCERTAIN, REJECTED, ACCEPTED = AttemptOutcome
NOW = datetime(2030, 1, 1, tzinfo=UTC)
TOGETHER = 50

#: The evidence about each attempt.
News = tuple[int, Evidence]
Beginning = Callable[[Journal, OrderRef], Awaitable[object]]


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def news(n: int, outcome: AttemptOutcome) -> News:
    task_id = f"task-{n}" if outcome is ACCEPTED else None
    at = after(30 if outcome is UNCERTAIN else 60 + n)
    return n, Evidence(outcome=outcome, at=at, task_id=task_id, answered=outcome in {ACCEPTED, REJECTED})


# -- how an order may have begun ---------------------------------------------------------------------------------------


async def sent(journal: Journal, ref: OrderRef) -> None:
    await journal.intend(Order(ref=ref, idempotency_key="key", body=b"{}", created_at=NOW))
    await begin(journal, ref, "create", knew=0)


async def resent(journal: Journal, ref: OrderRef) -> None:
    await sent(journal, ref)
    await journal.settle(ref, *news(1, UNCERTAIN))
    await begin(journal, ref, "resend", knew=1)


async def abandoned(journal: Journal, ref: OrderRef) -> None:
    await sent(journal, ref)
    await journal.settle(ref, *news(1, UNCERTAIN))
    closing = Closing(state=OrderState.ABANDONED, at=after(40), reason="lost")
    await journal.close_order(ref, closing, {OrderState.UNCERTAIN})


async def adopted(journal: Journal, ref: OrderRef) -> None:
    await sent(journal, ref)
    receipt = Evidence(outcome=ACCEPTED, at=after(40), task_id=f"adopted by {ref.account}")
    word = Attempt(n=0, sent_at=after(40), deadline_at=after(40), kind="adopt", evidence=receipt)
    await journal.adopt(ref, word, {OrderState.SENDING})


async def begin(journal: Journal, ref: OrderRef, kind: str, *, knew: int) -> None:
    permission = Permission(
        ref=ref,
        expect_attempt=knew,
        states=SENDABLE if kind == "create" else {OrderState.UNCERTAIN},
        now=after(knew),
        deadline_at=after(200),
        pacing=Pacing(),
        kind=kind,
    )
    await journal.begin(permission)


# -- its evidence ------------------------------------------------------------------------------------------------------

Record = tuple[OrderState, tuple[AttemptOutcome, ...], tuple[Evidence | None, ...]]


def record(order: Order) -> Record:
    """The evidence is that of the sends: an adopted task is the receipt of one order alone. When a receipt came is left
    out: of two, the one that is recorded first counts as the earlier one."""
    outcomes = tuple(attempt.outcome for attempt in order.attempts)
    sends = [attempt.evidence for attempt in order.attempts if attempt.kind != "adopt"]
    return order.state, outcomes, tuple(one if one is None else evolve(one, at=after(0)) for one in sends)


async def records(journal: Journal, beginning: Beginning, told: list[News]) -> tuple[int, set[Record]]:
    """How many sequences there are of this, and what is in the journal at their ends; each on an order of its own."""
    sequences = list(dict.fromkeys(permutations(map(told.index, told))))
    case = f"{beginning.__name__} {[(n, evidence.outcome) for n, evidence in told]}"

    async def tell(number: int, sequence: tuple[int, ...]) -> Record:
        ref = OrderRef(service="https://h", account=f"{case} {number}", order_id="o")
        await beginning(journal, ref)
        for index in sequence:
            told_last = await journal.settle(ref, *told[index])
        assert await journal.get(ref, after(100)) == told_last
        receipts = [told[index][1].task_id for index in sequence if told[index][1].outcome is ACCEPTED]
        if beginning is not adopted and told_last.receipt is not None:
            assert told_last.receipt.task_id == receipts[0]
        return record(told_last)

    found: set[Record] = set()
    todo = enumerate(sequences)
    while batch := list(islice(todo, TOGETHER)):
        found |= set(await asyncio.gather(*(tell(number, sequence) for number, sequence in batch)))
    return len(sequences), found


@pytest.mark.parametrize("name", REPLAYED)
@pytest.mark.parametrize(
    ("beginning", "state_unless_accepted", "more"),
    [
        (sent, {NOT_SENT: OrderState.QUEUED, REJECTED: OrderState.REJECTED}, ()),
        (abandoned, dict.fromkeys((NOT_SENT, REJECTED), OrderState.ABANDONED), ()),
        (adopted, dict.fromkeys((NOT_SENT, REJECTED), OrderState.ACCEPTED), (ACCEPTED,)),
    ],
    ids=["sent", "abandoned", "adopted"],
)
async def test_evidence_about_one_attempt_in_any_sequence_gives_one_result(
    name, beginning, state_unless_accepted, more
):
    async with use_journal(name) as journal:
        for truth in (NOT_SENT, REJECTED, ACCEPTED):
            told = [news(1, UNCERTAIN), news(1, UNCERTAIN), news(1, truth), news(1, truth)]
            count, found = await records(journal, beginning, told)
            state = state_unless_accepted.get(truth, OrderState.ACCEPTED)
            assert (count, found) == (6, {(state, (truth, *more), (evolve(news(1, truth)[1], at=after(0)),))})


#: What two attempts may have come to; that knowledge only grows is one piece of code for all journals, so on a
#: file it is enough that each outcome is met at each attempt, and in PostgreSQL, which shares its SQL, one case.
TRUTHS = {
    "memory": tuple(product((NOT_SENT, REJECTED, ACCEPTED), repeat=2)),
    "sqlite": ((NOT_SENT, REJECTED), (REJECTED, ACCEPTED), (ACCEPTED, NOT_SENT)),
    "postgres": ((REJECTED, ACCEPTED),),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
async def test_evidence_about_two_attempts_in_any_sequence_gives_one_result(name):
    async with use_journal(name) as journal:
        for truths in TRUTHS[name]:
            first, second = (news(n, truth) for n, truth in enumerate(truths, start=1))
            told = [news(1, UNCERTAIN), first, first, news(2, UNCERTAIN), second]
            count, found = await records(journal, resent, told)
            assert (count, len(found)) == (60, 1)
            ((_, outcomes, evidence),) = found
            assert (outcomes, [one.task_id for one in evidence]) == (truths, [first[1].task_id, second[1].task_id])


@pytest.mark.parametrize("name", REPLAYED)
async def test_a_receipt_of_either_attempt_survives_any_other_evidence_about_both(name):
    others = (UNCERTAIN, REJECTED, NOT_SENT)
    async with use_journal(name) as journal:
        for accepted, other in product((1, 2), others):
            told = [news(accepted, ACCEPTED), news(3 - accepted, UNCERTAIN), news(3 - accepted, other)]
            _, found = await records(journal, resent, told)
            assert {state for state, *_ in found} == {OrderState.ACCEPTED}


class LatestNewsWin(MemoryJournal):
    async def settle(self, ref: OrderRef, n: int, evidence: Evidence) -> Order:
        attempts = [evolve(one, evidence=evidence) if one.n == n else one for one in self._require(ref).attempts]
        return self._store(evolve(self._require(ref), attempts=tuple(attempts)))


async def test_a_journal_in_which_the_latest_evidence_wins_is_detected():
    told = [news(1, UNCERTAIN), news(1, ACCEPTED)]
    count, found = await records(LatestNewsWin(), sent, told)
    assert (count, len(found)) == (2, 2)
