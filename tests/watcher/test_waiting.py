"""``wait``, ``watch`` and ``as_completed``: what they share, how they end, and that they leave nothing."""

import asyncio
import gc
import pickle
from contextlib import aclosing

import pytest

from vidgen_async.errors import (
    ClientStateError,
    ConfigurationError,
    ConnectError,
    NotFoundError,
    TaskFailedError,
    VidgenError,
    WaitTimeoutError,
)
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Outcome, Watcher, listeners

from .conftest import hang, settle, workers


async def assert_nothing_is_left(watcher):
    await settle()
    stats = watcher.stats
    assert (stats.tasks, stats.waiting, stats.in_flight) == (0, 0, 0)
    assert workers() == []
    assert watcher._schedule._agenda.first_due() is None
    assert watcher._deadlines.first_due() is None


class TestShared:
    async def test_any_number_of_waiters_on_one_task_share_its_polls(self, watcher, service):
        service.complete_at(180.0, "t")

        tasks = await asyncio.gather(*(watcher.wait("t") for _ in range(500)))

        assert len({id(task) for task in tasks}) == 1
        assert service.times() == [0.0, 60.0, 120.0, 180.0]
        await assert_nothing_is_left(watcher)

    async def test_a_waiter_that_is_added_during_the_last_poll_gets_the_terminal_task(self, watcher, service, clock):
        service.latency = 10.0
        service.default = "completed"
        first = asyncio.ensure_future(watcher.wait("t"))
        await clock.sleep(5.0)

        second = await watcher.wait("t")

        assert await first is second
        assert service.times() == [0.0]

    async def test_terminal_tasks_are_not_cached(self, watcher, service):
        service.default = "completed"
        await watcher.wait("t")
        await watcher.wait("t")
        assert len(service.polls) == 2

    async def test_errors_are_not_shared_between_waiters(self, watcher, service):
        service.default = NotFoundError("gone", status=404)

        errors = await asyncio.gather(*(watcher.wait("t") for _ in range(3)), return_exceptions=True)

        assert [type(error) for error in errors] == [NotFoundError] * 3
        assert len({id(error) for error in errors}) == 3

    async def test_waiting_again_within_the_interval_causes_no_earlier_poll_and_has_the_last_state(
        self, watcher, service
    ):
        for _ in range(24):  # two minutes of impatience
            with pytest.raises(WaitTimeoutError) as caught:
                await watcher.wait("t", timeout=5.0)
            assert caught.value.task is not None
            await assert_nothing_is_left(watcher)

        assert service.times() == [0.0, 60.0]

    async def test_faults_of_an_earlier_watch_do_not_count(self, watcher, service):
        service.script("t", *[NotFoundError("gone", status=404)] * 2, "completed")
        with pytest.raises(WaitTimeoutError):
            await watcher.wait("t", timeout=1.0)

        assert (await watcher.wait("t")).status == "completed"
        assert service.times() == [0.0, 5.0, 10.0]

    async def test_the_number_of_remembered_polls_is_limited(self, watcher, service, clock):
        async for outcome in watcher.as_completed((f"t{n}" for n in range(1_200)), timeout=1.0):
            assert isinstance(outcome.error, WaitTimeoutError)
        assert len(watcher._left) <= 1024
        assert watcher._schedule._agenda.first_due() is None

        await clock.sleep(100.0)
        with pytest.raises(WaitTimeoutError):
            await watcher.wait("another", timeout=1.0)
        assert [watcher._task_ids[row] for row in watcher._left] == ["another"]


