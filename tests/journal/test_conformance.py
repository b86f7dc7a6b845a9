"""The promises of every journal, in one suite for all of them. ``other`` reads what ``journal`` wrote."""

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from string import ascii_letters

import pytest
from attrs import evolve

from tests.journal.conftest import (
    ACCOUNT,
    DEADLINE,
    NOW,
    SERVICE,
    accepted,
    after,
    evidence,
    order_of,
    permission,
    ref_of,
    rejected,
    sending,
    uncertain,
)
from vidgen_async.errors import JournalError
from vidgen_async.journal import Journal, MustWait, OrderChanged, Permission
from vidgen_async.orders.orders import LONGEST_ORDER_ID
from vidgen_async.service.endpoints import LONGEST_TASK_ID
from vidgen_async.types.limits import Pacing, Turn
from vidgen_async.types.orders import Attempt, AttemptOutcome, Closing, Order, OrderState, RunningTask, TaskResult

ONE = Pacing(limit=1)
RESENDABLE = frozenset({OrderState.UNCERTAIN})


# -- intents -----------------------------------------------------------------------------------------------------------


async def test_intend_returns_the_order_that_was_stored_first(journal, other):
    first = order_of(body=b"first")
    assert await journal.intend(first) == first

    again = evolve(first, body=b"second", idempotency_key="another", created_at=after(1))

    assert await other.intend(again) == first
    assert await journal.get(ref_of(), NOW) == first


async def test_bodies_and_names_are_stored_exactly(journal, other):
    order = order_of("Bestellung № 1 / \U0001f6a2", body=bytes(range(256)), account="Ä/b?c", service="https://h:8443")
    await journal.intend(order)
    found = await other.get(order.ref, NOW)
    assert found == order
    assert found.body == bytes(range(256))


async def test_the_digests_of_local_images_are_stored_with_the_order(journal, other):
    order = evolve(order_of(), local_images={"image-1": "0a" * 32, "Bild № 2": "ff" * 32})
    assert await journal.intend(order) == order
    again = evolve(order, local_images={"image-3": "0a" * 32})
    assert (await other.intend(again)).local_images == order.local_images
    await sending(journal)
    assert (await other.settle(ref_of(), 1, accepted())).local_images == order.local_images
    assert (await other.get(ref_of(), NOW)).local_images == order.local_images
    [listed] = await other.list(SERVICE, ACCOUNT, NOW)
    assert listed.local_images == order.local_images


async def test_times_are_stored_to_the_microsecond_in_any_time_zone(journal, other):
    tokyo = timezone(timedelta(hours=9))
    moment = datetime(2030, 1, 1, 3, 4, 5, 678901, tzinfo=tokyo)
    await journal.intend(evolve(order_of(), created_at=moment))
    found = await other.get(ref_of(), NOW)
    assert found.created_at == moment
    assert found.created_at.tzinfo is not None


# -- beginning ---------------------------------------------------------------------------------------------------------


async def test_an_attempt_that_began_is_sending_for_all_users_of_the_journal(journal, other):
    attempt = await sending(journal)
    assert (attempt.n, attempt.outcome, attempt.deadline_at) == (1, AttemptOutcome.SENDING, NOW + DEADLINE)

    found = await other.get(ref_of(), NOW)
    assert found.state is OrderState.SENDING
    assert found.attempts == (attempt,)


async def test_the_operator_and_reason_of_a_resend_are_stored(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain())
    words = {"kind": "resend", "by": "Ann", "reason": "the account shows no charge; sent “again”"}
    await journal.begin(permission(expect_attempt=1, states=RESENDABLE, now=after(1), **words))
    second = (await other.get(ref_of(), after(1))).attempts[1]
    assert (second.kind, second.by, second.reason, second.sent_at) == (*words.values(), after(1))


async def test_an_attempt_that_another_user_made_meanwhile_is_not_repeated(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, rejected())

    with pytest.raises(OrderChanged) as answer:
        await other.begin(permission(expect_attempt=0))

    assert answer.value.order.state is OrderState.REJECTED
    assert len((await journal.get(ref_of(), NOW)).attempts) == 1


async def test_only_one_of_many_concurrent_begins_may_send(journal, other):
    await journal.intend(order_of())
    begins = [one.begin(permission()) for one in [journal, other] * 10]
    answers = await asyncio.gather(*begins, return_exceptions=True)
    assert Counter(map(type, answers)) == {Attempt: 1, OrderChanged: 19}


async def test_only_one_of_many_concurrent_resends_may_send(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain())
    resend = permission(expect_attempt=1, states=RESENDABLE)
    answers = await asyncio.gather(*(one.begin(resend) for one in [journal, other] * 5), return_exceptions=True)
    assert Counter(map(type, answers)) == {Attempt: 1, OrderChanged: 9}


