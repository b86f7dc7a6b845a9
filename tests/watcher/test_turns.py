"""However many tasks are added, removed or ended at once: the event loop runs after a few of them."""

import asyncio
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loop_holds import Passes, until
from tests.watcher.conftest import settle
from vidgen_async.clock import LoopClock, VirtualClock, all_in_turns, in_turns
from vidgen_async.errors import ClientStateError, WaitTimeoutError
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher
from vidgen_async.watcher.listeners import AT_ONCE, EXPIRE_AT_ONCE, Polling
from vidgen_async.watcher.schedule import Agenda

MANY = 8 * AT_ONCE
IDS = [f"t-{number}" for number in range(MANY)]
#: In one pass: the tasks of one turn, and the waiters that it wakes.
MOST = 2 * AT_ONCE


class Growth:
    """The maximum change of a number between two passes of the event loop."""

    def __init__(self, number):
        self._number = number
        self._before = number()
        self.most = 0
        self._handle = asyncio.get_running_loop().call_soon(self._note)

    def _note(self):
        now = self._number()
        self.most = max(self.most, abs(now - self._before))
        self._before = now
        self._handle = asyncio.get_running_loop().call_soon(self._note)

    def stop(self):
        self._handle.cancel()
        return self.most


class CallsPerPass:
    """The maximum number of calls of functions in one pass of the event loop, whatever else the machine does."""

    def __init__(self):
        self.most = self._count = 0

    def __enter__(self):
        self._handle = asyncio.get_running_loop().call_soon(self._note)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        self._handle.cancel()

    def _profile(self, _, event, __):
        self._count += event in ("call", "c_call")

    def _note(self):
        self.most, self._count = max(self.most, self._count), 0
        self._handle = asyncio.get_running_loop().call_soon(self._note)


@pytest.fixture
async def watcher(make_watcher):
    return make_watcher(interval=1e6)


async def begun(watcher, timeout=None):
    """A worker that collects the outcomes of all tasks."""

    async def take():
        return [outcome async for outcome in watcher.as_completed(IDS, timeout=timeout)]

    worker = asyncio.ensure_future(take())
    await until(lambda: watcher.stats.tasks >= MANY)
    return worker


async def waits(watcher, ids, timeout=None):
    found = [asyncio.ensure_future(watcher.wait(task_id, timeout=timeout)) for task_id in ids]
    await settle()
    return found


async def test_tasks_are_added_in_turns(watcher):
    growth = Growth(lambda: watcher.stats.tasks)
    worker = await begun(watcher)
    assert growth.stop() == AT_ONCE
    worker.cancel()
    await asyncio.wait({worker})


async def test_tasks_are_removed_in_turns_and_all_of_them_before_the_call_ends(watcher):
    worker = await begun(watcher)
    growth = Growth(lambda: watcher.stats.tasks)
    worker.cancel()
    await asyncio.wait({worker})
    assert watcher.stats.tasks == watcher.stats.waiting == 0
    assert growth.stop() == AT_ONCE


async def test_a_second_cancellation_while_tasks_are_removed_leaves_none_watched(watcher):
    worker = await begun(watcher)
    worker.cancel()
    await settle(2)
    assert 0 < watcher.stats.tasks < MANY
    worker.cancel()
    await asyncio.wait({worker})
    assert watcher.stats.tasks == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_watcher_closes_in_turns_and_every_waiter_gets_an_error(make_watcher, service, is_cancelled):
    watcher = make_watcher(first_polls=2 * MANY, concurrency=4)  # nearly all are due
    service.latency = 1.0
    worker = await begun(watcher)
    waiting = await waits(watcher, IDS)
    polls = len(service.polls)
    assert polls <= 8
    growth = Growth(lambda: sum(wait.done() for wait in waiting))
    closing = asyncio.ensure_future(watcher.aclose())
    await settle(4)
    if is_cancelled:
        closing.cancel()
    await asyncio.wait({closing, worker, *waiting})

    assert {type(wait.exception()) for wait in waiting} == {ClientStateError}
    assert [type(outcome.error) for outcome in worker.result()] == [ClientStateError] * MANY
    assert len(service.polls) == polls
    if not is_cancelled:
        assert growth.stop() <= MOST


async def test_a_watcher_that_is_closed_twice_at_once_is_closed(watcher):
    waiting = await waits(watcher, IDS)
    await asyncio.gather(watcher.aclose(), watcher.aclose())
    await asyncio.wait(waiting)
    assert {type(wait.exception()) for wait in waiting} == {ClientStateError}
    assert watcher.stats.tasks == 0


async def test_waits_that_time_out_together_are_notified_in_turns(watcher):
    waiting = await waits(watcher, IDS, timeout=5.0)
    growth = Growth(lambda: sum(wait.done() for wait in waiting))
    await asyncio.wait(waiting)
    assert {type(wait.exception()) for wait in waiting} == {WaitTimeoutError}
    assert growth.stop() <= MOST


#: Waits that time out together: for different tasks or the same one, and what each of them wants.
TOGETHER = {
    "different tasks": (IDS, {}),
    "one task": (["t"] * MANY, {}),
    "on_update": (IDS, {"on_update": lambda _: None}),
    "an interval of their own": (["t"] * MANY, {"polling": Polling(interval=2e6)}),
    "new receipts": (IDS, {"accepted_at": 0.0}),
}


