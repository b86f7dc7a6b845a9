"""``on_update``."""

import asyncio
from collections.abc import Callable

import pytest

from vidgen_async.clock import VirtualClock
from vidgen_async.types.resources import VideoTask
from vidgen_async.watcher import Watcher

from .conftest import FakeService, hang, settle, workers

MakeWatcher = Callable[..., Watcher]


async def test_it_is_called_with_every_change_of_any_task(make_watcher: MakeWatcher, service: FakeService) -> None:
    seen: list[tuple[str, str | None]] = []
    watcher = make_watcher(on_update=lambda task: seen.append((task.id, task.status)))
    service.script("a", "queued", "queued", "running", "completed")
    service.script("b", "failed")

    async for _ in watcher.as_completed(["a", "b"]):
        pass

    assert seen == [("a", "queued"), ("b", "failed"), ("a", "running"), ("a", "completed")]


async def test_its_errors_are_logged_and_stop_nothing(
    make_watcher: MakeWatcher, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(task: VideoTask) -> None:
        raise ValueError(task.status)

    async def broken_later(task: VideoTask) -> None:
        raise ValueError(task.status)

    service.script("t", "running", "completed")
    service.script("u", "running", "completed")

    assert (await make_watcher(on_update=broken).wait("t")).status == "completed"
    assert (await make_watcher(on_update=broken_later).wait("u")).status == "completed"

    await settle()
    assert len([record for record in caplog.records if "on_update failed" in record.getMessage()]) == 4


async def test_a_slow_one_slows_no_poll_and_sees_the_changes_of_a_task_in_order(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock
) -> None:
    seen: list[tuple[float, str, str | None]] = []

    async def slow(task: VideoTask) -> None:
        await clock.sleep(200.0 if task.status == "queued" else 1.0)
        seen.append((clock.now(), task.id, task.status))

    watcher = make_watcher(on_update=slow)
    service.script("a", "queued", "running", "completed")
    service.script("b", "running", "completed")

    async for _ in watcher.as_completed(["a", "b"]):
        pass
    assert service.times("a") == [0.0, 60.0, 120.0]
    await clock.sleep(200.0)

    assert seen == [
        (1.0, "b", "running"),
        (61.0, "b", "completed"),
        (200.0, "a", "queued"),
        (201.0, "a", "running"),
        (202.0, "a", "completed"),
    ]
    assert workers() == []


async def test_their_number_at_once_is_bounded(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock
) -> None:
    running = most = ended = 0

    async def slow(task: VideoTask) -> None:
        nonlocal running, most, ended
        running += 1
        most = max(most, running)
        await clock.sleep(1.0)
        running -= 1
        ended += 1

    watcher = make_watcher(concurrency=2, on_update=slow)
    service.default = "completed"
    async for _ in watcher.as_completed(f"t{n}" for n in range(10)):
        pass
    await clock.sleep(60.0)

    assert most == 2
    assert ended == 10


async def test_closing_lets_what_is_under_way_end_within_the_grace(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock
) -> None:
    written: list[str | None] = []

    async def write(task: VideoTask) -> None:
        await clock.sleep(1.0)
        written.append(task.status)

    watcher = make_watcher(on_update=write)
    service.script("t", "completed")
    await watcher.wait("t")
    await watcher.aclose()

    assert written == ["completed"]


async def test_closing_cancels_what_takes_longer(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stuck(task: VideoTask) -> None:
        await hang()

    watcher = make_watcher(concurrency=1, on_update=stuck)
    service.default = "completed"
    await asyncio.gather(watcher.wait("t"), watcher.wait("u"), watcher.wait("v"))
    began = clock.now()
    await watcher.aclose(grace=3.0)

    assert clock.now() == began + 3.0
    assert "3 calls were not over" in caplog.text
    assert workers() == []


async def test_the_hook_may_close_the_watcher(
    make_watcher: MakeWatcher, service: FakeService, clock: VirtualClock
) -> None:
    watcher: Watcher

    async def closing(task: VideoTask) -> None:
        await watcher.aclose()

    watcher = make_watcher(concurrency=1, on_update=closing)
    service.default = "completed"
    await watcher.wait("t")
    await clock.sleep(1.0)

    assert clock.now() <= 2.0
    assert workers() == []