async def test_an_operation_on_an_unknown_order_is_a_journal_error(journal):
    closing = Closing(state=OrderState.WITHDRAWN, at=NOW, reason="")
    for operation in (
        journal.begin(permission("nobody's")),
        journal.settle(ref_of("nobody's"), 1, accepted()),
        journal.close_order(ref_of("nobody's"), closing, {OrderState.QUEUED}),
    ):
        with pytest.raises(JournalError, match="nobody's"):
            await operation
    assert await journal.list(SERVICE, ACCOUNT, NOW) == []


# -- evidence ----------------------------------------------------------------------------------------------------------


async def test_the_receipt_that_was_stored_first_remains_the_receipt_whatever_the_clocks_show(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain(after(1)))
    await journal.begin(permission(expect_attempt=1, states=RESENDABLE))
    await journal.settle(ref_of(), 2, accepted("told", after(50)))
    await other.settle(ref_of(), 1, accepted("late", after(2)))
    found = await journal.get(ref_of(), after(60))
    assert (found.receipt.task_id, found.receipt.accepted_at) == ("told", after(50))
    assert set(found.task_ids) == {"told", "late"}


async def test_evidence_about_an_attempt_that_is_missing_is_an_error(journal, other):
    await sending(journal)
    before = await other.get(ref_of(), NOW)
    for write in (journal.settle, journal.confirm):
        with pytest.raises(JournalError, match="has no attempt 2 of order 'o'"):
            await write(ref_of(), 2, accepted())
    assert await other.get(ref_of(), NOW) == before


async def test_evidence_is_stored_exactly(journal, other):
    await sending(journal)
    learned = evidence(
        AttemptOutcome.ACCEPTED,
        after(1.000001),
        status=202,
        task_id="task/ü?1",
        cause="it said “yes”\n\U0001f6a2",
        body=b"\x00\xff not JSON",
        extra={"points": 15, "nested": {"list": [1, 2.5, None, True, "ü"]}, "big": 2**80, "": "\ud800"},
        answered=True,
    )
    await journal.settle(ref_of(), 1, learned)
    found = (await other.get(ref_of(), NOW)).attempts[0].evidence
    assert found == learned
    assert (found.body, found.extra) == (learned.body, learned.extra)


# -- deadlines ---------------------------------------------------------------------------------------------------------


async def test_an_attempt_is_uncertain_after_its_deadline(journal, other):
    await sending(journal)
    assert (await journal.get(ref_of(), NOW + DEADLINE)).state is OrderState.SENDING

    now = NOW + DEADLINE + timedelta(microseconds=1)
    expired = await journal.get(ref_of(), now)

    assert expired.state is OrderState.UNCERTAIN
    assert [n for n, _ in expired.found_uncertain(now)] == [1]
    assert [*(await other.get(ref_of(), after(9999))).found_uncertain(after(9999))] == []
    assert await other.get(ref_of(), NOW) == expired
    assert await other.get(ref_of(), after(9999)) == expired


async def test_a_list_applies_the_deadlines(journal, other):
    await sending(journal, "a")
    await sending(journal, "b", now=after(100))
    listed = await journal.list(SERVICE, ACCOUNT, after(140))
    assert [order.state for order in listed] == [OrderState.UNCERTAIN, OrderState.SENDING]
    assert await other.list(SERVICE, ACCOUNT, NOW) == listed


async def test_a_begin_that_is_refused_records_that_a_deadline_has_passed(journal, other):
    await sending(journal)
    with pytest.raises(OrderChanged) as answer:
        await journal.begin(permission(now=after(140)))
    assert answer.value.order.state is OrderState.UNCERTAIN
    assert await other.get(ref_of(), NOW) == answer.value.order


# -- the rolling limit -------------------------------------------------------------------------------------------------


async def test_all_users_of_a_journal_share_the_limit(journal, other):
    for number in range(6):
        await journal.intend(order_of(f"order-{number}"))
    begins = [one.begin(permission(f"order-{n}", limit=4)) for n, one in enumerate([journal, other] * 3)]
    answers = await asyncio.gather(*begins, return_exceptions=True)
    assert [type(answer) for answer in answers].count(Attempt) == 4
    turns = [answer.turn for answer in answers if isinstance(answer, MustWait)]
    assert turns == [Turn(0, pytest.approx(60.1))] * 2


async def test_nothing_is_written_without_a_free_slot(journal, other):
    await sending(journal, "a")
    await journal.intend(order_of("b"))
    with pytest.raises(MustWait):
        await other.begin(permission("b", limit=1))
    assert (await journal.get(ref_of("b"), NOW)).attempts == ()


