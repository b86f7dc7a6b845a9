"""The videos of many outcomes: several downloads at once, each with its own result."""

import asyncio
import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.transports.sending import until
from vidgen_async import Client, JournalError, NotReadyError, Outcome, TaskFailedError, VideoTask
from vidgen_async.errors import (
    DownloadError,
    InvalidRequestError,
    NotFoundError,
    NotVideoError,
    TargetExistsError,
)
from vidgen_async.sandbox import Fault, Sandbox

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "videos"
    path.mkdir()
    return path


async def completed(client: Client, count: int) -> list[Outcome]:
    receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(count)]
    return [outcome async for outcome in client.videos.as_completed(receipts, timeout=20)]


async def wait_for(client: Client, order_id: str) -> Outcome:
    receipt = await client.videos.create(**FIELDS, order_id=order_id)
    [outcome] = [each async for each in client.videos.as_completed([receipt], timeout=20)]
    return outcome


def downloads(service: Sandbox) -> int:
    return sum(request.op == "videos.content" for request in service.requests)


async def test_the_videos_of_all_outcomes_are_saved_under_their_task_ids(client, service, folder):
    receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(5)]
    outcomes = client.videos.as_completed(receipts, timeout=20)

    saved = [outcome async for outcome in client.videos.download_many(outcomes, to=folder)]

    assert {(each.order_id, each.path) for each in saved} == {
        (receipt.order_id, folder / f"{receipt.task_id}.mp4") for receipt in receipts
    }
    assert {each.path.read_bytes()[4:8] for each in saved} == {b"ftyp"}
    assert len(list(folder.iterdir())) == 5


async def test_a_failure_concerns_its_own_video_alone_and_failed_outcomes_are_passed_through(client, service, folder):
    outcomes = await completed(client, 3)
    service.fail_next_task("the moderation refused it")
    outcomes.insert(1, await wait_for(client, "failed"))
    outcomes.append(Outcome.of(VideoTask(id=service.creates[-1].task_id + "x", status="completed")))
    service.faults.add("videos.content", Fault.html())

    saved = [each async for each in client.videos.download_many(outcomes, to=folder, concurrency=1)]

    assert [type(each.error) for each in saved[:4]] == [NotVideoError, TaskFailedError, type(None), type(None)]
    assert saved[4].error is not None
    assert saved[1] is outcomes[1]
    assert [each.path is None for each in saved] == [True, True, False, False, True]
    assert [each.task for each in saved] == [each.task for each in outcomes]
    assert len(list(folder.iterdir())) == 2


async def test_no_more_downloads_than_the_limit_are_under_way_and_results_come_as_they_are_ready(folder):
    under_way: list[str] = []
    most, release = 0, {str(n): asyncio.Event() for n in range(6)}

    async def download(task: VideoTask, path: Path, **_: bool) -> Path:
        nonlocal most
        under_way.append(task.id)
        most = max(most, len(under_way))
        await release[task.id].wait()
        under_way.remove(task.id)
        return path

    saved = []
    async with Client("key", base_url="http://127.0.0.1:1/openapi/v1") as client:
        client.videos.download = download
        outcomes = [Outcome.of(VideoTask(id=str(n), status="completed")) for n in range(6)]

        async def run() -> None:
            saved.extend(
                [each.task_id async for each in client.videos.download_many(outcomes, to=folder, concurrency=3)]
            )

        running = asyncio.ensure_future(run())
        for task_id in ("1", "2", "0", "4", "3", "5"):
            await until(lambda task_id=task_id: task_id in under_way)
            release[task_id].set()
        await running
        with pytest.raises(ValueError, match="at least 1"):
            await anext(client.videos.download_many(outcomes, to=folder, concurrency=0))
    assert saved == ["1", "2", "0", "4", "3", "5"]
    assert most == 3


async def test_files_that_exist_are_replaced_only_if_asked(client, service, folder):
    outcomes = await completed(client, 2)
    target = folder / f"{outcomes[0].task_id}.mp4"
    target.write_bytes(b"old")

    saved = [each async for each in client.videos.download_many(outcomes, to=folder)]
    by_task = {each.task_id: each for each in saved}
    error = by_task[outcomes[0].task_id].error
    assert isinstance(error, TargetExistsError)
    assert str(error).endswith(f"the file {str(target)!r} already exists. To replace it, pass overwrite=True.")
    assert target.read_bytes() == b"old"
    assert by_task[outcomes[1].task_id].error is None
    assert downloads(service) == 1

    saved = [each async for each in client.videos.download_many(outcomes, to=folder, overwrite=True)]
    assert [each.error for each in saved] == [None, None]
    assert target.read_bytes() != b"old"


