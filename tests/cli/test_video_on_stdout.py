"""``-o -``: the video on stdout, everything else on stderr."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vidgen_async.cli.targets import copy_to_stdout
from vidgen_async.sandbox import Fault

from .conftest import BOAT, Input, Stream

TO_STDOUT = (*BOAT[:-1], "-")


class Descriptor(Stream):
    """A stdout with a file descriptor."""

    def __init__(self, number: int, *, is_terminal: bool = False) -> None:
        super().__init__({}, is_terminal=is_terminal)
        self._number = number

    def fileno(self) -> int:
        return self._number


@pytest.fixture
def to_stdout(run_here: Callable[..., int], in_service: None, tmp_path: Path) -> Callable[..., tuple[int, bytes, str]]:
    """Runs ``vidgen …`` with a file as stdout; returns the exit code, the file's content and stderr."""

    def run(*arguments: str, stdout: int | None = None, is_terminal: bool = False) -> tuple[int, bytes, str]:
        stderr, path = Stream({}), tmp_path / "stdout"
        with path.open("wb") as file:
            stream = Descriptor(file.fileno() if stdout is None else stdout, is_terminal=is_terminal)
            code = run_here(*arguments, stdin=Input(), stdout=stream, stderr=stderr)
        assert stream.text == "", "nothing but the video"
        return code, path.read_bytes(), stderr.text

    return run


@pytest.fixture
def task_id(here, service) -> str:
    return here("create", "x", "--model", "gen-2.0")[1].strip()


def is_video(data: bytes) -> bool:
    return data[4:8] == b"ftyp" and len(data) > 10_000


def test_the_whole_video_is_on_stdout_and_the_progress_on_stderr(to_stdout, service):
    code, out, err = to_stdout(*TO_STDOUT)
    assert (code, is_video(out)) == (0, True)
    assert service.creates[0].task_id in err
    assert "video: written to stdout (" in err


def test_download_and_wait_write_to_stdout_too(to_stdout, task_id, tmp_path):
    for command in (("download", task_id), ("wait", task_id, "--poll-interval", "0.05")):
        code, out, err = to_stdout(*command, "-o", "-")
        assert (code, is_video(out)) == (0, True)
        assert "video: written to stdout (" in err
    assert [path.name for path in tmp_path.iterdir()] == ["stdout"]


def test_with_json_the_document_is_on_stderr(to_stdout, task_id):
    code, out, err = to_stdout("download", task_id, "-o", "-", "--json")
    assert (code, is_video(out)) == (0, True)
    document = json.loads(err)["video"]
    assert (document["task_id"], document["bytes"]) == (task_id, len(out))


def test_a_terminal_is_refused_before_anything_is_ordered_unless_forced(to_stdout, service):
    code, out, err = to_stdout(*TO_STDOUT, is_terminal=True)
    assert (code, out) == (2, b"")
    assert "a video is not written to a terminal" in err
    assert service.creates == []
    code, out, _ = to_stdout(*TO_STDOUT, "--force", is_terminal=True)
    assert (code, is_video(out)) == (0, True)


def test_an_incomplete_transfer_writes_nothing_to_stdout(to_stdout, task_id, service):
    service.add_fault("videos.content", Fault.status(410), times=None)
    code, out, err = to_stdout("download", task_id, "-o", "-")
    assert (code, out) == (7, b"")
    assert "error: " in err


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.fixture
def full_disk() -> Iterator[int]:
    number = os.open("/dev/full", os.O_WRONLY)
    yield number
    os.close(number)


def test_a_video_that_stdout_did_not_take_is_exit_code_7_with_the_command_to_resume(
    to_stdout, task_id, closed_pipe, full_disk
):
    for stdout, why in ((closed_pipe, "its reader closed it"), (full_disk, "No space left on device")):
        code, _, err = to_stdout("download", task_id, "-o", "-", stdout=stdout)
        assert code == 7
        assert f"was not completely written to stdout: {why}.\n" in err
        assert err.endswith(f"  vidgen wait {task_id} -o -\n")


def test_a_closed_stdout_is_exit_code_7(run_here, in_service, task_id, tmp_path):
    for command in (("download", task_id), ("wait", task_id, "--poll-interval", "0.05"), TO_STDOUT[:-2]):
        stderr = Stream({})
        assert run_here(*command, "-o", "-", stdin=Input(), stdout=None, stderr=stderr) == 7
        assert "was not completely written to stdout: it is closed.\n" in stderr.text
    assert list(tmp_path.iterdir()) == []


async def test_a_copy_to_a_pipe_that_nobody_reads_can_be_cancelled(monkeypatch, tmp_path):
    path = tmp_path / "video"
    path.write_bytes(bytes(1 << 20))
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdout", Descriptor(writing))
    copying = asyncio.ensure_future(copy_to_stdout(path))
    await asyncio.to_thread(os.read, reading, 1)  # it has begun
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    await asyncio.get_running_loop().shutdown_default_executor()
    os.close(reading)
    os.close(writing)
