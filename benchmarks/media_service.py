"""The service of the benchmarks of creates, files and cassettes, in a process of its own on the loopback interface.

``POST /videos`` and ``POST /files`` are answered at once. ``GET /videos/{polls}-{name}`` is a task that is completed at
its poll number ``polls``; each answer has another ``updated_at``, unless the name is ``same``. Its ``/content`` is a
video of as many megabytes. The tasks that creates make fail. All else is not found.
"""

import asyncio
import json
import socket
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count

from benchmarks.children import run_on_loop

BASE = "/openapi/v1"
MEGABYTE = 1 << 20
KEY = "vgKey4fT8xQ2mL7pZ1c"
SIGNATURE, COOKIE = "vgSig1qS7jL4oX", "vgCookie5hM8rE3uB0"

_BACKLOG = 4096
_CREATED_AT = 1795878327
_TASK = {
    "id": "",
    "task_id": "",
    "status": "",
    "model": "gen-2.0",
    "points": 20,
    "video_url": None,
    "failure_reason": None,
    "upstream_task_id": None,
    "provider": "channel",
    "created_at": _CREATED_AT,
    "updated_at": _CREATED_AT,
}
_ASSET = (
    b'{"id":"img-1","image_id":"img-1","url":"/api/reference-assets/img-1/content/a.png?token=t","mime":"image/png"}'
)
_PIECE = bytes(range(256)) * 4096


def statuses(polls: int) -> list[str]:
    """The status of a task at each of its polls."""
    return [_status(poll, polls) for poll in range(1, polls + 1)]


def _status(poll: int, polls: int) -> str:
    if polls == 0:
        return "failed"
    if poll >= polls:
        return "completed"
    return "queued" if poll <= polls // 4 else "running"


@contextmanager
def running_media_service() -> Iterator[str]:
    """Its base URL. It ends with the block, and with this process."""
    with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as door:
        command = [sys.executable, "-m", "benchmarks.media_service", str(door.fileno())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[door.fileno()]) as process:  # noqa: S603 - ours
            try:
                yield f"http://127.0.0.1:{door.getsockname()[1]}{BASE}"
            finally:
                process.terminate()


class MediaService:
    def __init__(self) -> None:
        self._polls: Counter[str] = Counter()
        self._numbers = count(1)

    async def serve(self, door: socket.socket) -> None:
        """Serve until the process that started this one has ended."""
        async with await asyncio.start_server(self._connection, sock=door, backlog=_BACKLOG, limit=MEGABYTE):
            await asyncio.to_thread(sys.stdin.read)

    async def _connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError, EOFError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await _skip_body(reader, head.lower())
                method, target, _ = head.split(" ", 2)
                await self._answer(writer, method, target.removeprefix(BASE).strip("/").split("/"))
        writer.close()

    async def _answer(self, writer: StreamWriter, method: str, path: list[str]) -> None:
        match method, path:
            case "POST", ["videos"]:
                self._write(writer, b'{"id":"0-%d","status":"queued"}' % next(self._numbers), status=202)
            case "POST", _:
                self._write(writer, _ASSET)
            case _, ["videos", task_id, "content"]:
                await _write_video(writer, int(task_id.partition("-")[0]) * MEGABYTE)
            case _, [_, task_id]:
                self._write(writer, self._task(task_id))
            case _:
                self._write(writer, b"{}", status=404)
        await writer.drain()

    def _task(self, task_id: str) -> bytes:
        self._polls[task_id] += 1
        status = _status(self._polls[task_id], int(task_id.partition("-")[0]))
        link = f"https://cdn.test/{task_id}.mp4?exp=1893456000&sig={SIGNATURE}" if status == "completed" else None
        updated_at = _CREATED_AT + (0 if task_id.endswith("-same") else self._polls[task_id])
        now = {"status": status, "video_url": link, "updated_at": updated_at}
        return json.dumps({**_TASK, "id": task_id, "task_id": task_id, **now}).encode()

    def _write(self, writer: StreamWriter, body: bytes, *, status: int = 200) -> None:
        head = (
            f"HTTP/1.1 {status} OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            f"X-Request-Id: req_{next(self._numbers):016x}\r\nDate: Sat, 28 Nov 2026 15:05:27 GMT\r\n"
            f"Set-Cookie: session={COOKIE}; Path=/\r\n\r\n"
        )
        writer.write(head.encode() + body)


async def _skip_body(reader: StreamReader, head: str) -> None:
    _, _, rest = head.partition("\r\ncontent-length:")
    left = int(rest.partition("\r\n")[0] or 0)
    if "\r\nexpect: 100-continue" in head:
        raise EOFError
    while left:
        left -= len(await reader.read(min(left, MEGABYTE))) or sys.exit("a body ended early")


async def _write_video(writer: StreamWriter, length: int) -> None:
    """An MP4 whose media data is the rest of its length."""
    boxes = b"\0\0\0\x14ftypisom\0\0\2\0isom\0\0\0\x10moov\0\0\0\0\0\0\0\0"
    boxes += (length - len(boxes)).to_bytes(4, "big") + b"mdat"
    head = f'HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: {length}\r\nETag: "1"\r\n\r\n'
    writer.write(head.encode() + boxes + _PIECE[len(boxes) :])
    for _ in range(length // len(_PIECE) - 1):
        await writer.drain()
        writer.write(_PIECE)


if __name__ == "__main__":
    run_on_loop(MediaService().serve(socket.socket(fileno=int(sys.argv[1]))), is_uvloop=find_spec("uvloop") is not None)
