"""A journal that fails: no POST without its word, and no receipt is lost for want of it."""

import asyncio

import pytest

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import (
    JournalError,
    OrderStateError,
    ReceiptNotStoredError,
    RejectedError,
    UncertainCreateError,
)
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse
from vidgen_async.types.limits import Turn
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import VideoTask


class Failing(MemoryJournal):
    """Fails the named operations so often."""

    def __init__(self, **failures: int) -> None:
        super().__init__()
        self.failures = failures

    def _maybe_fail(self, operation: str) -> None:
        if self.failures.get(operation, 0) > 0:
            self.failures[operation] -= 1
            message = "the disk is full"
            raise JournalError(message)

    async def intend(self, order):
        self._maybe_fail("intend")
        return await super().intend(order)

    async def turn(self, *arguments):
        self._maybe_fail("turn")
        return await super().turn(*arguments)

    async def begin(self, permission):
        self._maybe_fail("begin")
        return await super().begin(permission)

    async def settle(self, ref, n, evidence):
        self._maybe_fail("settle")
        return await super().settle(ref, n, evidence)


@pytest.mark.parametrize("answer", ["order", "turn", None])
async def test_an_answer_of_a_journal_that_is_no_attempt_permits_no_post(make_orders, service, answer):
    class Old(MemoryJournal):
        """Returns what keeps an attempt from beginning, as journals written for 0.1.0 do."""

        async def begin(self, permission):
            return {"order": self._orders[permission.ref], "turn": Turn(0, 1.0)}.get(answer)

    with pytest.raises(JournalError, match="not an Attempt"):
        await make_orders(on=Old()).create(REQUEST, order_id="o")
    assert service.posts == []