class TestLeaving:
    async def test_cancelling_a_waiter_changes_only_that_waiter(self, watcher, service, clock):
        service.complete_at(120.0, "t")
        gone, stays = (asyncio.ensure_future(watcher.wait("t")) for _ in range(2))
        await clock.sleep(30.0)

        gone.cancel()

        assert (await stays).status == "completed"
        assert gone.cancelled()
        assert service.times() == [0.0, 60.0, 120.0]

    async def test_cancelling_the_last_waiter_ends_the_watch_immediately(self, watcher, service, clock):
        waits = [asyncio.ensure_future(watcher.wait(f"t{n}")) for n in range(200)]
        await clock.sleep(30.0)
        polls = len(service.polls)

        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

        await assert_nothing_is_left(watcher)
        await clock.sleep(600.0)
        assert len(service.polls) == polls

    async def test_the_poll_of_a_task_without_waiters_is_cancelled(self, watcher, service):
        service.default = hang
        wait = asyncio.ensure_future(watcher.wait("t"))
        await settle()
        assert watcher.stats.in_flight == 1

        wait.cancel()

        await assert_nothing_is_left(watcher)
        assert not service.in_flight

    async def test_a_poll_that_ignores_its_cancellation_does_not_end_a_later_watch(self, watcher, service, clock):
        async def stubborn():
            try:
                return await hang()
            except asyncio.CancelledError:
                await clock.sleep(100.0)
                return VideoTask(id="t", status="completed", model="stale")

        async def slow():
            await clock.sleep(100.0)
            return VideoTask(id="t", status="running")

        service.script("t", stubborn, slow, "completed")
        with pytest.raises(WaitTimeoutError):
            await watcher.wait("t", timeout=10.0)

        task = await watcher.wait("t")  # its poll at 60 s is in progress when the old response arrives, at 110 s

        assert task.model is None
        assert service.times() == [0.0, 60.0, 160.0]

    @pytest.mark.parametrize("kind", ["vidgen watcher", "vidgen watcher alarm"])
    async def test_cancelling_the_watchers_own_workers_never_leaves_a_waiter_hanging(
        self, kind, watcher, service, clock
    ):
        service.complete_at(60.0, "t")
        wait = asyncio.ensure_future(watcher.wait("t"))
        await clock.sleep(1.0)

        for worker in asyncio.all_tasks():
            if worker.get_name() == kind:
                worker.cancel()

        if kind == "vidgen watcher":
            with pytest.raises(ClientStateError, match="watcher was cancelled"):
                await wait
        else:
            assert (await wait).status == "completed"
        await assert_nothing_is_left(watcher)

    async def test_all_waiters_raise_an_unexpected_error_of_the_scheduler(self, watcher, monkeypatch, caplog):
        def broken(*_):
            message = "a bug"
            raise ZeroDivisionError(message)

        monkeypatch.setattr(watcher._schedule, "take", broken)

        results = await asyncio.gather(watcher.wait("t"), watcher.wait("u"), return_exceptions=True)

        assert [type(result) for result in results] == [ZeroDivisionError] * 2
        (record,) = [record for record in caplog.records if record.event_name == "watcher.failed"]
        assert (record.levelname, record.exc_info[0]) == ("ERROR", ZeroDivisionError)
        await assert_nothing_is_left(watcher)

    async def test_all_waiters_raise_an_unexpected_error_of_a_poller(self, watcher, monkeypatch):
        def broken(*_):
            message = "a bug"
            raise ZeroDivisionError(message)

        monkeypatch.setattr(watcher, "_note_state", broken)

        outcomes = [outcome async for outcome in watcher.as_completed(["t", "u"])]

        assert [str(outcome.error) for outcome in outcomes] == [
            f"task {name!r} could not be polled: ZeroDivisionError: a bug" for name in ("t", "u")
        ]
        assert isinstance(outcomes[0].error, VidgenError)
        assert isinstance(outcomes[0].error.__cause__, ZeroDivisionError)