async def test_free_slots_are_counted(journal, other):
    assert await other.turn(SERVICE, ACCOUNT, Pacing(limit=3), NOW) == Turn(3, 0.0)
    await sending(journal)
    assert await other.turn(SERVICE, ACCOUNT, Pacing(limit=3), NOW) == Turn(2, 0.0)


async def test_a_create_holds_its_slot_for_a_window_after_the_response(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, accepted(at=after(30)))
    held = await other.turn(SERVICE, ACCOUNT, ONE, after(90))
    assert held == Turn(0, pytest.approx(0.1))
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(90.1)) == Turn(1, 0.0)


async def test_a_create_without_a_response_holds_its_slot_for_a_window_after_its_deadline(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain(after(30)))
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(30)) == Turn(0, pytest.approx(160.1))
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(190.1)) == Turn(1, 0.0)


async def test_the_slot_of_a_create_in_progress_can_be_free_a_window_from_now(journal, other):
    await sending(journal)
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(30)) == Turn(0, pytest.approx(60.1))
    assert (await other.turn(SERVICE, ACCOUNT, ONE, after(190))).free == 0
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(190.1)) == Turn(1, 0.0)


async def test_a_response_after_the_deadline_holds_the_slot_for_a_window(journal, other):
    await sending(journal)
    await journal.get(ref_of(), after(140))
    await journal.settle(ref_of(), 1, accepted(at=after(200)))
    assert (await other.turn(SERVICE, ACCOUNT, ONE, after(260))).free == 0
    assert (await other.turn(SERVICE, ACCOUNT, ONE, after(260.1))).free == 1


async def test_after_the_clock_was_set_back_a_slot_is_held_for_at_most_a_window(journal, other):
    await sending(journal, "answered", now=after(86400))
    await journal.settle(ref_of("answered"), 1, accepted(at=after(86400)))
    assert (await other.turn(SERVICE, ACCOUNT, ONE, NOW)).wait == pytest.approx(60.1)
    assert (await journal.turn(SERVICE, ACCOUNT, ONE, after(60))).free == 0
    assert (await journal.turn(SERVICE, ACCOUNT, ONE, after(60.2))).free == 1
    await other.begin(await intended(other, "next", now=after(60.2)))


async def test_after_the_clock_was_set_back_a_create_without_a_response_holds_its_slot_until_after_its_time_limit(
    journal, other
):
    await sending(journal, "lost", now=after(86400))
    await journal.settle(ref_of("lost"), 1, uncertain(after(86460)))
    with pytest.raises(MustWait) as answer:
        await other.begin(await intended(other, "next", now=NOW, limit=1))
    assert answer.value.turn == Turn(0, pytest.approx(DEADLINE.total_seconds() + 60.1))
    assert (await journal.turn(SERVICE, ACCOUNT, ONE, after(DEADLINE.total_seconds() + 60))).free == 0
    assert (await journal.turn(SERVICE, ACCOUNT, ONE, after(DEADLINE.total_seconds() + 60.2))).free == 1


async def test_a_caller_with_a_slightly_older_time_frees_no_slot_too_soon(journal, other):
    await sending(journal, "answered")
    await journal.settle(ref_of("answered"), 1, accepted(at=after(30)))
    assert (await other.turn(SERVICE, ACCOUNT, ONE, NOW)).free == 0
    assert (await journal.turn(SERVICE, ACCOUNT, ONE, after(90))).free == 0
    assert (await journal.turn(SERVICE, ACCOUNT, ONE, after(90.2))).free == 1


async def test_an_attempt_that_was_not_sent_holds_no_slot(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, evidence(AttemptOutcome.NOT_SENT))
    assert await other.turn(SERVICE, ACCOUNT, ONE, NOW) == Turn(1, 0.0)


async def test_accounts_and_services_have_separate_slots(journal, other):
    await sending(journal)
    assert (await other.turn(SERVICE, "another", ONE, NOW)).free == 1
    assert (await other.turn("https://another", ACCOUNT, ONE, NOW)).free == 1


async def test_an_attempt_that_may_have_been_sent_already_is_recorded_without_a_slot(journal, other):
    await sending(journal, "a")
    await journal.settle(ref_of("a"), 1, rejected(retry_at=after(60)))
    forced = evolve(await intended(other, "b", now=after(1), limit=1), pacing=None)
    await other.begin(forced)
    assert (await journal.turn(SERVICE, ACCOUNT, Pacing(limit=3), after(60.2))).free == 2


# -- the pause after a 429 ---------------------------------------------------------------------------------------------


