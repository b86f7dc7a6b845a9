"""A service that writes down what reaches it, as a process of its own.

It reads its options as a line of JSON on stdin, says its port on stdout and serves until its stdin ends. Each event is
one line of JSON in the file ``record``, on disk before the service continues: the record is what happened,
whichever process is killed afterwards. Times are this process's monotonic clock.

The prompt of an order, ``ORDER: BEHAVIOUR BEHAVIOUR …``, determines how its POSTs are handled: one behaviour for each,
the last one for all that follow. A base URL below ``/headers-only`` leads to a listener that reads only the headers of
a create. ``unread`` is the probability of a reset before the headers are read, and again before the body is.

Nothing here knows a repeated key: each create that is taken is another task, which shows every POST too many.
"""

import asyncio
import hashlib
import json
import os
import random
import re
import socket
import struct
import sys
import time
from collections import deque
from itertools import count

from attrs import frozen


@frozen(kw_only=True)
class Options:
    record: str
    """The path of the file."""
    limit: int = 1_000_000
    window: float = 60.0
    retry_after: int = 0
    """In each 429."""
    latency: float = 0.0
    unread: float = 0.0
    seed: int = 0


#: Closing sends a reset.
ABRUPT = struct.pack("ii", 1, 0)
ERRORS = (ConnectionError, asyncio.IncompleteReadError)


class Record:
    """Appends events to a file, each on disk when ``write`` returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def write(self, what: str, **facts: object) -> None:
        line = json.dumps({"what": what, "at": time.monotonic(), **facts}) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)


class Sends:
    """The POSTs of one order."""

    def __init__(self) -> None:
        self.begun = 0
        self.answered = 0
        self.news = asyncio.Event()

    def note_answer(self) -> None:
        self.answered += 1
        self.news.set()


class Service:
    def __init__(self, options: Options) -> None:
        self._record = Record(options.record)
        self._options = options
        self._random = random.Random(options.seed)  # noqa: S311 - a repeatable choice, not a secret
        self._connections = count(1)
        self._posts = count(1)
        self._sends: dict[str, Sends] = {}
        self._recent: deque[float] = deque()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = next(self._connections)
        self._record.write("connected", connection=connection)
        try:
            if self._is_unlucky():
                _reset(writer)
            else:
                await self._request(connection, reader, writer)
        except ERRORS:
            pass
        finally:
            writer.close()
            self._record.write("closed", connection=connection)

    async def _request(self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split(" ", 2)
        headers = dict(re.findall(r"^([\w-]+): *(.*?)\r$", head.lower(), re.MULTILINE))
        if method != "POST":
            task = {"id": path.rpartition("/")[2], "status": "completed", "model": "gen-2.0"}
            await self._send(writer, 200, task)
            return
        number = next(self._posts)
        key = re.search(r"^idempotency-key: *(.*?)\r$", head, re.MULTILINE | re.IGNORECASE)
        shown = re.search(r"^authorization: *(.*?)\r$", head, re.MULTILINE | re.IGNORECASE)
        self._record.write(
            "head",
            post=number,
            connection=connection,
            key=key and key[1],
            authorization=shown and hashlib.sha256(shown[1].encode()).hexdigest(),
        )
        if path.startswith("/headers-only/"):
            await asyncio.Event().wait()
        if self._is_unlucky():
            _reset(writer)
            return
        body = await reader.readexactly(int(headers["content-length"]))
        order, _, plan = json.loads(body)["prompt"].partition(": ")
        self._record.write("body", post=number, order=order, sha256=hashlib.sha256(body).hexdigest())
        sends = self._sends.setdefault(order, Sends())
        sends.begun += 1
        behaviours = plan.split()
        behaviour = behaviours[min(sends.begun, len(behaviours)) - 1]
        await self._answer(number, behaviour, sends, reader, writer)

    async def _answer(
        self,
        number: int,
        behaviour: str,
        sends: Sends,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        name, _, value = behaviour.partition("=")
        await self._pause(value if name == "late" else 0)
        if not self._has_room():
            name, value = "status", "429"
        await self._pause(0)
        if name == "hang":
            await reader.read()
        elif name == "last":  # answered once a later POST of the order has been
            while not sends.answered:
                sends.news.clear()
                await sends.news.wait()
            await self._take(number, sends, writer)
        elif name == "reset":
            _reset(writer)
        elif name == "half":
            self._record.write("answer", post=number, status=202)
            writer.write(b'HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n{"id": "task-')
            await writer.drain()
        elif name == "nameless":
            self._record.write("answer", post=number, status=202)
            await self._send(writer, 202, {"upstream_task_id": "u-1"})
        elif name == "status":
            self._record.write("answer", post=number, status=int(value))
            await self._send(writer, int(value), {"error": "so it was asked for"})
            sends.note_answer()
        else:
            await self._take(number, sends, writer)

    async def _take(self, number: int, sends: Sends, writer: asyncio.StreamWriter) -> None:
        task_id = f"task-{number}"
        self._record.write("answer", post=number, status=202, task_id=task_id)
        await self._send(writer, 202, {"id": task_id})
        sends.note_answer()

    def _is_unlucky(self) -> bool:
        return self._random.random() < self._options.unread

    async def _pause(self, seconds: float | str) -> None:
        await asyncio.sleep(float(seconds) + self._random.random() * self._options.latency)

    def _has_room(self) -> bool:
        """Whether the rolling limit lets one more pass; refused ones count too."""
        now = time.monotonic()
        while self._recent and self._recent[0] <= now - self._options.window:
            self._recent.popleft()
        self._recent.append(now)
        return len(self._recent) <= self._options.limit

    async def _send(self, writer: asyncio.StreamWriter, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} S\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if status == 429:
            head += f"Retry-After: {self._options.retry_after}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPT)
    writer.transport.abort()


async def serve(options: Options) -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # what is not read does not leave the client
    listening.bind(("127.0.0.1", 0))
    service = Service(options)
    async with await asyncio.start_server(service.serve, sock=listening, backlog=1024):
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        end = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(end), sys.stdin)
        await end.read()
        os._exit(0)  # hanging handlers are not awaited


def main() -> None:
    asyncio.run(serve(Options(**json.loads(sys.stdin.readline()))))
