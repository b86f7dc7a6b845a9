"""The service under load: a bare protocol on the loopback, in a process of its own: its work is not counted.

``GET /openapi/v1/videos/{id}`` is a task (2.5, 4.5) that runs for ever; ``done-…`` is one that is completed. Peers find
theirs, of about the same size, at the paths of their own services. All questions for tasks are counted, by tenths of a
second of wall time: ``GET /counts`` tells them, ``/reset`` forgets them. ``/outage/{kind}/{seconds}`` begins one:
``reset`` aborts each connection that asks for a task, ``silent`` leaves what comes meanwhile without an answer.
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.client import HTTPConnection
from importlib.util import find_spec
from typing import TypeVar, cast
from urllib.parse import urlsplit

from attrs import field, frozen

from benchmarks.children import run_on_loop

S = TypeVar("S", bound="LoadService")

#: Connections that wait to be taken; a kernel may allow fewer.
BACKLOG = 4096
#: Arrivals are counted by so many parts of a second.
BUCKETS_PER_SECOND = 10

_CREATED_AT = 1795878327
_PROMPT = "A paper boat sails across a quiet harbour at dawn while the camera rises slowly over the roofs"

_OURS = {
    "id": "ID",
    "task_id": "ID",
    "status": "running",
    "model": "vendorh3",
    "points": 15,
    "video_url": None,
    "failure_reason": None,
    "upstream_task_id": "up-4fb1c2a09d7e",
    "provider": "channel-7",
    "created_at": _CREATED_AT,
    "updated_at": 1000000000,
    "progress": 42,
    "duration": 5,
    "ratio": "16:9",
    "resolution": "768p",
    "image_ids": ["img-4fb1c2a09d7e4fb1c2a09d7e"],
    "prompt": _PROMPT,
}
_OPENAI = {
    "id": "ID",
    "object": "video",
    "status": "in_progress",
    "model": "sora-2-pro",
    "progress": 42,
    "created_at": _CREATED_AT,
    "completed_at": None,
    "expires_at": 1000000000,
    "error": None,
    "remixed_from_video_id": None,
    "seconds": "8",
    "size": "1280x720",
    "quality": "standard",
    "prompt": _PROMPT,
    "user": "user-4fb1c2a09d7e4fb1c2a09d7e",
    "metadata": {"order": "order-1187", "channel": "channel-7"},
}
_RUNWAY = {
    "id": "ID",
    "status": "RUNNING",
    "createdAt": "2026-11-28T15:05:27.000Z",
    "updatedAt": 1000000000,
    "progress": 0.42,
    "progressText": None,
    "estimatedCost": {"credits": 25},
    "model": "gen4_turbo",
    "ratio": "1280:720",
    "duration": 5,
    "seed": 4294967295,
    "contentModeration": {"publicFigureThreshold": "auto"},
    "promptText": _PROMPT,
    "user": "user-4fb1c2a09d7e4fb1c2a09d7e",
    "metadata": {"order": "order-1187"},
}
_REPLICATE = {
    "id": "ID",
    "model": "minimax/video-01",
    "version": "5aa835260ff7f40f4069c41185f72036accf99e29957bb4a3b3a911f3b6c1912",
    "status": "processing",
    "input": {"prompt": _PROMPT},
    "output": None,
    "logs": "",
    "error": None,
    "metrics": None,
    "created_at": "2026-11-28T15:05:27.000Z",
    "started_at": "2026-11-28T15:05:28.000Z",
    "completed_at": None,
    "urls": {"get": "https://a.test/v1/predictions/ID", "cancel": "https://a.test/v1/predictions/ID/cancel"},
}

#: Where each service's tasks are, below its base URL, and what one looks like.
_TASKS = {
    b"/openapi/v1/videos/": _OURS,
    b"/openai/v1/videos/": _OPENAI,
    b"/runway/v1/tasks/": _RUNWAY,
    b"/replicate/v1/predictions/": _REPLICATE,
}
#: The state of a task of ours, and of one that is completed.
_DONE = (b'"running"', b'"completed"')


@frozen
class Counts:
    """What has arrived."""

    tasks: int
    """Questions for a task."""
    connections: int
    """Opened."""
    buckets: dict[int, int] = field(repr=False)
    """Questions for a task by tenths of a second since the epoch."""


@frozen
class LoadService:
    """The running service, seen from outside."""

    url: str
    """Scheme, host and port."""

    @property
    def base_url(self) -> str:
        """Of the service that is ours."""
        return f"{self.url}/openapi/v1"

    def counts(self) -> Counts:
        found = json.loads(self._told("/counts"))
        buckets = {int(bucket): count for bucket, count in found["buckets"].items()}
        return Counts(found["tasks"], found["connections"], buckets)

    def reset(self) -> None:
        """Forget all arrivals."""
        self._told("/reset")

    def begin_outage(self, kind: str, seconds: float) -> None:
        """``reset`` or ``silent``, from now on."""
        self._told(f"/outage/{kind}/{seconds:g}")

    def _told(self, path: str) -> bytes:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextmanager
def running(module: str, seen_as: Callable[[str], S]) -> Iterator[S]:
    """The service of that module in a process of its own. It ends with the block, and with this process."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as door:
        command = [sys.executable, "-m", module, str(door.fileno())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[door.fileno()]) as process:  # noqa: S603 - ours
            try:
                yield seen_as(f"http://127.0.0.1:{door.getsockname()[1]}")
            finally:
                process.terminate()