async def paused_until(journal: Journal, retry_at: datetime, *, order_id: str = "o", at: datetime = NOW) -> None:
    """Record that the service answered a create with 429."""
    attempt = await sending(journal, order_id, now=at)
    await journal.settle(ref_of(order_id), attempt.n, rejected(at, retry_at=retry_at))


async def test_no_create_of_the_account_starts_before_the_retry_after_of_a_429(journal, other):
    await paused_until(journal, after(7))
    next_one = await intended(other, "next", now=after(3))

    assert await other.turn(SERVICE, ACCOUNT, Pacing(), after(3)) == Turn(0, pytest.approx(4.1), is_paused=True)
    with pytest.raises(MustWait) as answer:
        await other.begin(next_one)
    assert answer.value.turn == Turn(0, pytest.approx(4.1), is_paused=True)
    assert (await other.get(ref_of("next"), after(7))).attempts == ()

    assert await journal.turn(SERVICE, ACCOUNT, Pacing(), after(7.1)) == Turn(99, 0.0)
    await journal.begin(evolve(next_one, now=after(7.1)))


async def test_the_end_of_the_pause_is_stored_with_the_evidence(journal, other):
    await paused_until(journal, after(7))
    found = await other.get(ref_of(), after(1))
    assert found.attempts[0].evidence == rejected(retry_at=after(7))


async def test_the_pause_that_ends_last_counts(journal, other):
    ends = {"a": 5, "b": 60, "c": 9}
    for order_id in ends:
        await sending(journal, order_id)
    for order_id, retry_at in ends.items():
        await journal.settle(ref_of(order_id), 1, rejected(retry_at=after(retry_at)))
    assert await other.turn(SERVICE, ACCOUNT, Pacing(), after(8)) == Turn(0, pytest.approx(52.1), is_paused=True)
    assert (await other.turn(SERVICE, ACCOUNT, Pacing(), after(60.1))).free == 100


async def test_of_the_limit_and_a_pause_the_longer_wait_counts(journal, other):
    await paused_until(journal, after(7))
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(1)) == Turn(0, pytest.approx(59.1))
    await paused_until(journal, after(200), order_id="b", at=after(61))
    assert await other.turn(SERVICE, ACCOUNT, ONE, after(61)) == Turn(0, pytest.approx(139.1), is_paused=True)


async def test_a_429_pauses_no_other_account_and_no_other_service(journal, other):
    await paused_until(journal, after(7))
    assert (await other.turn(SERVICE, "another", Pacing(), NOW)).free == 100
    assert (await other.turn("https://another", ACCOUNT, Pacing(), NOW)).free == 100


async def test_after_the_clock_was_set_back_a_pause_of_the_future_is_over(journal, other):
    await paused_until(journal, after(86407), at=after(86400))
    assert (await other.turn(SERVICE, ACCOUNT, Pacing(), NOW)).free == 99
    await paused_until(other, after(7), order_id="b")
    assert (await journal.turn(SERVICE, ACCOUNT, Pacing(), after(3))).wait == pytest.approx(4.1)
    assert (await journal.turn(SERVICE, ACCOUNT, Pacing(), after(7.1))).free == 98


# -- decisions of operators --------------------------------------------------------------------------------------------


def closing(state: OrderState, at: datetime = NOW, **words: str) -> Closing:
    return Closing(state=state, at=at, **{"reason": "", **words})


def adoption(task_id: str = "found", at: datetime = NOW, **words: str) -> Attempt:
    receipt = evidence(AttemptOutcome.ACCEPTED, at, task_id=task_id, cause="adopted")
    return Attempt(n=0, sent_at=at, deadline_at=at, kind="adopt", evidence=receipt, **words)


async def test_an_adopted_task_is_the_receipt_and_the_other_attempts_do_not_change(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain())
    order = await journal.adopt(ref_of(), adoption(by="Ann", reason="same minute"), {OrderState.UNCERTAIN})
    assert order.receipt.task_id == "found"
    assert [(attempt.n, attempt.kind, attempt.by, attempt.reason) for attempt in order.attempts] == [
        (1, "create", "", ""),
        (2, "adopt", "Ann", "same minute"),
    ]
    assert await other.get(ref_of(), NOW) == order


@pytest.mark.parametrize("account", [ACCOUNT, "another"])
async def test_a_task_is_the_receipt_of_only_one_order_of_a_service(journal, other, account):
    owner = order_of("owner", account=account)
    await journal.intend(owner)
    await journal.begin(permission("owner", account=account))
    await journal.settle(owner.ref, 1, accepted("taken"))
    await sending(other)

    found = await other.adopt(ref_of(), adoption("taken"), {OrderState.SENDING})

    assert found.ref == owner.ref
    assert len((await journal.get(ref_of(), NOW)).attempts) == 1


