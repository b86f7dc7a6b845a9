"""An attempt that the journal did not confirm was not sent: the process that knows this settles it, by its mark."""

import asyncio

import pytest

from vidgen_async.errors import ConnectionLostError, JournalError, UncertainCreateError
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import FakeTransport
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import VideoRequest

VIDEO = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)


class Unconfirmed(MemoryJournal):
    """The answer to the first commit of an attempt is lost: it was carried out, or not, or is visible only later."""

    def __init__(self, commit: str) -> None:
        super().__init__()
        self.commit = commit
        self.is_down = False
        self.invisible = None

    async def begin(self, permission):
        if not self.commit:
            return await super().begin(permission)
        before = self._orders[permission.ref]
        if self.commit != "never":
            await super().begin(permission)
        if self.commit == "later":
            self.invisible, self._orders[permission.ref] = self._orders[permission.ref], before
        self.commit = ""
        message = "the connection was lost during a commit"
        raise JournalError(message, may_be_temporary=True, may_be_committed=True)

    async def settle_mark(self, ref, mark, evidence):
        self._check()
        return await super().settle_mark(ref, mark, evidence)

    async def get(self, ref, now):
        self._check()
        return await super().get(ref, now)

    def _check(self) -> None:
        if self.is_down:
            message = "the database cannot be reached"
            raise JournalError(message, may_be_temporary=True)

    def show(self) -> None:
        """Make the commit visible."""
        self._orders[self.invisible.ref] = self.invisible


async def fail(orders) -> None:
    with pytest.raises(JournalError, match="lost during a commit"):
        await orders.create(VIDEO, order_id="o")


@pytest.mark.parametrize("commit", ["at once", "never", "later"])
async def test_an_order_whose_attempt_was_not_confirmed_is_sent_at_once_by_the_next_create(
    make_orders, service, clock, commit
):
    journal = Unconfirmed(commit)
    orders = make_orders(on=journal)
    await fail(orders)
    assert service.posts == []
    if commit == "later":
        await clock.sleep(10)  # what was written meanwhile found no attempt
        journal.show()

    started_at = clock.now()
    assert (await orders.create(VIDEO, order_id="o")).task_id == "task-1"

    assert clock.now() == started_at
    assert len(service.posts) == 1
    outcomes = [str(attempt.outcome) for attempt in (await orders.get("o")).attempts]
    assert outcomes == (["accepted"] if commit == "never" else ["not_sent", "accepted"])


async def test_other_processes_learn_of_it_as_soon_as_the_journal_answers(make_orders, service, clock):
    journal = Unconfirmed("at once")
    orders, others = make_orders(on=journal), make_orders(on=journal)
    await fail(orders)
    journal.is_down = True
    await clock.sleep(20)
    journal.is_down = False
    assert (await others.get("o")).state is OrderState.SENDING
    await clock.sleep(60)

    assert (await others.get("o")).state is OrderState.QUEUED
    assert "nothing was sent" in (await others.get("o")).attempts[0].evidence.cause
    assert (await others.create(VIDEO, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 1


async def test_it_is_written_when_the_client_is_closed(make_orders, service):
    journal = Unconfirmed("at once")
    orders = make_orders(on=journal)
    await fail(orders)
    await orders.aclose()

    assert (await make_orders(on=journal).get("o")).state is OrderState.QUEUED


async def test_nothing_is_sent_while_the_journal_cannot_be_told(make_orders, service):
    journal = Unconfirmed("at once")
    orders = make_orders(on=journal)
    await fail(orders)
    journal.is_down = True

    with pytest.raises(JournalError, match="cannot be reached"):
        await orders.create(VIDEO, order_id="o")
    assert service.posts == []


async def test_the_attempt_of_another_process_with_the_same_number_is_not_touched(make_orders, service, clock):
    async def lose(_):
        message = "lost"
        raise ConnectionLostError(message)

    journal = Unconfirmed("never")
    orders, others = make_orders(on=journal), make_orders(on=journal)
    await fail(orders)
    service.script[:] = [lose]
    with pytest.raises(UncertainCreateError):
        await others.create(VIDEO, order_id="o")
    await clock.sleep(60)

    for client in (orders, others, make_orders(on=journal)):
        with pytest.raises(UncertainCreateError):
            await client.create(VIDEO, order_id="o")
        assert (await client.get("o")).state is OrderState.UNCERTAIN
    assert len(service.posts) == 1


async def test_an_attempt_that_expired_before_its_journal_answered_is_settled_too(make_orders, service, clock):
    journal = Unconfirmed("at once")
    orders = make_orders(on=journal)
    await fail(orders)
    journal.is_down = True
    await clock.sleep(1000)
    journal.is_down = False
    assert (await make_orders(on=journal).get("o")).state is OrderState.UNCERTAIN
    await clock.sleep(60)

    assert (await make_orders(on=journal).create(VIDEO, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 1


async def test_an_unproven_send_whose_attempt_was_not_confirmed_is_never_settled_as_not_sent(
    make_orders, service, clock
):
    async def connect(_):
        await service.transport.send(_)
        message = "lost"
        raise ConnectionLostError(message)

    journal = Unconfirmed("at once")
    orders = make_orders(on=journal, transport=FakeTransport(service.transport._handler, on_connect=connect))
    with pytest.raises(UncertainCreateError, match="lost during a commit"):
        await orders.create(VIDEO, order_id="o")
    await orders.aclose()
    await clock.sleep(1000)

    with pytest.raises(UncertainCreateError):
        await make_orders(on=journal).create(VIDEO, order_id="o")
    assert len(service.posts) == 1


async def test_the_list_of_orders_has_what_is_known(make_orders):
    journal = Unconfirmed("at once")
    orders = make_orders(on=journal)
    await fail(orders)

    assert [order.state for order in await orders.list("queued")] == [OrderState.QUEUED]
    assert await orders.list("sending") == []
    await asyncio.gather(orders.create(VIDEO, order_id="o"))