class TestDeadlines:
    async def test_the_message_has_the_last_state_and_how_to_continue(self, watcher, service):
        service.script("t", "running", ConnectError("refused"))

        with pytest.raises(WaitTimeoutError) as caught:
            await watcher.wait("t", timeout=90.0)

        assert caught.value.message == (
            "task 't' did not finish within 90 s (the last state seen was 'running', the last poll failed with "
            "ConnectError). Its present state is not known. "
            'Go on waiting with client.videos.wait("t"); its timeout is the limit.'
        )
        assert caught.value.task_id == "t"
        assert caught.value.task == VideoTask(id="t", status="running")
        assert isinstance(caught.value, TimeoutError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own bytes

    async def test_a_deadline_ends_a_wait_whose_poll_hangs(self, watcher, service, clock):
        service.default = hang

        with pytest.raises(WaitTimeoutError, match="no poll has succeeded yet"):
            await watcher.wait("t", timeout=5.0)

        assert clock.now() == 5.0
        await assert_nothing_is_left(watcher)

    async def test_each_waiter_has_its_own_deadline(self, watcher, clock):
        async def wait(timeout):
            with pytest.raises(WaitTimeoutError):
                await watcher.wait("t", timeout=timeout)
            return clock.now()

        timeouts = [float(n * 7 % 101 + 1) for n in range(100)]

        assert await asyncio.gather(*map(wait, timeouts)) == timeouts
        await assert_nothing_is_left(watcher)

    @pytest.mark.parametrize("timeout", [0.0, -5.0])
    async def test_a_timeout_of_zero_ends_before_any_poll(self, timeout, watcher, service, clock):
        with pytest.raises(WaitTimeoutError):
            await watcher.wait("t", timeout=timeout)
        outcomes = [outcome async for outcome in watcher.as_completed(["t", "u"], timeout=timeout)]

        assert [type(outcome.error) for outcome in outcomes] == [WaitTimeoutError] * 2
        assert service.polls == []
        assert clock.now() == 0.0

    @pytest.mark.parametrize("timeout", [None, float("inf"), 1e308])
    async def test_a_wait_may_last_for_ever(self, timeout, watcher, service, clock):
        service.complete_at(10 * 86400.0, "t")
        watcher._schedule.interval = 3600.0
        await watcher.wait("t", timeout=timeout)
        assert clock.now() >= 10 * 86400.0

    async def test_the_default_is_a_day(self, make_watcher, clock):
        with pytest.raises(WaitTimeoutError, match="86400 s"):
            await make_watcher(interval=3600.0).wait("t")
        assert clock.now() == 86400.0

    async def test_a_timeout_of_nan_is_refused_and_nothing_is_watched(self, watcher):
        with pytest.raises(ValueError, match="NaN"):
            await watcher.wait("t", timeout=float("nan"))
        await assert_nothing_is_left(watcher)

    async def test_deadlines_of_ended_waits_are_removed(self, make_watcher, service, clock):
        watcher = make_watcher(first_polls=10_000)
        service.script("x", hang)
        keeps_it_running = asyncio.ensure_future(watcher.wait("x"))
        await settle()
        service.default = "completed"

        with clock.hold():
            for n in range(300):
                await watcher.wait(f"t{n % 3}")

        assert len(watcher._deadlines._agenda._order) <= 80
        keeps_it_running.cancel()
        await asyncio.gather(keeps_it_running, return_exceptions=True)


class TestWatch:
    @pytest.mark.rule("3 unshown transitions", side="sdk")
    async def test_it_yields_every_change_and_the_terminal_task_last(self, watcher, service):
        at_work = VideoTask(id="t", status="running", points=3)
        service.script("t", "queued", "queued", "running", at_work, ConnectError("lost"), at_work, "completed")

        seen = [task async for task in watcher.watch("t")]

        assert [task.status for task in seen] == ["queued", "running", "running", "completed"]
        assert seen[2].points == 3
        await assert_nothing_is_left(watcher)

    async def test_it_yields_a_failed_task_and_does_not_raise(self, watcher, service):
        service.script("t", "failed")
        assert [task.status async for task in watcher.watch("t")] == ["failed"]

    async def test_it_yields_the_known_task_first(self, watcher, service, clock):
        service.complete_at(60.0, "t")
        wait = asyncio.ensure_future(watcher.wait("t"))
        await clock.sleep(10.0)

        seen = [(clock.now(), task.status) async for task in watcher.watch("t")]

        assert seen == [(10.0, "running"), (60.0, "completed")]
        await wait

    async def test_a_slow_reader_delays_no_poll_and_gets_the_latest_change_and_the_terminal_one(
        self, watcher, service, clock
    ):
        service.script("t", *(VideoTask(id="t", status="running", points=n) for n in range(10)), "completed")
        seen = []

        async for task in watcher.watch("t"):
            seen.append(task.points if task.status == "running" else task.status)
            await clock.sleep(250.0)

        assert seen == [0, 4, 8, "completed"]
        assert service.times() == [60.0 * n for n in range(11)]

    async def test_a_change_that_was_reverted_before_it_was_read_is_not_yielded(self, watcher, service, clock):
        first, second = (VideoTask(id="t", status="running", points=n) for n in (1, 2))
        service.script("t", first, second, first, first, "completed")
        seen = []

        async for task in watcher.watch("t"):
            seen.append((clock.now(), task.status))
            await clock.sleep(150.0)

        assert seen == [(0.0, "running"), (240.0, "completed")]

    async def test_errors_are_raised_after_the_last_change(self, watcher, service, clock):
        service.script("t", "queued", "running", *[NotFoundError("gone", status=404)] * 2)
        reader = watcher.watch("t")
        assert (await anext(reader)).status == "queued"
        await clock.sleep(500.0)
        assert (await anext(reader)).status == "running"
        with pytest.raises(NotFoundError):
            await anext(reader)

    async def test_it_raises_an_error_after_its_timeout(self, watcher, clock):
        with pytest.raises(WaitTimeoutError):
            async for _ in watcher.watch("t", timeout=100.0):
                pass
        assert clock.now() == 100.0
        await assert_nothing_is_left(watcher)

    async def test_closing_the_iterator_ends_the_watch(self, watcher):
        async with aclosing(watcher.watch("t")) as changes:
            async for _ in changes:
                break
        await assert_nothing_is_left(watcher)

        async for _ in watcher.watch("t"):
            break
        gc.collect()
        await assert_nothing_is_left(watcher)


class TestAsCompleted:
    async def test_outcomes_are_in_the_order_in_which_the_tasks_end(self, watcher, service):
        service.script("slow", "queued", "running", "completed")
        service.script("bad", "running", VideoTask(id="bad", status="failed", failure_reason="rule 7"))
        service.script("gone", *[NotFoundError("gone", status=404)] * 2)

        outcomes = [outcome async for outcome in watcher.as_completed(["slow", "bad", "gone"])]

        assert [outcome.task_id for outcome in outcomes] == ["gone", "bad", "slow"]
        gone, bad, slow = outcomes
        assert isinstance(gone.error, NotFoundError)
        assert gone.task is None
        assert bad.task is not None
        assert bad.task.status == "failed"
        with pytest.raises(TaskFailedError, match="rule 7"):
            bad.unwrap()
        assert slow.unwrap().status == "completed"
        await assert_nothing_is_left(watcher)

    async def test_there_is_one_outcome_for_each_distinct_task(self, watcher, service):
        service.default = "completed"
        outcomes = [outcome.task_id async for outcome in watcher.as_completed(iter(["a", "b", "a", "a", "b"]))]
        assert sorted(outcomes) == ["a", "b"]

    async def test_without_tasks_there_are_no_outcomes(self, watcher):
        assert [outcome async for outcome in watcher.as_completed([])] == []
        await assert_nothing_is_left(watcher)

    async def test_after_a_timeout_the_remaining_tasks_have_errors_as_outcomes(self, watcher, service, clock):
        service.script("a", "running", "completed")
        service.script("c", hang)

        outcomes = [(clock.now(), outcome) async for outcome in watcher.as_completed(["a", "b", "c"], timeout=90.0)]

        assert [(moment, outcome.task_id) for moment, outcome in outcomes] == [(60.0, "a"), (90.0, "b"), (90.0, "c")]
        late = outcomes[1][1]
        assert isinstance(late.error, WaitTimeoutError)
        assert late.task == late.error.task == VideoTask(id="b", status="running")
        with pytest.raises(WaitTimeoutError, match=r'client\.videos\.wait\("b"\)'):
            late.unwrap()
        await assert_nothing_is_left(watcher)

    async def test_a_timeout_while_very_many_tasks_are_added_loses_none(self, watcher, service):
        ids = [f"t{n}" for n in range(2_500)]
        outcomes = [outcome async for outcome in watcher.as_completed(ids, timeout=0.0)]

        assert len(outcomes) == 2_500
        assert outcomes[-1].task is None
        await assert_nothing_is_left(watcher)

    async def test_for_very_many_tasks_only_the_states_are_stored(self, watcher, service, monkeypatch):
        monkeypatch.setattr(listeners, "MOST_KEPT", 2)

        outcomes = [outcome async for outcome in watcher.as_completed(["a", "b", "c"], timeout=10.0)]

        assert [outcome.task for outcome in outcomes] == [None] * 3
        assert all("the last state seen was 'running'" in str(outcome.error) for outcome in outcomes)

    async def test_the_times_of_receipts_are_passed_by_task(self, watcher, service):
        for name in ("new", "old"):
            service.script(name, *[NotFoundError("gone", status=404)] * 2, "completed")
        outcomes = [outcome async for outcome in watcher.as_completed(["new", "old"], accepted_at={"new": 0.0})]
        assert [(outcome.task_id, outcome.error is None) for outcome in outcomes] == [("old", False), ("new", True)]

    async def test_closing_the_iterator_ends_the_watch(self, watcher, service):
        service.script("a", "completed")
        async with aclosing(watcher.as_completed(["a", "b", "c"])) as outcomes:
            async for _ in outcomes:
                break
        await assert_nothing_is_left(watcher)

    async def test_an_outcome_without_task_and_error_cannot_be_unwrapped(self):
        with pytest.raises(VidgenError):
            Outcome("t").unwrap()

    async def test_a_wait_and_a_gatherer_share_polls(self, watcher, service):
        service.complete_at(60.0, "a")

        async def gather():
            return [outcome async for outcome in watcher.as_completed(["a"])]

        task, outcomes = await asyncio.gather(watcher.wait("a"), gather())
        assert outcomes == [Outcome("a", task)]
        assert service.times("a") == [0.0, 60.0]


class TestClosing:
    async def test_the_error_of_a_waiter_states_that_its_task_is_not_stopped(self, watcher, service):
        async def gather():
            return [outcome async for outcome in watcher.as_completed(["t", "u"])]

        async def follow():
            return [task async for task in watcher.watch("t")]

        service.script("u", hang)
        wait, following, gathering = (
            asyncio.ensure_future(watcher.wait("t")),
            asyncio.ensure_future(follow()),
            asyncio.ensure_future(gather()),
        )
        await settle()

        await watcher.aclose()
        await watcher.aclose()

        with pytest.raises(ClientStateError, match="closed, but tasks continue; wait for task 't'"):
            await wait
        with pytest.raises(ClientStateError):
            await following
        assert [type(outcome.error) for outcome in await gathering] == [ClientStateError] * 2
        assert not service.in_flight
        await assert_nothing_is_left(watcher)

    async def test_a_closed_watcher_refuses_waits(self, watcher, service):
        await watcher.aclose()

        with pytest.raises(ClientStateError):
            await watcher.wait("t")
        with pytest.raises(ClientStateError):
            await anext(watcher.watch("t"))
        with pytest.raises(ClientStateError):
            await anext(watcher.as_completed(["t", "u"]))
        assert service.polls == []

    async def test_a_wait_that_is_cancelled_while_the_watcher_closes_is_cancelled(self, watcher):
        wait = asyncio.ensure_future(watcher.wait("t"))
        await settle()

        wait.cancel()
        await watcher.aclose()

        with pytest.raises(asyncio.CancelledError):
            await wait
        await assert_nothing_is_left(watcher)

    async def test_closing_while_very_many_tasks_are_added_gives_each_an_outcome(self, watcher):
        async def gather():
            return [outcome async for outcome in watcher.as_completed(f"t{n}" for n in range(5_000))]

        gathering = asyncio.ensure_future(gather())
        await settle(2)
        await watcher.aclose()

        outcomes = await gathering
        assert len(outcomes) == 5_000
        assert {type(outcome.error) for outcome in outcomes} == {ClientStateError}

    async def test_a_poll_may_close_the_watcher(self, watcher, service):
        async def closing():
            await watcher.aclose()
            return VideoTask(id="t", status="completed")

        service.default = closing
        with pytest.raises(ClientStateError):
            await watcher.wait("t")

    @pytest.mark.parametrize("options", [{"interval": 0.0}, {"interval": float("inf")}, {"concurrency": 0}])
    def test_invalid_options_are_refused(self, options, service):
        with pytest.raises(ConfigurationError):
            Watcher(service.poll_if_changed, clock=service.clock, is_origin_known=bool, **options)


class TestUnknownStates:
    async def test_an_error_claims_only_what_is_known_and_names_the_state(self, watcher, service):
        service.default = "succeeded"

        with pytest.raises(WaitTimeoutError) as caught:
            await watcher.wait("t", timeout=90.0)
        (outcome,) = [outcome async for outcome in watcher.as_completed(["t"], timeout=90.0)]

        for error in (caught.value, outcome.error):
            assert "'succeeded'" in str(error)
            assert "charged" not in str(error)
            assert 'Client(terminal_states={"succeeded": "failed"}) or "completed"' in str(error)
            assert isinstance(error, WaitTimeoutError)
            assert error.state == "succeeded"
        assert outcome.state == "succeeded"