def running_service() -> AbstractContextManager[LoadService]:
    return running("benchmarks.load_service", LoadService)


def answer_of(body: bytes) -> bytes:
    """With the headers that a service behind a proxy sends."""
    return (
        b"HTTP/1.1 200 OK\r\n"
        b"Server: nginx\r\n"
        b"Date: Sat, 28 Nov 2026 15:05:27 GMT\r\n"
        b"Content-Type: application/json; charset=utf-8\r\n"
        b"Content-Length: %d\r\n"
        b"Connection: keep-alive\r\n"
        b"Cache-Control: no-store\r\n"
        b"X-Request-Id: req_5f1c9b27a4e04d6c\r\n\r\n" % len(body)
    ) + body


def task_body(prefix: bytes, task_id: bytes, second: int) -> bytes:
    """The JSON of a task as it is in that second: what is read twice is not the same bytes for ever."""
    body = _BODIES[prefix].replace(b"ID", task_id).replace(b"1000000000", b"%d" % second)
    return body.replace(*_DONE) if task_id.startswith(b"done-") else body


_BODIES = {prefix: json.dumps(task, separators=(",", ":")).encode() for prefix, task in _TASKS.items()}


class State:
    """What all connections share."""

    def __init__(self) -> None:
        self.connections = 0
        self.buckets: Counter[int] = Counter()
        self.outage_until = 0.0
        self.outage_is_silent = False

    def told(self, path: str) -> bytes:
        """The answer to anything that is no question for a task."""
        if path == "/reset":
            self.connections = 0
            self.buckets.clear()
        elif path.startswith("/outage/"):
            _, _, kind, seconds = path.split("/")
            self.outage_is_silent = kind == "silent"
            self.outage_until = time.time() + float(seconds)
        counts = {"tasks": self.buckets.total(), "connections": self.connections, "buckets": self.buckets}
        return json.dumps(counts).encode()


class Connection(asyncio.Protocol):
    """One connection, kept alive for as long as the client likes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._state.connections += 1

    def data_received(self, data: bytes) -> None:
        heads = (self._held + data).split(b"\r\n\r\n")
        self._held = heads.pop()
        for head in heads:
            self._asked(head.split(b" ", 2)[1])

    def _asked(self, target: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        prefix, slash, task_id = target.rpartition(b"/")
        prefix += slash
        if prefix not in _BODIES:
            transport.write(answer_of(self._state.told(target.decode())))
            return
        now, state = time.time(), self._state
        state.buckets[int(now * BUCKETS_PER_SECOND)] += 1
        if now >= state.outage_until:
            transport.write(answer_of(task_body(prefix, task_id, int(now))))
        elif not state.outage_is_silent:
            transport.abort()


def serve(door: socket.socket, connection: Callable[[], Connection]) -> None:
    """Until the process that started this one is gone."""

    async def work() -> None:
        async with await asyncio.get_running_loop().create_server(connection, sock=door, backlog=BACKLOG):
            await asyncio.to_thread(sys.stdin.read)

    run_on_loop(work(), is_uvloop=find_spec("uvloop") is not None)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), partial(Connection, State()))
