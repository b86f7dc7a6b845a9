"""The temporary file is created beside its target, moved atomically, and removed after failures and cancellation."""

import asyncio
import errno
import os
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from yarl import URL

from tests.media.conftest import OLD, endpoints_of
from tests.media.sites import RangeHost, Says, in_turn, page, site, video
from tests.transports.raw_service import raw_service
from vidgen_async.atomic_file import AtomicFile
from vidgen_async.client.videos import Videos
from vidgen_async.clock import LoopClock, VirtualClock
from vidgen_async.errors import (
    DownloadError,
    ServiceUnavailableError,
    TargetExistsError,
)
from vidgen_async.media import transfer
from vidgen_async.media.download import Downloads
from vidgen_async.media.partial_file import PartialFile, run_in_thread
from vidgen_async.service.retries import Reads
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import make_headers

VIDEO = video()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# -- targets ---------------------------------------------------------------------------------------------------------


def bad_targets(folder: Path) -> dict[str, Path | str]:
    (folder / "file").write_bytes(b"")
    (folder / "loop").symlink_to(folder / "loop")
    return {
        "no folder": folder / "missing" / "hero.mp4",
        "a folder": folder,
        "in a file": folder / "file" / "hero.mp4",
        "a device": "/dev/null",
        "nothing": "",
        "a null": f"{folder}/he\0ro.mp4",
        "a long name": folder / ("x" * 300 + ".mp4"),
        "a loop": folder / "loop",
    }


@pytest.mark.parametrize(
    "kind", ["no folder", "a folder", "in a file", "a device", "nothing", "a null", "a loop", "a long name"]
)
async def test_an_unwritable_target_is_reported_before_any_request(kind, downloads_of, tmp_path):
    to = bad_targets(tmp_path)[kind]
    before = names(tmp_path)
    async with site(Says(body=VIDEO)) as service:
        with pytest.raises(DownloadError) as caught:
            await downloads_of(service).download("task-1", to)
        with pytest.raises(DownloadError):
            await Videos.check_target(to)
    assert repr(os.fspath(to))[:50] in str(caught.value)
    assert caught.value.task_id == "task-1"
    assert service.requests == []
    assert names(tmp_path) == before


async def test_an_unwritable_directory_is_reported_before_any_request(monkeypatch, fails):
    real_open = os.open

    def refuse(path: object, flags: int, *rest: object) -> int:
        if flags & os.O_EXCL:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    _, service = await fails(Says(body=VIDEO), DownloadError, match="permission denied")
    assert service.requests == []


async def test_a_writable_target_passes_the_check_which_leaves_no_file(target, tmp_path):
    await Videos.check_target(target.path)
    await Videos.check_target(str(tmp_path / "new.mp4"))
    assert target.is_untouched()
    assert names(tmp_path) == ["videos"]


async def test_a_symbolic_link_at_the_target_is_followed(downloads_of, target, tmp_path):
    link = tmp_path / "link.mp4"
    link.symlink_to(target.path)
    async with site(Says(body=VIDEO)) as service:
        assert await downloads_of(service).download("task-1", link) == link
    assert link.is_symlink()
    assert target.path.read_bytes() == VIDEO
    assert names(target.path.parent) == ["hero.mp4"]


async def test_a_new_file_has_the_usual_permissions(downloads_of, tmp_path):
    name = "é" * 120 if sys.getfilesystemencoding() == "utf-8" else "e" * 240
    before = os.umask(0o027)
    try:
        async with site(Says(body=VIDEO)) as service:
            path = await downloads_of(service).download("task-1", tmp_path / f"{name}.mp4")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


async def test_the_old_file_is_intact_until_the_new_one_is_complete(downloads_of, target):
    seen = []

    def look(received: int, total: int | None) -> None:
        hidden = [name for name in names(target.path.parent) if name != "hero.mp4"]
        seen.append((target.path.read_bytes(), [name[:10] + name[-5:] for name in hidden]))

    async with site(RangeHost(VIDEO, cuts=[30_000])) as service:
        await downloads_of(service).download("task-1", target.path, on_progress=look)
    assert seen
    assert all(state == (OLD, [".hero.mp4..part"]) for state in seen)
    assert names(target.path.parent) == ["hero.mp4"]


async def test_without_overwrite_a_file_that_exists_is_left_before_any_request(downloads_of, target):
    async with site(RangeHost(VIDEO)) as service:
        with pytest.raises(TargetExistsError, match=r"hero\.mp4' already exists") as caught:
            await downloads_of(service).download("task-1", target.path, overwrite=False)
        assert service.requests == []
    assert caught.value.task_id == "task-1"
    assert target.is_untouched()