@pytest.mark.parametrize("time_limit", [30, 90])
async def test_a_write_that_took_its_whole_time_limit_to_fail_is_repeated(make_orders, service, clock, time_limit):
    class Hanging(Failing):
        async def settle(self, ref, n, evidence):
            if self.failures["settle"]:
                await clock.sleep(time_limit)
            return await super().settle(ref, n, evidence)

    orders = make_orders(on=Hanging(settle=1))
    assert (await orders.create(REQUEST, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 1


async def test_a_receipt_that_could_not_be_written_goes_on_record_as_soon_as_the_journal_takes_it(
    make_orders, service, clock
):
    journal = Failing(settle=9)
    orders = make_orders(on=journal)
    with pytest.raises(ReceiptNotStoredError):
        await orders.create(REQUEST, order_id="o")
    elsewhere = make_orders(on=journal)
    assert (await elsewhere.get("o")).state is OrderState.SENDING
    assert (await orders.get("o")).state is OrderState.ACCEPTED
    assert [order.order_id for order in await orders.list(["accepted"], limit=1)] == ["o"]
    assert await orders.list(["sending"]) == []

    await clock.sleep(30)

    assert (await elsewhere.get("o")).receipt.task_id == "task-1"
    assert (await orders.create(REQUEST, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 1


async def test_whatever_a_journal_of_ones_own_raises_a_receipt_in_hand_is_told_and_written_later(
    make_orders, service, clock
):
    class Own(Failing):
        def _maybe_fail(self, operation: str) -> None:
            if self.failures.get(operation, 0) > 0:
                self.failures[operation] -= 1
                message = "connection to postgres://ann:hunter2@db lost"
                raise ConnectionError(message)

        async def owner(self, ref, task_id):
            raise NotImplementedError

    journal = Own(settle=7)
    orders = make_orders(on=journal)
    with pytest.raises(ReceiptNotStoredError, match="task-1") as caught:
        await orders.create(REQUEST, order_id="o")
    assert "ConnectionError" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    await clock.sleep(10)
    assert (await make_orders(on=journal).get("o")).receipt.task_id == "task-1"


async def test_a_close_that_is_cancelled_leaves_nothing_running(make_orders, clock):
    orders = make_orders(on=Failing(settle=10**6))
    before = asyncio.all_tasks()
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    with pytest.raises(ReceiptNotStoredError):
        await caller
    orders.results.record_end("task-1", VideoTask(id="task-1", status="completed"))
    for _ in range(3):
        closing = asyncio.ensure_future(orders.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
    await clock.sleep(1)
    assert {task.get_name() for task in asyncio.all_tasks() - before} <= {"virtual clock"}


class Damaged(MemoryJournal):
    """Fails to settle until it is repaired, and the order "damaged" for ever."""

    is_locked = True

    async def settle(self, ref, n, evidence):
        if self.is_locked or ref.order_id == "damaged":
            message = "no"
            raise JournalError(message)
        return await super().settle(ref, n, evidence)


async def create_unwritten(orders, service, *order_ids):
    """Accept these orders, and fail to store that."""
    service.answers(*(lambda n=n: accepted(f"task-{n}") for n in range(len(order_ids))))
    creates = (orders.create(REQUEST, order_id=order_id) for order_id in order_ids)
    results = await asyncio.gather(*creates, return_exceptions=True)
    assert [type(result) for result in results] == [ReceiptNotStoredError] * len(order_ids)


@pytest.mark.parametrize("is_closed", [False, True])
async def test_an_outcome_that_can_never_be_written_prevents_no_other_one(
    make_orders, service, clock, caplog, is_closed
):
    orders = make_orders(on=(journal := Damaged()))
    await create_unwritten(orders, service, "damaged", "o")
    journal.is_locked = False
    caplog.clear()
    await (orders.aclose() if is_closed else clock.sleep(120))
    assert (await make_orders(on=journal).get("o")).state is OrderState.ACCEPTED
    failures = [record.order_id for record in caplog.records if record.event_name == "order.write_failed"]
    assert failures == ["damaged"] * is_closed


async def test_a_close_stops_writing_when_writes_take_long_to_fail(make_orders, service, clock, caplog):
    class Slow(Damaged):
        seconds = 0.0

        async def settle(self, ref, n, evidence):
            await clock.sleep(self.seconds)
            return await super().settle(ref, n, evidence)

    orders = make_orders(on=(journal := Slow()))
    await create_unwritten(orders, service, "a", "b", "c")
    journal.seconds, began_at = 30.0, clock.now()
    caplog.clear()
    await orders.aclose()
    assert clock.now() - began_at == 30.0
    assert [record.order_id for record in caplog.records if record.event_name == "order.write_failed"] == [*"abc"]


async def test_what_a_journal_of_ones_own_says_shows_no_key_in_the_log(make_orders, clock, caplog):
    class Talkative(MemoryJournal):
        async def record(self, service, results):
            message = "401 for Authorization key-never-shown"
            raise RuntimeError(message)

    orders = make_orders(on=Talkative())
    orders.results.record_end("task-1", VideoTask(id="task-1", status="completed"))
    await orders.aclose()
    assert caplog.records
    assert "key-never-shown" not in caplog.text


@pytest.mark.parametrize("task_id", ["..", " ", "t\\ud800x", "x" * 501, "ü" * 251], ids=lambda text: text[:9])
async def test_an_id_that_nobody_could_ask_for_or_store_is_no_receipt(make_orders, service, task_id):
    service.answers(lambda: BufferedResponse(202, f'{{"id": "{task_id}"}}'.encode()))
    with pytest.raises(UncertainCreateError, match="has no task id"):
        await make_orders().create(REQUEST, order_id="o")
    (attempt,) = (await make_orders().get("o")).attempts
    assert task_id.encode() in attempt.evidence.body


async def test_an_order_whose_receipt_is_not_on_record_yet_is_not_sent_again(make_orders, service):
    orders = make_orders(on=Failing(settle=8))
    for _ in range(2):
        with pytest.raises(ReceiptNotStoredError, match="task-1"):
            await orders.create(REQUEST, order_id="o")
    assert (await orders.create(REQUEST, order_id="o")).task_id == "task-1"
    with pytest.raises(OrderStateError, match="it is accepted"):
        await orders.resend("o", expect_attempt=1, reason="again")
    assert len(service.posts) == 1


async def test_a_receipt_that_is_given_up_is_in_the_log(make_orders, service, caplog):
    orders = make_orders(on=Failing(settle=10**6))
    with pytest.raises(ReceiptNotStoredError):
        await orders.create(REQUEST, order_id="o")
    first, *others = [record.levelname for record in caplog.records if record.event_name == "order.write_failed"]
    assert (first, {*others}) == ("ERROR", {"WARNING"})
    caplog.clear()
    await orders.aclose()
    (last,) = [record for record in caplog.records if record.event_name == "order.write_failed"]
    assert (last.order_id, last.task_id, last.levelname) == ("o", "task-1", "ERROR")


async def test_a_refusal_that_cannot_be_written_is_told_and_then_written(make_orders, service, clock):
    service.answers(lambda: refused(402), accepted)
    journal = Failing(settle=8)
    orders = make_orders(on=journal)
    with pytest.raises(RejectedError):
        await orders.create(REQUEST, order_id="o")
    assert (await make_orders(on=journal).get("o")).state is OrderState.SENDING

    with pytest.raises(JournalError, match="disk is full"):
        await orders.create(REQUEST, order_id="o")
    assert len(service.posts) == 1

    assert (await orders.create(REQUEST, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 2


async def test_a_resend_first_writes_what_is_known_of_the_attempt_before_it(make_orders, service, clock):
    service.answers(lambda: refused(503), accepted)
    orders = make_orders(on=Failing(settle=7))
    with pytest.raises(UncertainCreateError):
        await orders.create(REQUEST, order_id="o")
    began_at = clock.now()
    assert (await orders.resend("o", expect_attempt=1, reason="again")).task_id == "task-1"
    assert clock.now() == began_at
    assert len(service.posts) == 2


async def test_a_task_that_is_the_receipt_of_two_orders_is_reported(make_orders, caplog):
    orders = make_orders()
    await orders.create(REQUEST, order_id="o")
    assert "task.shared" not in [record.event_name for record in caplog.records]
    await orders.create(REQUEST, order_id="p")
    (told,) = [record for record in caplog.records if record.event_name == "task.shared"]
    assert (told.order_id, told.other_order_id, told.task_id) == ("p", "o", "task-1")


async def test_a_worker_that_somebody_else_cancels_leaves_no_caller_hanging(make_orders, service, clock):
    service.hangs()
    orders = make_orders()
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    with clock.hold():
        for _ in range(20):
            await asyncio.sleep(0)
        next(worker for worker in asyncio.all_tasks() if worker.get_name() == "order o").cancel()
        (result,) = await asyncio.gather(caller, return_exceptions=True)
    assert "may exist" in str(result)
    assert accepted().status == 202


async def test_a_hook_that_is_cancelled_takes_no_other_hook_along(make_orders):
    async def cancelled(_):
        sleeper = asyncio.ensure_future(asyncio.Event().wait())
        sleeper.cancel()
        await sleeper

    heard = []
    orders = make_orders()
    receipts = await asyncio.gather(
        orders.create(REQUEST, order_id="o", on_receipt=cancelled),
        orders.create(REQUEST, order_id="o", on_receipt=heard.append),
    )
    assert heard == [receipts[1]] == [receipts[0]]


async def test_a_close_still_ends_when_the_journal_cannot_be_asked(make_orders, service, clock):
    class Silent(MemoryJournal):
        is_broken = False

        async def get(self, ref, now):
            if self.is_broken:
                message = "the disk is gone"
                raise JournalError(message)
            return await super().get(ref, now)

    service.hangs()
    orders = make_orders(on=(journal := Silent()))
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    journal.is_broken = True
    await orders.aclose(grace=0.1)
    with pytest.raises(UncertainCreateError):
        await caller


async def test_an_answer_that_came_whole_is_written_although_the_client_is_closed_before_the_connection_is(
    make_orders, service, journal, clock
):
    async def slow_to_close() -> None:
        await clock.sleep(5)

    service.answers(lambda: BufferedResponse(202, b'{"id": "task-1"}', on_close=slow_to_close))
    orders = make_orders()
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    await orders.aclose(grace=0.1)
    assert (await caller).task_id == "task-1"
    assert (await make_orders().get("o")).state is OrderState.ACCEPTED