async def test_a_function_names_the_files_and_no_two_videos_get_the_same(client, service, folder):
    outcomes = await completed(client, 2)
    named = client.videos.download_many(outcomes, to=lambda outcome: folder / f"{outcome.order_id}.mp4")
    assert {each.path.name async for each in named} == {"order-0.mp4", "order-1.mp4"}

    same = client.videos.download_many(outcomes, to=lambda _: str(folder / "same.mp4"), overwrite=True)
    first, second = [each async for each in same]
    assert sorted([first.path is None, second.path is None]) == [False, True]
    error = first.error or second.error
    assert isinstance(error, DownloadError)
    assert "same.mp4 is the video of task" in str(error)


async def test_tasks_ids_and_receipts_are_saved_as_they_are_and_one_that_is_none_stops_no_other(
    client, service, folder
):
    [first, second] = await completed(client, 2)
    receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(2)]
    service.fail_next_task("too dark")
    failed = (await wait_for(client, "failed")).task_id
    given = [first.task, receipts[1], "..", "no-such-task", failed, Outcome("a/b")]

    saved = {each.task_id: each async for each in client.videos.download_many(given, to=folder)}

    assert {task_id: type(each.error) for task_id, each in saved.items() if each.path is None} == {
        "..": InvalidRequestError,
        "no-such-task": NotFoundError,
        failed: TaskFailedError,
        "a/b": NotFoundError,
    }
    assert {path.stem for path in folder.iterdir()} == {first.task_id, second.task_id}
    assert saved[second.task_id].order_id == "order-1"
    assert saved[second.task_id].unwrap() == second.task
    [alone] = [each async for each in client.videos.download_many(first.task_id, to=folder, overwrite=True)]
    assert alone.path == saved[first.task_id].path
    with pytest.raises(TypeError, match="a task is a task id, a Receipt or a VideoTask, not int"):
        await anext(client.videos.download_many([7], to=folder))


#: Ids that a careless mapping would give one file, or none.
IDS = [
    "task",
    "Task",
    "TASK",
    "a/b",
    "a_b",
    "a b",
    "a\\b",
    "a:b",
    "A_b",
    "a\0b",
    "a\nb",
    "../../etc/x",
    "..hidden",
    "a.",
    "a",
    "/abs",
    "-a",
    "con",
    "aux.x",
    "\u00e9",
    "e\u0301",
    "\u212a",
    "k",
    "\u0131",
    "i",
    "x" * 400,
    "x" * 400 + "y",
    "X" * 400,
    "\u6f22" * 166,
]


async def test_every_id_has_a_file_of_its_own_in_the_directory_on_every_file_system(client, folder):
    async def download(task: VideoTask, path: Path, **_: bool) -> Path:
        await asyncio.to_thread(path.touch)
        return path

    client.videos.download = download
    outcomes = [Outcome.of(VideoTask(id=task_id, status="completed")) for task_id in IDS]
    saved = {each.task_id: each.path async for each in client.videos.download_many(outcomes, to=folder)}
    assert len(list(folder.iterdir())) == len(IDS)
    assert {path.parent for path in saved.values()} == {folder}
    names = {unicodedata.normalize("NFKC", path.name).casefold() for path in saved.values()}
    assert len(names) == len(IDS)
    assert max(map(len, names)) <= 143
    assert all(re.fullmatch(r"[\w~.-]+\.mp4", name, re.ASCII) for name in names)
    plain = ["task", "a_b", "-a", "a.", "a", "k", "i"]
    assert [saved[task_id].name for task_id in plain] == [f"{task_id}.mp4" for task_id in plain]
    assert saved["a/b"].name == "a_b~c14cddc033f64b9d.mp4", "the file of an id never changes"
    again = {path.stem for path in saved.values()} - set(plain)
    assert all(Path(client.videos.file_name(name)).stem not in again for name in again)


async def test_a_directory_that_does_not_exist_is_reported_before_anything_is_awaited(client, service, folder):
    async def outcomes() -> AsyncIterator[Outcome]:
        pytest.fail("an outcome was awaited")
        yield

    with pytest.raises(DownloadError, match="missing"):
        await anext(client.videos.download_many(outcomes(), to=folder / "missing"))
    assert service.requests == []


