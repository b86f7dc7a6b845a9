"""A confirmed receipt is stored only if the task is neither a receipt nor a candidate of another order."""

import pytest
from attrs import evolve

from tests.journal.conftest import NOW, accepted, after, permission, ref_of, sending, uncertain
from vidgen_async.types.orders import Balance, OrderState


async def with_candidates(journal, order_id: str, *candidates: str, account: str | None = None) -> None:
    await sending(journal, order_id, **({} if account is None else {"account": account}))
    await journal.settle(ref_of(order_id), 1, uncertain(candidates=candidates))


async def test_a_confirmed_receipt_is_stored_and_does_not_change(journal):
    await with_candidates(journal, "a", "t-1", "t-2")

    order = await journal.confirm(ref_of("a"), 1, accepted("t-1", after(1)))

    assert (order.state, order.receipt.task_id) == (OrderState.ACCEPTED, "t-1")
    assert await journal.get(ref_of("a"), NOW) == order
    assert await journal.confirm(ref_of("a"), 1, accepted("t-2", after(2))) == order


async def test_evidence_with_candidates_is_read_back_unchanged(journal):
    await sending(journal, "a")
    evidence = uncertain(
        status=202, candidates=("t-1", "7"), headers=(("Date", "today"), ("X-A", "b")), request_id="r-1", answered=True
    )
    await journal.settle(ref_of("a"), 1, evidence)

    (attempt,) = (await journal.get(ref_of("a"), NOW)).attempts
    assert attempt.evidence == evidence


async def test_the_balance_is_added_once_and_only_to_an_uncertain_attempt(journal):
    before, now, later = [Balance(at=after(n), numbers={"wallet.credits": 20.5 - n}) for n in (0, 2, 4)]
    await sending(journal, "a")
    await journal.settle(ref_of("a"), 1, uncertain(after(1), balance_before=before))
    await journal.settle(ref_of("a"), 1, uncertain(after(3), balance_after=now))
    order = await journal.settle(ref_of("a"), 1, uncertain(after(3), balance_after=later))

    known = uncertain(after(1), balance_before=before, balance_after=now)
    assert [attempt.evidence for attempt in order.attempts] == [known]
    assert await journal.get(ref_of("a"), NOW) == order
    await journal.settle(ref_of("a"), 1, accepted("t-1", after(5)))
    order = await journal.settle(ref_of("a"), 1, uncertain(after(6), balance_after=later))
    assert (order.state, order.attempts[0].evidence.balance_after) == (OrderState.ACCEPTED, None)


@pytest.mark.parametrize("what", ["receipt", "candidate", "former candidate"])
async def test_a_task_of_another_order_is_not_confirmed(journal, what):
    await with_candidates(journal, "a", "t-1")
    if what == "receipt":
        await sending(journal, "b")
        await journal.settle(ref_of("b"), 1, accepted("t-1"))
    else:
        await with_candidates(journal, "b", "t-1", "t-9")
        if what == "former candidate":
            await journal.settle(ref_of("b"), 1, accepted("t-9", after(1)))

    order = await journal.confirm(ref_of("a"), 1, accepted("t-1", after(2)))

    assert (order.state, order.receipt) == (OrderState.UNCERTAIN, None)
    assert await journal.get(ref_of("a"), NOW) == order


async def test_a_candidate_of_two_attempts_of_one_order_is_confirmed(journal):
    await with_candidates(journal, "a", "t-1")
    again = evolve(
        permission("a"), expect_attempt=1, states={OrderState.UNCERTAIN}, now=after(2), deadline_at=after(60)
    )
    await journal.begin(again)
    await journal.settle(ref_of("a"), 2, uncertain(after(3), candidates=("t-1",)))

    assert (await journal.confirm(ref_of("a"), 1, accepted("t-1", after(4)))).receipt.task_id == "t-1"
