"""A killed recording: its finished interactions can be recovered, it contains no secret, and the old cassette
stands."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cassette.planted_secrets import answered, files_in, leaks
from tests.cassette.recording_child import KEY, request
from tests.cassette.recording_harness import read
from tests.transports.raw_service import Connection, raw_service
from vidgen_async.cassette import Cassette, RecoveredRecording, load, recover
from vidgen_async.errors import CassetteBusyError
from vidgen_async.transports import (
    AppendingTransport,
    DirectTransport,
    FakeTransport,
    RecordingTransport,
)

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("idempotency", "sent", "query", "token", "sig", "hook", "cookie", "blob")


def secrets_up_to(count: int) -> list[str]:
    return [KEY, *(f"Zq7-{kind}-{number}k9" for kind in KINDS for number in range(count))]


def answer(number: int) -> bytes:
    value = {
        "id": f"task-{number}",
        "token": f"Zq7-token-{number}k9",
        "video_url": f"https://cdn.other.test/{number}.mp4?exp=1798761600&sig=Zq7-sig-{number}k9",
        "notify": f"https://hooks.other.test/services/Zq7-hook-{number}k9",
        "echo": f"your key is {KEY}, your token Zq7-sent-{number}k9",
    }
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Set-Cookie: sid=Zq7-cookie-{number}k9\r\n\r\n".encode() + body


def service(*, silent_at: int = -1, half_at: int = -1, has_asked: asyncio.Event | None = None) -> Any:
    """Responds, but not to one request (then ``has_asked`` is set), and to another with half a response."""

    async def behave(connection: Connection) -> None:
        while True:
            number = int((await connection.request()).split(b"/videos/")[1].split(b"?")[0])
            if number == silent_at:
                if has_asked is not None:
                    has_asked.set()
                await asyncio.Event().wait()
            data = answer(number)
            if number == half_at:
                await connection.answer(data[:-40])
                await asyncio.Event().wait()
            await connection.answer(data)

    return behave


@asynccontextmanager
async def child(path: Path, base: str, **wanted: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """The recording process, which has ended when the block is left."""
    told = json.dumps({"path": str(path), "base": base, **wanted})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.cassette.recording_child", told, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    assert await process.wait() == -signal.SIGKILL


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "recording").mkdir()
    return tmp_path / "recording" / "a.cassette.json"


def check_left(directory: Path, count: int) -> None:
    """No file contains a secret."""
    everything = files_in(directory)
    text = b"\n".join(everything.values()).lower()
    assert not [secret for secret in secrets_up_to(count) if secret.lower().encode() in text]
    assert not leaks(everything, KEY)


def numbers_of(recovered: RecoveredRecording) -> list[int]:
    return [interaction.request.body["json"]["n"] for interaction in recovered.document.interactions]


async def record_one(path: Path, number: int) -> RecordingTransport:
    """A recording of one interaction, which is in progress."""
    transport = RecordingTransport(FakeTransport(lambda _: asyncio.sleep(0, answered())), path)
    await read(transport, request("https://api.test/openapi/v1", number))
    return transport


async def make_old_cassette(path: Path) -> None:
    """A cassette of one interaction that exists before the recording."""
    await (await record_one(path, 99)).aclose()


# -- killed for real: a process that holds its recording, and is gone with SIGKILL -------------------------------------


@pytest.mark.slow
async def test_a_killed_recording_was_locked_can_be_recovered_and_survives_the_next_one(path):
    await make_old_cassette(path)
    before = path.read_bytes()
    has_asked = asyncio.Event()
    second = RecordingTransport(FakeTransport(lambda _: asyncio.sleep(0, answered())), path)
    async with (
        raw_service(service(silent_at=3, has_asked=has_asked)) as host,
        child(path, str(host.url("/openapi/v1")), count=4) as process,
    ):
        await has_asked.wait()
        with pytest.raises(CassetteBusyError):
            await second.send(request("https://api.test/openapi/v1", 5))
        await kill(process)
    recovered = recover(Cassette(path).part)

    assert second.inner.requests == []
    assert numbers_of(recovered) == [0, 1, 2]
    assert recovered.damaged == 0
    check_unfinished(recovered, 3)
    assert path.read_bytes() == before
    check_left(path.parent, 4)
    await second.aclose()

    transport = await record_one(path, 7)
    left = recover(path.parent / "a.cassette.json.part.old")
    assert numbers_of(left) == [0, 1, 2]
    assert left.target == path
    assert numbers_of(recover(Cassette(path).part)) == [7]
    check_left(path.parent, 8)
    await transport.aclose()
    assert [interaction.request.body["json"]["n"] for interaction in load(path).interactions] == [7]
    assert sorted(files_in(path.parent)) == ["a.cassette.json", "a.cassette.json.part.old"]


# -- as if it were killed: what is in the directory at that moment, and nothing of what the process holds --------------


def left_by_a_kill(path: Path) -> Path:
    """The path of the cassette in a copy of its directory."""
    left = path.parent.with_name("as it was left")
    shutil.copytree(path.parent, left)
    return left / path.name


async def recorded_and_left(
    path: Path, kind: type = RecordingTransport, *, count: int = 4, at: str = "waiting"
) -> Path:
    """The file of a recording that ends while it waits for the last response, within its body, or after it."""
    reached = asyncio.Event()

    async def program(base: str) -> None:
        try:
            for number in range(count):
                async with await transport.send(request(base, number)) as response:
                    async for _ in response.chunks():
                        if at == "in a body" and number == count - 1:
                            reached.set()
        finally:
            reached.set()

    silent_at, half_at = {"waiting": (count - 1, -1), "in a body": (-1, count - 1)}.get(at, (-1, -1))
    transport = kind(DirectTransport(), path)
    async with raw_service(service(silent_at=silent_at, half_at=half_at, has_asked=reached)) as host:
        recording = asyncio.ensure_future(program(str(host.url("/openapi/v1"))))
        await reached.wait()
        left = left_by_a_kill(path)
        recording.cancel()
        await asyncio.wait({recording})
        transport.give_up()
        await transport.aclose()
    assert Cassette(left).part.stat().st_mode & 0o777 == 0o600
    return left


@pytest.mark.parametrize(
    ("at", "count"), [("waiting", 1), ("waiting", 4), ("in a body", 4), ("between two requests", 3)]
)
async def test_all_finished_interactions_are_recovered_without_secrets(at, count, path):
    await make_old_cassette(path)
    before = path.read_bytes()

    left = await recorded_and_left(path, count=count, at=at)

    recovered = recover(Cassette(left).part)
    finished = count if at == "between two requests" else count - 1
    assert numbers_of(recovered) == list(range(finished))
    assert recovered.damaged == 0
    if at != "between two requests":
        check_unfinished(recovered, finished)
    assert left.read_bytes() == before
    check_left(left.parent, 4)


def check_unfinished(recovered: RecoveredRecording, number: int) -> None:
    (line,) = recovered.unfinished
    assert line.startswith("POST http://127.0.0.1:")
    assert f"/videos/{number}?token=REDACTED-token-" in line


@pytest.mark.parametrize("halt", ["flush", "replace", "discard"])
async def test_a_kill_while_publishing_leaves_either_the_complete_old_or_the_complete_new_cassette(
    halt, path, monkeypatch
):
    await make_old_cassette(path)
    before, left = path.read_bytes(), []
    flush, replace = os.fsync, Path.replace

    def at_flush(descriptor: int) -> None:
        left.append(left_by_a_kill(path))
        flush(descriptor)

    def at_replace(self: Path, target: Path) -> Path:
        if Path(target) == path and halt == "replace":
            left.append(left_by_a_kill(path))
        moved = replace(self, target)
        if Path(target) == path and halt == "discard":
            left.append(left_by_a_kill(path))
        return moved

    async with raw_service(service()) as host:
        transport = RecordingTransport(DirectTransport(), path)
        for number in range(3):
            await read(transport, request(str(host.url("/openapi/v1")), number))
        with monkeypatch.context() as halted:
            if halt == "flush":
                halted.setattr(os, "fsync", at_flush)
            else:
                halted.setattr(Path, "replace", at_replace)
            await transport.aclose()

    (halted_at,) = left
    check_halted(halted_at, before, halt, halted_at.parent)


def check_halted(path: Path, before: bytes, halt: str, directory: Path) -> None:
    """One of the cassettes is complete, and the recording can still be published."""
    recovered = recover(Cassette(path).part)
    assert numbers_of(recovered) == [0, 1, 2]
    if halt == "discard":
        assert load(path) == recovered.document
    else:
        assert path.read_bytes() == before
    check_left(directory, 3)

    published = recovered.publish()
    assert load(published).interactions == recovered.document.interactions
    check_left(directory, 3)


async def test_a_killed_appending_recording_is_recovered_together_with_its_cassette(path):
    await make_old_cassette(path)

    left = await recorded_and_left(path, AppendingTransport, count=3)

    recovered = recover(Cassette(left).part)
    assert numbers_of(recovered) == [99, 0, 1]
    assert [interaction.n for interaction in recovered.document.interactions] == [1, 2, 3]
    published = recovered.publish()
    assert load(published) == recovered.document
    check_left(left.parent, 3)


async def test_at_whatever_byte_the_file_ends_all_complete_lines_are_recovered(path, tmp_path):
    left = await recorded_and_left(path, count=3)
    data = Cassette(left).part.read_bytes()
    lines = data.splitlines(keepends=True)
    ends = [sum(map(len, lines[: at + 1])) for at in range(len(lines))]
    torn = tmp_path / "torn.cassette.json.part"

    near = {cut for end in ends for cut in range(end - 3, end + 2)}
    for cut in sorted({*range(len(lines[0]), len(data) + 1, 29), *near} & {*range(len(lines[0]), len(data) + 1)}):
        torn.write_bytes(data[:cut])
        recovered = recover(torn)
        whole = [json.loads(line) for line in lines[: sum(end - 1 <= cut for end in ends)]]
        assert len(recovered.document.interactions) == sum(line["e"] == "done" for line in whole), cut
        assert recovered.damaged == (not any(cut in (end, end - 1) for end in ends)), cut


async def test_a_damaged_line_loses_only_its_own_interaction(path):
    left = await recorded_and_left(path, count=3, at="between two requests")
    part = Cassette(left).part
    lines = part.read_bytes().splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if json.loads(line)["e"] == "done" and json.loads(line)["n"] == 2)
    part.write_bytes(b"".join([*lines[:at], lines[at][:30] + b"\0\0\0\xff\n", *lines[at + 1 :]]))

    recovered = recover(part)

    assert numbers_of(recovered) == [0, 2]
    assert recovered.damaged == 1
    assert len(recovered.unfinished) == 1


async def test_the_files_of_several_killed_recordings_survive_the_next_publication(path):
    for number in range(4):
        transport = await record_one(path, number)
        if number < 3:
            transport.give_up()
        await transport.aclose()

    left = [recover(path.with_name(f"{path.name}.part.old{ending}")) for ending in ("", 2, 3)]
    assert [(numbers_of(one), one.target) for one in left] == [([number], path) for number in range(3)]
    assert len(list(path.parent.iterdir())) == 4
