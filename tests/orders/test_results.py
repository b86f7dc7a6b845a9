"""How the tasks of orders ended goes on record, and nobody waits for that."""

import asyncio
import logging
from contextlib import ExitStack, suppress

import pytest

from tests.orders.conftest import REQUEST
from vidgen_async.errors import InvalidRequestError, JournalError
from vidgen_async.journal import MemoryJournal
from vidgen_async.types.resources import VideoTask


class Broken(MemoryJournal):
    """Refuses results so often, and counts its commits."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures
        self.commits = 0

    async def record(self, service, results):
        self.commits += 1
        if self.failures > 0:
            self.failures -= 1
            message = "the disk is full"
            raise JournalError(message)
        await super().record(service, results)


@pytest.fixture
def journal() -> Broken:
    return Broken()


def ended(status: str = "completed", **facts: object) -> VideoTask:
    return VideoTask(id="task-1", status=status, points=15, **facts)


async def test_what_was_seen_first_stays(orders, clock):
    await orders.create(REQUEST, order_id="o")
    orders.results.record_end("task-1", ended())
    await clock.sleep(1)
    orders.results.record_end("task-1", ended("failed"))
    await clock.sleep(1)
    assert [result.status for result in (await orders.get("o")).results] == ["completed"]


async def test_a_task_that_still_runs_or_is_no_receipt_is_let_pass(orders, journal, clock):
    await orders.create(REQUEST, order_id="o")
    orders.results.record_end("task-1", VideoTask(id="task-1", status="running"))
    orders.results.record_end("task-2", VideoTask(id="task-2", status="completed"))
    await clock.sleep(1)
    assert (await orders.get("o")).results == ()
    assert not (await orders.get("o")).is_terminal


async def test_what_somebody_holds_counts_as_seen_when_they_say_so(orders, clock):
    await orders.create(REQUEST, order_id="o")
    with orders.results.hold(["task-1"]) as saw:
        with orders.results.hold(["task-1"]):
            pass
        orders.results.record_end("task-1", ended())
        await clock.sleep(1)
        assert not (await orders.get("o")).is_terminal
        saw("task-1", ended())
        await clock.sleep(1)
        assert (await orders.get("o")).is_terminal


class TestHandling:
    """A block in which an end does not count as seen: it does when the block comes through."""

    @pytest.fixture
    async def receipt(self, orders):
        return await orders.create(REQUEST, order_id="o")

    @pytest.mark.parametrize(
        "error", [OSError("the disk is full"), asyncio.CancelledError()], ids=["raises", "cancelled"]
    )
    async def test_an_end_does_not_count_as_seen_when_the_block_raises(self, orders, clock, receipt, error):
        with pytest.raises(type(error)), orders.handling(receipt):  # noqa: PT012 - the block is what is tested
            orders.results.record_end("task-1", ended())
            raise error
        await clock.sleep(1)
        assert not (await orders.get("o")).is_terminal
        assert [task.task_id async for task in orders.running()] == ["task-1"]

        with orders.handling(receipt):
            pass
        await clock.sleep(1)
        assert not (await orders.get("o")).is_terminal

    async def test_a_block_in_which_no_end_was_seen_says_nothing(self, orders, clock, receipt):
        with orders.handling("task-1", "task-2"):
            pass
        await clock.sleep(1)
        assert not (await orders.get("o")).is_terminal
        orders.results.record_end("task-1", ended())
        await clock.sleep(1)
        assert (await orders.get("o")).is_terminal

    async def test_of_two_blocks_both_must_come_through(self, orders, clock, receipt):
        with pytest.raises(OSError), orders.handling(receipt):  # noqa: PT011, PT012 - whichever, after the inner block
            with orders.handling(receipt):
                orders.results.record_end("task-1", ended())
            await clock.sleep(1)
            assert not (await orders.get("o")).is_terminal
            raise OSError
        await clock.sleep(1)
        assert not (await orders.get("o")).is_terminal

        with orders.handling(receipt), orders.handling(receipt):
            orders.results.record_end("task-1", ended())
        await clock.sleep(1)
        assert (await orders.get("o")).is_terminal

    async def test_who_goes_on_elsewhere_does_not_overrule_a_block_that_raised(self, orders, clock, receipt):
        with orders.results.hold(["task-1"]) as saw:
            orders.results.record_end("task-1", ended())
            with suppress(OSError), orders.handling(receipt):
                raise OSError
            saw("task-1", ended())
            await clock.sleep(1)
            assert not (await orders.get("o")).is_terminal

            with orders.handling(receipt):  # another try
                pass
            await clock.sleep(1)
            assert (await orders.get("o")).is_terminal

    @pytest.mark.parametrize("comes_through", [True, False])
    async def test_a_block_that_is_still_under_way_is_waited_for(self, orders, clock, receipt, comes_through):
        block = ExitStack()
        with orders.results.hold(["task-1"]) as saw:
            orders.results.record_end("task-1", ended())
            block.enter_context(orders.handling(receipt))
            saw("task-1", ended())
        await clock.sleep(1)
        assert not (await orders.get("o")).is_terminal

        with suppress(OSError), block:
            if not comes_through:
                raise OSError
        await clock.sleep(1)
        assert (await orders.get("o")).is_terminal is comes_through

    async def test_what_is_no_task_is_refused(self, orders):
        with pytest.raises(InvalidRequestError, match="a task id must be text"):
            orders.handling(" ")


async def test_many_are_written_in_few_commits(make_orders, service, journal, clock):
    orders = make_orders()
    for number in range(1200):
        orders.results.record_end(f"task-{number}", ended())
    await clock.sleep(1)
    assert journal.commits == 3


async def test_results_are_written_again_until_the_journal_accepts_them(make_orders, clock, caplog):
    class Failing(Broken):
        async def record(self, service, results):
            times.append(clock.now())
            self.failures = len(times) in {1, 2, 3, 5}
            if len(times) == 4:
                orders.results.record_end("task-2", ended())  # while the others are written
            await super().record(service, results)

    times = []
    orders = make_orders(on=(journal := Failing()))
    await orders.create(REQUEST, order_id="o")
    orders.results.record_end("task-1", ended())
    with caplog.at_level("INFO"):
        await clock.sleep(120)
    assert (await orders.get("o")).is_terminal
    assert (times, journal.commits) == ([0.0, 0.5, 1.5, 3.5, 3.5, 4.0], 6)
    levels = [record.levelname for record in caplog.records if record.event_name == "results.write_failed"]
    assert levels == ["WARNING", "INFO", "INFO", "WARNING"]


async def test_a_close_writes_the_rest_and_what_is_recorded_meanwhile(make_orders, journal, monkeypatch):
    async def record(service, results):
        if not written:
            orders.results.record_end("task-2", ended())
        written.extend(result.task_id for result in results)

    written = []
    monkeypatch.setattr(journal, "record", record)
    orders = make_orders()
    orders.results.record_end("task-1", ended())
    await orders.aclose()
    assert written == ["task-1", "task-2"]
    orders.results.record_end("task-3", ended())
    await orders.aclose()
    assert written == ["task-1", "task-2"]


async def test_a_close_with_a_journal_that_fails_ends_and_says_so(make_orders, caplog):
    orders = make_orders(on=Broken(failures=10**6))
    orders.results.record_end("task-1", ended())
    await orders.aclose()
    assert [record.count for record in caplog.records if record.event_name == "results.write_failed"][-1] == 1


class BrokenHandler(logging.Handler):
    """Raises, as a handler of the standard library does whose stream and whose stderr were closed."""

    def emit(self, record):
        message = "I/O operation on closed file."
        raise ValueError(message)


async def test_a_log_handler_that_raises_costs_no_receipt(orders):
    logger, handler = logging.getLogger("vidgen_async"), BrokenHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        receipt = await orders.create(REQUEST, order_id="o")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)

    assert receipt.task_id == "task-1"
    assert (await orders.get("o")).state == "accepted"