@pytest.mark.parametrize("account", [ACCOUNT, "another"])
async def test_a_receipt_whose_task_another_order_has_is_reported_when_it_is_stored(journal, other, account, caplog):
    first = order_of("first", account=account)
    await journal.intend(first)
    await journal.begin(permission("first", account=account))
    await journal.settle(first.ref, 1, accepted("taken"))
    await sending(other)
    assert not caplog.records

    order = await other.settle(ref_of(), 1, accepted("taken"))

    assert order.receipt.task_id == "taken"
    (told,) = caplog.records
    assert (told.event_name, told.order_id, told.other_order_id) == ("task.shared", "o", "first")


async def test_a_task_that_two_accounts_store_at_once_is_reported_once(journal, other, caplog):
    orders = [order_of(f"o-{number}", account=account) for number in range(20) for account in (ACCOUNT, "another")]
    for order in orders:
        await journal.intend(order)
        await journal.begin(permission(order.order_id, account=order.ref.account))

    await asyncio.gather(
        *(
            (journal if order.ref.account == ACCOUNT else other).settle(order.ref, 1, accepted(order.order_id))
            for order in orders
        )
    )

    assert sorted(told.order_id for told in caplog.records) == sorted({order.order_id for order in orders})


async def test_only_one_of_many_concurrent_adoptions_of_a_task_succeeds(journal, other):
    names = [f"o-{n}" for n in range(8)]
    for name in names:
        await sending(journal, name)
    found = await asyncio.gather(
        *((journal, other)[n % 2].adopt(ref_of(name), adoption(), {OrderState.SENDING}) for n, name in enumerate(names))
    )
    assert len({order.ref for order in found}) == 1
    assert sum(order.receipt is not None for order in await journal.list(SERVICE, ACCOUNT, NOW)) == 1


async def test_a_text_with_nul_is_stored_as_it_is_or_escaped(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, accepted("task\0id"))
    await journal.record(SERVICE, [TaskResult(task_id="task\0id", status="completed", at=NOW)])
    found = await other.get(ref_of(), NOW)
    assert found.receipt.task_id in {"task\0id", "task\\0id"}
    assert found.is_terminal


async def test_the_longest_ids_are_stored(journal, other):
    rng = random.Random(1)  # noqa: S311 - the ids cannot be compressed
    name = "".join(chr(rng.randrange(0x20000, 0x2A6D0)) for _ in range(LONGEST_ORDER_ID))
    ref = ref_of(name, account=name[::-1])
    candidate, task_id = ("".join(rng.choices(ascii_letters, k=LONGEST_TASK_ID)) for _ in range(2))
    await journal.intend(order_of(name, account=ref.account))
    await journal.begin(permission(name, account=ref.account))
    await journal.settle(ref, 1, uncertain(candidates=(candidate,)))
    await journal.confirm(ref, 1, accepted(task_id))
    await journal.record(SERVICE, [TaskResult(task_id=task_id, status="completed", at=NOW)])

    found = await other.get(ref, NOW)
    assert found.receipt.task_id == task_id
    assert found.is_terminal


async def test_an_adoption_holds_no_slot(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, evidence(AttemptOutcome.NOT_SENT))
    await journal.adopt(ref_of(), adoption(), {OrderState.QUEUED})
    assert (await other.turn(SERVICE, ACCOUNT, Pacing(limit=1), NOW)).free == 1


async def test_a_closing_is_stored_exactly(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain())
    word = closing(OrderState.ABANDONED, after(5.000001), reason="“lost” / \n", by="Ann")
    closed = await journal.close_order(ref_of(), word, {OrderState.UNCERTAIN})
    assert (closed.state, closed.closing) == (OrderState.ABANDONED, word)
    assert await other.get(ref_of(), NOW) == closed


async def test_the_latest_closing_counts(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain())
    for by in ("Ann", "Bob"):
        word = closing(OrderState.ABANDONED, reason="lost", by=by)
        await journal.close_order(ref_of(), word, {OrderState.UNCERTAIN, OrderState.ABANDONED})
    assert (await other.get(ref_of(), NOW)).closing.by == "Bob"


# -- all orders, the namespace, the end --------------------------------------------------------------------------------