async def test_without_overwrite_a_link_that_leads_nowhere_is_left_before_any_request(downloads_of, tmp_path):
    link, elsewhere = tmp_path / "link.mp4", tmp_path / "elsewhere.mp4"
    link.symlink_to(elsewhere)
    async with site(Says(body=VIDEO)) as service:
        with pytest.raises(TargetExistsError, match=r"link\.mp4' already exists"):
            await downloads_of(service).download("task-1", link, overwrite=False)
        assert (service.requests, names(tmp_path)) == ([], ["link.mp4"])
        await downloads_of(service).download("task-1", link)
    assert elsewhere.read_bytes() == VIDEO


async def test_without_overwrite_a_file_that_is_created_during_the_transfer_is_left(downloads_of, target):
    target.path.unlink()
    async with site(RangeHost(VIDEO)) as service:
        downloads = downloads_of(service)
        with pytest.raises(TargetExistsError):
            await downloads.download(
                "task-1", target.path, overwrite=False, on_progress=lambda *_: target.path.write_bytes(OLD)
            )
        assert target.is_untouched()
        target.path.unlink()
        await downloads.download("task-1", target.path, overwrite=False)
    assert target.path.read_bytes() == VIDEO


STEPS = [(AtomicFile, "write"), (AtomicFile, "commit"), (PartialFile, "_inspect"), (AtomicFile, "truncate")]


@pytest.mark.parametrize(("cls", "step"), STEPS)
async def test_a_full_disk_is_a_download_error_that_names_the_file(cls, step, monkeypatch, fails):
    def full(*_: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cls, step, full)
    error, _ = await fails(
        in_turn(Says(body=VIDEO, cut=30_000), Says(body=VIDEO)), DownloadError, match="no space left"
    )
    assert "hero.mp4" in str(error)


async def test_a_write_that_fails_while_the_end_is_received_is_not_lost(monkeypatch, fails):
    write, calls = AtomicFile.write, iter(range(9))

    def full_once(file: AtomicFile, data: bytes) -> None:
        if not next(calls):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, data)

    monkeypatch.setattr(AtomicFile, "write", full_once)
    await fails(Says(body=video((1 << 20) + 5000)), DownloadError, match="no space left")


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
async def test_a_replaced_file_keeps_its_mode(target, saves):
    target.path.chmod(0o604)
    await saves(Says(body=VIDEO), VIDEO)
    assert target.path.stat().st_mode & 0o777 == 0o604