@pytest.mark.parametrize("name", TOGETHER)
async def test_the_work_of_a_turn_does_not_grow_with_the_waits_that_time_out_together(watcher, name):
    ids, options = TOGETHER[name]
    waiting = [asyncio.ensure_future(watcher.wait(task_id, timeout=5.0, **options)) for task_id in ids]
    await settle()
    with CallsPerPass() as calls:
        await until(waiting[-1].done)
    await asyncio.wait(waiting)
    assert {type(wait.exception()) for wait in waiting} == {WaitTimeoutError}
    assert calls.most < 400 * EXPIRE_AT_ONCE


async def test_a_wait_for_very_many_tasks_that_times_out_removes_them_in_turns(watcher):
    worker = await begun(watcher, timeout=5.0)
    growth = Growth(lambda: watcher.stats.tasks)
    outcomes = await worker
    assert [type(outcome.error) for outcome in outcomes] == [WaitTimeoutError] * MANY
    assert {outcome.task_id for outcome in outcomes} == set(IDS)
    assert growth.stop() <= MOST


async def test_a_task_that_ends_while_others_time_out_is_reported_as_ended(watcher, service):
    last = IDS[-1]
    gate = asyncio.Event()

    async def ends():
        await gate.wait()
        return VideoTask(id=last, status="completed")

    service.script(last, ends)
    first = asyncio.ensure_future(watcher.wait(last, timeout=None))
    await settle()
    worker = await begun(watcher, timeout=5.0)
    await until(lambda: watcher.stats.tasks != MANY)
    gate.set()
    outcomes = {outcome.task_id: outcome for outcome in await worker}
    assert (await first).status == outcomes[last].unwrap().status == "completed"
    assert len(outcomes) == MANY
    assert sum(outcome.error is None for outcome in outcomes.values()) == 1


async def test_all_waiters_of_one_task_are_notified_of_its_end_in_turns(make_watcher, service):
    watcher = make_watcher()
    waiting = await waits(watcher, ["t"] * MANY)
    service.default = "completed"
    growth = Growth(lambda: sum(wait.done() for wait in waiting))
    await asyncio.wait(waiting)
    assert {wait.result().status for wait in waiting} == {"completed"}
    assert growth.stop() <= MOST


@pytest.mark.slow
async def test_reading_outcomes_without_waiting_does_not_block_the_event_loop(make_watcher, service):
    watcher = make_watcher(first_polls=2 * MANY, concurrency=MANY)
    service.default = "completed"
    outcomes = watcher.as_completed(IDS)
    await anext(outcomes)
    await until(lambda: not watcher.stats.tasks)
    passes = Passes()
    async with passes.measured():
        assert len([outcome async for outcome in outcomes]) == MANY - 1
    assert passes.count >= MANY / AT_ONCE


@pytest.mark.parametrize("go", [in_turns, all_in_turns])
async def test_steps_are_carried_out_in_turns(go):
    done = []
    await go(VirtualClock(), iter(map(done.append, range(3))))
    assert done == [0, 1, 2]


@pytest.mark.parametrize(("go", "left"), [(in_turns, [0]), (all_in_turns, [0, 1, 2])])
async def test_if_the_caller_is_cancelled_the_remaining_steps_are_omitted_or_carried_out_at_once(go, left):
    done = []
    worker = asyncio.ensure_future(go(LoopClock(), iter(map(done.append, range(3)))))
    await asyncio.sleep(0)
    worker.cancel()
    await asyncio.wait({worker})
    assert worker.cancelled()
    assert done == left


# -- the agenda ------------------------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.sampled_from("pprro"), st.integers(0, 40), st.integers(0, 5)), max_size=400)


@given(STEPS)
@settings(max_examples=60, derandomize=True, database=None, deadline=None)
def test_an_agenda_behaves_like_a_sorted_list(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vidgen_async.watcher.schedule._SPARE", 2)
        agenda, plain = Agenda(bins_per_second=0.5), {}
        for step, number, due in steps:
            if step == "p" and number not in plain:
                plain[number] = float(due)
                agenda.put(float(due), number)
            elif step == "r":
                plain.pop(number, None)
                agenda.remove(number)
            elif step == "o" and plain:
                first = min(plain, key=lambda one: (plain[one], one))
                del plain[first]
                assert agenda.pop() == first
            assert agenda.first_due() == min(plain.values(), default=None)


# -- as many as there may be -------------------------------------------------------------------------------------------


@pytest.mark.needs_dev  # for its 15 seconds under coverage
async def test_a_hundred_thousand_tasks_never_block_the_event_loop():
    async def poll(task_id, mark, *, is_task_needed):
        return VideoTask(id=task_id, status="running"), None

    ids = [f"task-{number:06d}" for number in range(100_000)]
    passes = Passes()
    async with passes.measured():
        watcher = Watcher(poll, clock=LoopClock(), is_origin_known=bool)
        outcomes = watcher.as_completed(ids, timeout=None)
        waiter = asyncio.ensure_future(anext(outcomes))
        await until(lambda: watcher.stats.tasks >= len(ids))
        await watcher.aclose()
        await asyncio.wait({waiter})
        await outcomes.aclose()
    assert watcher.stats.tasks == 0
    # Some 10 ms of CPU time; two seconds when all of them were ended in one pass.
    assert passes.longest < 0.2