async def test_orders_are_listed_oldest_first_each_in_its_own_state(journal, other):
    for order_id in ("c", "a", "b"):
        await journal.intend(order_of(order_id))
    await journal.intend(order_of("d", account="another"))
    await journal.intend(order_of("e", service="https://another"))
    await journal.begin(permission("a"))
    await journal.close_order(ref_of("b"), closing(OrderState.WITHDRAWN), {OrderState.QUEUED})

    listed = await other.list(SERVICE, ACCOUNT, NOW)

    assert [(order.order_id, order.state) for order in listed] == [
        ("c", OrderState.QUEUED),
        ("a", OrderState.SENDING),
        ("b", OrderState.WITHDRAWN),
    ]
    assert listed == [await other.get(order.ref, NOW) for order in listed]


async def listed_ids(journal: Journal, **which: object) -> list[str]:
    return [order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW, **which)]


async def test_orders_are_listed_by_state(journal, other):
    await journal.intend(order_of("queued"))
    for order_id, outcome in (("accepted", accepted()), ("uncertain", uncertain()), ("rejected", rejected())):
        await sending(journal, order_id)
        await journal.settle(ref_of(order_id), 1, outcome)
    await sending(journal, "not sent")
    await journal.settle(ref_of("not sent"), 1, evidence(AttemptOutcome.NOT_SENT))
    await sending(journal, "expired", now=after(-1000))
    await sending(journal, "abandoned")
    await journal.settle(ref_of("abandoned"), 1, uncertain())
    await journal.close_order(ref_of("abandoned"), closing(OrderState.ABANDONED), {OrderState.UNCERTAIN})
    expected = {
        OrderState.QUEUED: ["queued", "not sent"],
        OrderState.SENDING: [],
        OrderState.ACCEPTED: ["accepted"],
        OrderState.UNCERTAIN: ["uncertain", "expired"],
        OrderState.REJECTED: ["rejected"],
        OrderState.ABANDONED: ["abandoned"],
        OrderState.WITHDRAWN: [],
    }
    assert {state: await listed_ids(other, states={state}) for state in OrderState} == expected
    assert await listed_ids(other, states=[OrderState.ACCEPTED, OrderState.REJECTED]) == ["accepted", "rejected"]
    assert await listed_ids(other, states=[]) == []


async def test_orders_are_listed_by_the_time_of_their_creation(journal, other):
    for order_id, seconds in (("a", 0), ("b", -5), ("c", 5)):
        await journal.intend(evolve(order_of(order_id), created_at=after(seconds)))
    assert await listed_ids(other, since=NOW) == ["a", "c"]
    assert await listed_ids(other, since=after(5.000001)) == []


async def test_pages_of_a_list_follow_each_other_whatever_is_added_meanwhile(journal, other):
    names = [f"order-{number}" for number in range(5)]
    for order_id in names:
        await journal.intend(order_of("elsewhere", account=order_id))
        await journal.intend(order_of(order_id))
    assert await listed_ids(other, limit=2) == names[:2]
    assert await listed_ids(other, newest_first=True, limit=2) == names[:2:-1]
    await journal.intend(order_of("new"))
    assert await listed_ids(other, after=names[1], limit=2) == names[2:4]
    assert await listed_ids(other, after=names[3], limit=9) == [names[4], "new"]
    assert await listed_ids(other, after=names[3], newest_first=True) == names[2::-1]
    assert await listed_ids(other, after="new") == await listed_ids(other, limit=0) == []


async def test_a_page_after_an_unknown_order_is_a_journal_error(journal):
    await journal.intend(order_of("elsewhere", account="another"))
    with pytest.raises(JournalError, match="no order 'elsewhere'"):
        await journal.list(SERVICE, ACCOUNT, NOW, after="elsewhere")


async def test_the_first_namespace_never_changes(journal, other):
    words = [await one.namespace(word) for one, word in ((journal, "first"), (other, "second"), (journal, "third"))]
    assert words == ["first"] * 3


async def test_a_journal_can_be_closed_twice_and_its_orders_remain_readable(journal):
    await sending(journal)
    await journal.aclose()
    await journal.aclose()
    assert (await journal.get(ref_of(), NOW)).state is OrderState.SENDING