KILLED = """
import asyncio, sys
from vidgen_async import Client

async def main():
    async with Client("vg-key", base_url=sys.argv[1], journal="memory:") as client:
        await client.videos.download("task-1", sys.argv[2], on_progress=lambda *now: print(now, flush=True))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="without such locks the file stays")
async def test_the_next_download_removes_what_a_killed_one_left(downloads_of, target):
    long_video = video(3 << 20)

    async def behave(connection):
        await connection.request()
        if connection.number:
            await connection.answer(Says(body=long_video).wire())
        else:
            await connection.answer(Says(body=long_video, cut=0).wire() + long_video[: 2 << 20])
            await connection.rest()

    async with raw_service(behave) as raw:
        base = str(raw.url("/openapi/v1"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, base, str(target.path), stdout=asyncio.subprocess.PIPE
        )
        await process.stdout.readline()
        process.kill()
        await process.communicate()
        assert len(names(target.path.parent)) == 2
        await downloads_of(base).download("task-1", target.path)
    assert target.path.read_bytes() == long_video
    assert names(target.path.parent) == ["hero.mp4"]


async def test_two_downloads_to_one_target_do_not_mix(downloads_of, target):
    videos = [video(400_000, seed=seed) for seed in range(8)]
    async with site(lambda seen: RangeHost(videos[int(seen.target.split("/")[4])])(seen)) as service:
        downloads = downloads_of(service)
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(downloads.download(f"{number}", target.path))
    assert target.path.read_bytes() in videos
    assert names(target.path.parent) == ["hero.mp4"]


# -- progress and limits ---------------------------------------------------------------------------------------------


async def test_progress_ends_with_the_total_and_decreases_after_a_restart(downloads_of, target):
    seen = []
    script = in_turn(Says(body=VIDEO, cut=40_000), Says(body=VIDEO, framing="chunked"))
    async with site(script) as service:
        await downloads_of(service).download("task-1", target.path, on_progress=lambda *now: seen.append(now))
    assert seen[0] == (40_000, 100_000)
    assert seen[-1] == (100_000, None)


async def test_an_exception_of_on_progress_ends_the_download(downloads_of, target):
    def stop(received: int, total: int | None) -> None:
        raise LookupError

    async with site(Says(body=VIDEO)) as service:
        with pytest.raises(LookupError):
            await downloads_of(service).download("task-1", target.path, on_progress=stop)
    assert target.is_untouched()


async def test_the_error_of_a_timeout_states_what_failed_before_and_how_much_was_received(downloads_of, target, clock):
    async with site(in_turn(Says(body=VIDEO, cut=30_000), page(503, '{"error": "channel down"}'))) as service:
        with pytest.raises(DownloadError) as caught:
            await downloads_of(service).download("task-1", target.path, timeout=20)
    assert clock.now() == 20
    for words in ("within 20 s", "30000 bytes", "503", "channel down"):
        assert words in str(caught.value)
    assert isinstance(caught.value.__cause__, ServiceUnavailableError)
    assert caught.value.received == 30_000
    assert target.is_untouched()


async def test_a_timeout_before_any_failure_is_reported_as_such(target):
    clock = VirtualClock()

    async def handle(request):
        await clock.sleep(1000)

    with pytest.raises(
        DownloadError, match="not saved within 20 s; 0 bytes were received: the transfer was still in progress"
    ):
        await fake(handle, clock).download("task-1", target.path, timeout=20)


async def test_virtual_time_does_not_advance_while_a_thread_writes(downloads_of, target, monkeypatch):
    write = PartialFile._write

    def slowly(part: PartialFile, chunks: list[bytes]) -> None:
        threading.Event().wait(0.05)
        write(part, chunks)

    monkeypatch.setattr(PartialFile, "_write", slowly)
    async with site(Says(body=VIDEO)) as service:
        await downloads_of(service).download("task-1", target.path, timeout=1)
    assert target.path.read_bytes() == VIDEO


async def test_the_next_bytes_are_received_while_a_thread_writes(target, monkeypatch):
    received, write, in_time = threading.Event(), PartialFile._write, []

    def late(part: PartialFile, chunks: list[bytes]) -> None:
        in_time.append(received.wait(5))
        write(part, chunks)

    async def body():
        yield VIDEO[:5000]
        yield VIDEO[5000:]
        received.set()

    async def handle(request):
        headers = make_headers({"Content-Length": str(len(VIDEO))})
        return BufferedResponse(200, body(), headers=headers, url=request.url)

    monkeypatch.setattr(transfer, "_BUFFER_SIZE", 5000)
    monkeypatch.setattr(PartialFile, "_write", late)
    await fake(handle, VirtualClock()).download("task-1", target.path)
    assert all(in_time)
    assert target.path.read_bytes() == VIDEO


async def test_a_cancelled_transfer_waits_for_the_thread_that_writes_what_was_received_before(target, monkeypatch):
    writing, may_go_on, steps = threading.Event(), threading.Event(), []
    write, discard = PartialFile._write, PartialFile._discard

    def late(part: PartialFile, chunks: list[bytes]) -> None:
        writing.set()
        may_go_on.wait(5)
        write(part, chunks)
        steps.append("written")

    def noted(part: PartialFile) -> None:
        steps.append("discarded")
        discard(part)

    async def body():
        yield VIDEO[:5000]
        yield VIDEO[5000:10000]
        await asyncio.Event().wait()

    async def handle(request):
        return BufferedResponse(200, body(), url=request.url)

    monkeypatch.setattr(transfer, "_BUFFER_SIZE", 5000)
    monkeypatch.setattr(PartialFile, "_write", late)
    monkeypatch.setattr(PartialFile, "_discard", noted)
    worker = asyncio.ensure_future(fake(handle, VirtualClock()).download("task-1", target.path))
    await run_in_thread(writing.wait, 5)
    for _ in range(20):
        worker.cancel()
        await run_in_thread(bool)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert steps == ["written", "discarded"]
    assert target.is_untouched()


async def test_a_slow_transfer_of_ten_minutes_is_not_a_failure(target):
    clock = VirtualClock()

    async def drip():
        for start in range(0, len(VIDEO), 5000):
            await clock.sleep(30)
            yield VIDEO[start : start + 5000]

    async def handle(request):
        headers = make_headers({"Content-Type": "video/mp4", "Content-Length": str(len(VIDEO))})
        return BufferedResponse(200, drip(), headers=headers, url=request.url)

    await fake(handle, clock).download("task-1", target.path)
    assert clock.now() == 600
    assert target.path.read_bytes() == VIDEO


def fake(handle, clock, **options) -> Downloads:
    endpoints = endpoints_of(URL("https://service.example/openapi/v1"))
    return Downloads(Reads(FakeTransport(handle), clock, origin=endpoints.origin), endpoints, clock, **options)


# -- cancelled -------------------------------------------------------------------------------------------------------


def open_parts() -> list[str]:
    return [
        str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink() and reads_part(entry)
    ]


def reads_part(entry: Path) -> bool:
    try:
        return ".part" in str(entry.readlink())
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("steps", [*range(24), 30, 40, 60, 90, 150])
async def test_a_download_cancelled_at_any_await_leaves_the_old_file_or_the_complete_new_one(steps, target):
    closed = []

    async def body():
        for start in range(0, len(VIDEO), 30_000):
            await asyncio.sleep(0)
            yield VIDEO[start : start + 30_000]

    async def handle(request):
        async def close():
            closed.append(True)
            await asyncio.sleep(0)

        await asyncio.sleep(0)
        opened.append(True)
        headers = make_headers({"Content-Type": "video/mp4"})
        return BufferedResponse(200, body(), headers=headers, url=request.url, on_close=close)

    opened = []
    worker = asyncio.ensure_future(fake(handle, LoopClock()).download("task-1", target.path))
    for _ in range(steps):
        await asyncio.sleep(0)
    worker.cancel()
    await asyncio.wait({worker})

    assert worker.cancelled() or worker.result() == target.path
    assert target.path.read_bytes() in (OLD, VIDEO)
    assert names(target.path.parent) == ["hero.mp4"]
    assert len(closed) == len(opened)
    assert open_parts() == []


async def test_a_download_cancelled_during_a_transfer_closes_the_connection(downloads_of, target):
    sent, hung_up = asyncio.Event(), asyncio.Event()

    async def behave(connection):
        await connection.request()
        head = Says(body=VIDEO, cut=0).wire()
        await connection.answer(head + VIDEO[:60_000])
        sent.set()
        await connection.rest()
        hung_up.set()

    async with raw_service(behave) as raw:
        downloads = downloads_of(str(raw.url("/openapi/v1")))
        worker = asyncio.ensure_future(downloads.download("task-1", target.path, timeout=3600))
        await sent.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        async with asyncio.timeout(5):
            await hung_up.wait()
    assert target.is_untouched()
    assert open_parts() == []


async def test_cancelling_waits_for_the_thread_that_writes(downloads_of, target, monkeypatch):
    writing, may_go_on, write = threading.Event(), threading.Event(), PartialFile._write
    problems = []

    def slowly(part: PartialFile, chunks: list[bytes]) -> None:
        writing.set()
        may_go_on.wait(5)
        try:
            write(part, chunks)
        except BaseException as error:
            problems.append(error)
            raise

    monkeypatch.setattr(PartialFile, "_write", slowly)
    async with site(Says(body=VIDEO)) as service:
        worker = asyncio.ensure_future(downloads_of(service).download("task-1", target.path))
        await run_in_thread(writing.wait, 5)
        for _ in range(3):
            worker.cancel()
            await asyncio.sleep(0)
        assert not worker.done()
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await worker
    assert problems == []
    assert target.is_untouched()


# -- the loop and the memory -----------------------------------------------------------------------------------------


async def test_all_file_io_is_done_in_other_threads(saves, monkeypatch):
    threads = set()
    for cls, step in [*STEPS, (PartialFile, "_open"), (AtomicFile, "discard")]:
        work = getattr(cls, step)

        def noted(*args, work=work, **options):
            threads.add(threading.get_ident())
            return work(*args, **options)

        monkeypatch.setattr(cls, step, noted)
    await saves(in_turn(Says(body=VIDEO, cut=30_000), Says(body=VIDEO)), VIDEO)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.slow
async def test_a_large_video_needs_little_memory_and_few_threads(downloads_of, tmp_path, monkeypatch):
    size, piece = 24 << 20, os.urandom(1 << 16)
    head = video(1000)[: video(1000).index(b"mdat") - 4]
    head += (size - len(head)).to_bytes(4, "big") + b"mdat"
    writes, write = [], PartialFile._write

    def counted(part: PartialFile, chunks: list[bytes]) -> None:
        writes.append(len(chunks))
        write(part, chunks)

    async def behave(connection):
        await connection.request()
        start = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: %d\r\n\r\n" % size
        await connection.answer(start + head)
        left = size - len(head)
        while left:
            await connection.answer(piece[:left])
            left -= min(left, len(piece))

    monkeypatch.setattr(PartialFile, "_write", counted)
    async with raw_service(behave) as raw:
        tracemalloc.start()
        try:
            path = await downloads_of(str(raw.url("/openapi/v1"))).download("task-1", tmp_path / "big.mp4")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert path.stat().st_size == size
    assert peak < 8 << 20
    assert len(writes) < 75, "a thread is too dear for every 64 KiB"