async def test_leaving_the_loop_stops_the_downloads_and_ends_the_watch(client, service, folder):
    receipts = [await client.videos.create(**FIELDS, order_id=f"order-{n}") for n in range(4)]
    service.faults.add("videos.content", Fault.drip(100), times=None, after=1)
    outcomes = client.videos.as_completed(receipts, timeout=20)

    async with aclosing(client.videos.download_many(outcomes, to=folder, concurrency=4)) as saved:
        first = await anext(saved)

    assert [path.name for path in folder.iterdir()] == [f"{first.task_id}.mp4"]
    assert client.watcher.stats.tasks == 0
    with pytest.raises(StopAsyncIteration):
        await anext(outcomes)


async def test_what_the_outcomes_raise_is_raised_after_the_other_videos_were_saved(client, folder):
    [outcome] = await completed(client, 1)

    async def broken() -> AsyncIterator[Outcome]:
        yield outcome
        raise JournalError("the disk is full")

    saved = client.videos.download_many(broken(), to=folder)
    assert (await anext(saved)).error is None
    with pytest.raises(JournalError, match="the disk is full"):
        await anext(saved)


async def test_a_video_that_could_not_be_saved_is_yielded_by_the_next_rewatch_again(restarted, service, folder):
    async with restarted() as client:
        for n in range(3):
            await client.videos.create(**FIELDS, order_id=f"order-{n}")

    async def saved() -> dict[str, type]:
        async with restarted() as client:
            outcomes = client.videos.download_many(client.videos.rewatch(timeout=20), to=folder, concurrency=3)
            return {each.order_id: type(each.error) async for each in outcomes}

    service.faults.add("videos.content", Fault.html())
    first = await saved()
    assert sorted(kind.__name__ for kind in first.values()) == ["NoneType", "NoneType", "NotVideoError"]
    [failed] = [order_id for order_id, kind in first.items() if kind is NotVideoError]
    assert await saved() == {failed: type(None)}
    assert await saved() == {}


async def test_outcomes_of_a_rewatch_that_the_loop_did_not_come_to_are_yielded_again(restarted, service, folder):
    async with restarted() as client:
        for n in range(4):
            await client.videos.create(**FIELDS, order_id=f"order-{n}")
        saved = client.videos.download_many(client.videos.rewatch(timeout=20), to=folder, concurrency=2)
        async with aclosing(saved):
            await anext(saved)
            handled = (await anext(saved)).order_id
            await until(lambda: len(list(folder.iterdir())) >= 3)
    async with restarted() as client:
        again = [each async for each in client.videos.download_many(client.videos.rewatch(timeout=20), to=folder)]
    assert len(again) == 3
    assert handled in {each.order_id for each in again}
    # Those that were saved meanwhile exist, and count as known from now on.
    assert {type(each.error) for each in again} == {TargetExistsError, type(None)}
    async with restarted() as client:
        assert [each async for each in client.videos.rewatch(timeout=20)] == []


async def test_what_the_loop_asked_past_before_it_was_left_is_not_yielded_again(restarted, service, folder):
    async with restarted() as client:
        for n in range(4):
            await client.videos.create(**FIELDS, order_id=f"order-{n}")
        handled = []
        saved = client.videos.download_many(client.videos.rewatch(timeout=20), to=folder)
        async with aclosing(saved):
            async for outcome in saved:
                if len(handled) == 2:
                    break  # with the third in hand
                await until(lambda: len(list(folder.glob("*.mp4"))) == 4)  # the others are ready to be yielded
                handled.append(outcome.order_id)
    async with restarted() as client:
        again = {each.order_id async for each in client.videos.rewatch(timeout=20)}
    assert again == {f"order-{n}" for n in range(4)} - set(handled)


@pytest.mark.rule("4.6 response 409", "7 error 409", side="sdk")
async def test_an_outcome_of_a_running_task_is_an_error_of_its_own(folder):
    async with Sandbox(queued_for=1000) as service, Client(service.api_key, base_url=service.base_url) as client:
        receipt = await client.videos.create(**FIELDS)
        outcome = Outcome.of(await client.videos.get(receipt))
        [saved] = [each async for each in client.videos.download_many([outcome], to=folder)]
    assert isinstance(saved.error, NotReadyError)