async def test_a_cancelled_operation_was_carried_out_completely_or_not_at_all(journal, other):
    operations = [asyncio.ensure_future(journal.intend(order_of(f"order-{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    for operation in operations[::2]:
        operation.cancel()
    results = await asyncio.gather(*operations, return_exceptions=True)
    await journal.aclose()
    listed = {order.order_id for order in await other.list(SERVICE, ACCOUNT, NOW)}
    returned = {order.order_id for order in results if isinstance(order, Order)}
    assert returned <= listed <= {f"order-{n}" for n in range(20)}
    assert len(returned) >= 10


async def intended(journal: Journal, order_id: str, **asked: object) -> Permission:
    """Store an order, and return a permission for it."""
    await journal.intend(order_of(order_id))
    return permission(order_id, **asked)


# -- terminal states ---------------------------------------------------------------------------------------------------


def result(task_id: str = "task-1", status: str = "completed", **facts: object) -> TaskResult:
    return TaskResult(task_id=task_id, status=status, at=after(9), **facts)


async def accept(journal: Journal, order_id: str, task_id: str) -> None:
    await sending(journal, order_id)
    await journal.settle(ref_of(order_id), 1, accepted(task_id))


async def test_a_terminal_state_is_stored_exactly_and_never_changes(journal, other):
    await accept(journal, "o", "task-1")
    said = result(points=15, failure_reason="it was … too dark", status="failed")
    await journal.record(SERVICE, [said])
    await other.record(SERVICE, [result()])
    assert (await other.get(ref_of(), NOW)).results == (said,)


async def test_the_state_of_a_task_without_a_receipt_is_not_stored(journal, other):
    await journal.record(SERVICE, [result()])
    await accept(journal, "o", "task-1")
    assert (await other.get(ref_of(), NOW)).results == ()


async def test_lone_surrogates_and_huge_numbers_do_not_prevent_recording_a_terminal_state(journal, other):
    await accept(journal, "o", "task-1")
    await journal.record(SERVICE, [result(points=10**30, failure_reason="\udc80")])
    assert (await other.get(ref_of(), NOW)).is_terminal


async def get_after_deadline(journal: Journal) -> OrderState:
    return (await journal.get(ref_of("first"), after(500))).state


async def list_last(journal: Journal) -> list[str]:
    return await listed_ids(journal, after="fourth")


async def begin_second(journal: Journal) -> int:
    return (await journal.begin(permission("second"))).n


#: Operations that may have several transactions, with their results.
LONG_OPERATIONS = {
    listed_ids: ["first", "second", "third", "fourth", "fifth"],
    list_last: ["fifth"],
    get_after_deadline: OrderState.UNCERTAIN,
    begin_second: 1,
}


@pytest.mark.parametrize(("operation", "result"), LONG_OPERATIONS.items())
async def test_an_operation_is_completed_and_leaves_a_journal_closed_that_another_client_closes_meanwhile(
    journal, monkeypatch, operation, result
):
    monkeypatch.setattr("vidgen_async.journal.sql.journal.LIST_PAGE", 2)
    await sending(journal, "first")
    for name in ("second", "third", "fourth", "fifth"):
        await journal.intend(order_of(name))

    operating = asyncio.ensure_future(operation(journal))
    await asyncio.sleep(0)
    await journal.aclose()

    assert await operating == result
    assert getattr(journal, "_database", None) is None, "it is closed"


async def test_terminal_orders_are_listed_apart_from_running_ones(journal, other):
    await journal.intend(order_of("queued"))
    await sending(journal, "sending")
    await accept(journal, "ended", "task-1")
    await accept(journal, "running", "task-2")
    await accept(journal, "twice", "task-3")
    await journal.begin(permission("twice", expect_attempt=1, states=frozenset(OrderState)))
    await journal.settle(ref_of("twice"), 2, accepted("task-4", after(1)))
    await journal.intend(order_of("elsewhere", account="another"))
    await journal.record(SERVICE, [result("task-1"), result("task-4", "failed")])

    async def listed(is_terminal: bool | None) -> list[str]:
        return [order.order_id for order in await other.list(SERVICE, ACCOUNT, NOW, is_terminal=is_terminal)]

    assert await listed(None) == ["queued", "sending", "ended", "running", "twice"]
    assert await listed(False) == ["running", "twice"]
    assert await listed(True) == ["ended"]
    await journal.record(SERVICE, [result("task-3")])
    assert await listed(True) == ["ended", "twice"]
    (twice,) = [order for order in await other.list(SERVICE, ACCOUNT, NOW) if order.order_id == "twice"]
    assert [found.task_id for found in twice.results] == ["task-3", "task-4"]


# -- running tasks -----------------------------------------------------------------------------------------------------


async def pages(journal: Journal, *, account: str = ACCOUNT) -> list[list[RunningTask]]:
    found, after = [], 0
    while after is not None:
        page = await journal.running(SERVICE, account, after=after)
        found.append(list(page.tasks))
        after = page.after
    return found


@pytest.fixture
def small_pages(monkeypatch) -> None:
    for module in ("memory", "sql.journal"):
        monkeypatch.setattr(f"vidgen_async.journal.{module}.RUNNING_PAGE", 2)


async def test_every_task_not_known_to_be_terminal_is_running(journal, other):
    await journal.intend(order_of("queued"))
    await sending(journal, "sending")
    await sending(journal, "uncertain")
    await journal.settle(ref_of("uncertain"), 1, uncertain())
    await accept(journal, "ended", "task-1")
    await sending(journal, "twice")
    await journal.settle(ref_of("twice"), 1, uncertain())
    await journal.begin(permission("twice", expect_attempt=1, states=RESENDABLE))
    await journal.settle(ref_of("twice"), 2, accepted("task-2", after(5)))
    await journal.settle(ref_of("twice"), 1, accepted("late", after(7)))
    await journal.intend(order_of("elsewhere", account="another"))
    await journal.begin(permission("elsewhere", account="another"))
    await journal.settle(ref_of("elsewhere", account="another"), 1, accepted("task-3"))
    await journal.record(SERVICE, [result("task-1")])

    assert await pages(other) == [
        [
            RunningTask(task_id="task-2", order_id="twice", accepted_at=after(5)),
            RunningTask(task_id="late", order_id="twice", accepted_at=after(7)),
        ]
    ]
    assert [task.task_id for page in await pages(other, account="another") for task in page] == ["task-3"]
    await journal.record(SERVICE, [result("task-2", "failed")])
    assert [task.task_id for page in await pages(other) for task in page] == ["late"]


async def test_an_adopted_task_is_running(journal, other):
    await sending(journal)
    await journal.settle(ref_of(), 1, uncertain())
    word = Attempt(n=0, sent_at=after(9), deadline_at=after(9), kind="adopt", evidence=accepted("found", after(9)))
    await journal.adopt(ref_of(), word, RESENDABLE)
    assert await pages(other) == [[RunningTask(task_id="found", order_id="o", accepted_at=after(9))]]


@pytest.mark.usefixtures("small_pages")
async def test_running_tasks_are_returned_in_pages_some_of_which_may_be_empty(journal, other):
    for number in range(7):
        await accept(journal, f"order-{number}", f"task-{number}")
    await journal.record(SERVICE, [result("task-2"), result("task-3"), result("task-5")])
    named = [[task.task_id for task in page] for page in await pages(other)]
    assert named == [["task-0", "task-1"], [], ["task-4"], ["task-6"]]


@pytest.mark.usefixtures("small_pages")
async def test_a_task_accepted_between_two_pages_is_on_a_later_one(journal, other):
    for number in range(3):
        await accept(journal, f"order-{number}", f"task-{number}")
    first = await other.running(SERVICE, ACCOUNT)
    await accept(journal, "new", "task-new")
    await journal.record(SERVICE, [result("task-0"), result("task-2")])
    second = await other.running(SERVICE, ACCOUNT, after=first.after)
    assert [task.task_id for task in second.tasks] == ["task-new"]


async def test_a_shard_has_the_same_tasks_in_every_journal_and_process(journal, other):
    for number, task_id in enumerate([*(f"task-{number}" for number in range(6)), "größe", "with \0", "\udc80"]):
        await accept(journal, str(number), task_id)

    async def share(index: int, count: int) -> str:
        page = await other.running(SERVICE, ACCOUNT, shard=(index, count))
        return "".join(task.order_id for task in page.tasks)

    assert [await share(index, 3) for index in range(3)] == ["0378", "12", "456"]
    assert await share(0, 1) == "012345678"


@pytest.mark.usefixtures("small_pages")
async def test_pages_of_a_shard_lead_to_the_same_end_as_those_of_all_tasks(journal, other):
    for number in range(9):
        await accept(journal, f"order-{number}", f"task-{number}")
    found = []
    for index in range(2):
        after = 0
        while after is not None:
            page = await other.running(SERVICE, ACCOUNT, after=after, shard=(index, 2))
            found += [task.task_id for task in page.tasks]
            after = page.after
    assert sorted(found) == [f"task-{number}" for number in range(9)]


async def test_the_terminal_state_of_a_task_applies_to_each_order_that_has_it(journal, other):
    await accept(journal, "o", "task-1")
    await journal.record(SERVICE, [result()])
    await accept(other, "p", "task-1")
    assert (await journal.get(ref_of("p"), NOW)).is_terminal
    assert await listed_ids(journal, is_terminal=True) == ["o", "p"]
    assert await listed_ids(journal, is_terminal=False) == []
    assert await other.owner(ref_of("p"), "task-1") == ref_of("o")
    assert await other.owner(ref_of("o"), "task-2") is None


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_a_journal_can_be_closed_after_the_default_executor_of_the_loop_was_shut_down(journal):
    await journal.intend(order_of())
    await asyncio.get_running_loop().shutdown_default_executor()
    await journal.aclose()
    assert (await journal.get(ref_of(), NOW)).order_id == "o"
