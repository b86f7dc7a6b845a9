"""The service that is recorded: bare asyncio on the loopback, in a process of its own: its work is not counted.

``GET /videos/{polls}-{name}`` is a task that is completed at its poll number ``polls``; each answer has another
``updated_at``, unless the name is ``same``. Its ``/content`` would be a video of so many megabytes. And there are the
answers with planted secrets.
"""

import asyncio
import json
import socket
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from benchmarks.cassette_secrets import EXCHANGES

BASE = "/openapi/v1"
MEGABYTE = 1 << 20
_PIECE = bytes(range(256)) * 256
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
_PLANTED = {(exchange.method, exchange.path): exchange for exchange in EXCHANGES}


def statuses(polls: int) -> list[str]:
    """What a task says at each of its polls."""
    return [_status(poll, polls) for poll in range(1, polls + 1)]


def _status(poll: int, polls: int) -> str:
    if poll >= polls:
        return "completed"
    return "queued" if poll <= polls // 4 else "running"


@contextmanager
def running_service() -> Iterator[str]:
    """Its base URL. It ends with the block, and with this process."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        command = [sys.executable, "-m", "benchmarks.cassette_service", str(door.fileno())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[door.fileno()]) as process:  # noqa: S603 - ours
            try:
                yield f"http://127.0.0.1:{door.getsockname()[1]}{BASE}"
            finally:
                process.terminate()


class Service:
    def __init__(self) -> None:
        self._polls: Counter[str] = Counter()
        self._answers = 0

    async def serve(self, door: socket.socket) -> None:
        """Until the process that started it is gone."""
        async with await asyncio.start_server(self._connection, sock=door):
            await asyncio.to_thread(sys.stdin.read)

    async def _connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError, EOFError):
            while True:
                await self._exchange(reader, writer)
        writer.close()

    async def _exchange(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split("\r\n")[0].split(" ")
        for line in head.lower().split("\r\n"):
            if line.startswith("content-length:"):
                await reader.readexactly(int(line.partition(":")[2]))
        path = target.removeprefix(BASE)
        if exchange := _PLANTED.get((method, path)):
            self._answer(writer, exchange.status, exchange.answer_body, exchange.answer_headers)
        elif path.endswith("/content"):
            await _video(writer, int(path.split("/")[2].partition("-")[0]) * MEGABYTE)
        else:
            self._answer(writer, 200, self._task(path.removeprefix("/videos/")))
        await writer.drain()

    def _task(self, task_id: str) -> bytes:
        self._polls[task_id] += 1
        status = _status(self._polls[task_id], int(task_id.partition("-")[0]))
        link = f"https://cdn.test/{task_id}.mp4?exp=1893456000&sig=5f1c9b" if status == "completed" else None
        updated_at = _CREATED_AT + (0 if task_id.endswith("-same") else self._polls[task_id])
        now = {"status": status, "video_url": link, "updated_at": updated_at}
        return json.dumps({**_TASK, "id": task_id, "task_id": task_id, **now}).encode()

    def _answer(self, writer: StreamWriter, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self._answers += 1
        lines = {
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(body)),
            "X-Request-Id": f"req_{self._answers:016x}",
            "Date": "Sat, 28 Nov 2026 15:05:27 GMT",
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {status} as asked\r\n{head}\r\n".encode() + body)


async def _video(writer: StreamWriter, length: int) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: {length}\r\n\r\n".encode())
    for _ in range(length // len(_PIECE)):
        writer.write(_PIECE)
        await writer.drain()


if __name__ == "__main__":
    asyncio.run(Service().serve(socket.socket(fileno=int(sys.argv[1]))))
