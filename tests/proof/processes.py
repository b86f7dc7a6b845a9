"""The service and the workers as processes, and the oracles, which read the service's record and the journal alone."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest
from attrs import field, frozen, mutable

from tests.proof.forker import SERVICE, WORKER

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-proof-6uQ2mXv9TzR4kWc7"
#: Further than any deadline.
LATER = 2 * 86400.0
#: Nothing here takes this many seconds; it is the difference between a failure and a hang.
TOO_LONG = 60.0
REFUSALS = frozenset({400, 402, 429})
#: A test with this mark is executed on each journal that processes can share.
on_each_journal = pytest.mark.parametrize(
    "journal", ["sqlite", pytest.param("postgres", marks=pytest.mark.needs_engines)], indirect=True
)

Told = Mapping[str, Any]


# -- the journal -------------------------------------------------------------------------------------------------------


@mutable
class Post:
    """One request line of a create, and the data after it."""

    number: int
    key: str
    authorization: str
    order: str | None = None
    sha256: str | None = None
    taken_at: float | None = None
    status: int | None = None
    task_id: str | None = None


class Record:
    """What the service wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: list[dict[str, Any]] = []
        self._read = 0

    def events(self) -> list[dict[str, Any]]:
        """All whole lines so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if line.endswith(b"\n"):
                        self._events.append(json.loads(line))
                        self._read += len(line)
        return self._events

    def count(self, what: str) -> int:
        return sum(event["what"] == what for event in self.events())

    def posts(self) -> list[Post]:
        posts: dict[int, Post] = {}
        for event in self.events():
            if event["what"] == "head":
                posts[event["post"]] = Post(event["post"], event["key"], event["authorization"])
            elif event["what"] == "body":
                post = posts[event["post"]]
                post.order, post.sha256, post.taken_at = event["order"], event["sha256"], event["at"]
            elif event["what"] == "answer":
                posts[event["post"]].status = event["status"]
                posts[event["post"]].task_id = event.get("task_id")
        return list(posts.values())

    async def until(self, is_reached: Callable[["Record"], bool]) -> None:
        """Wait for what the service writes down next, and next, until this holds."""
        async with asyncio.timeout(TOO_LONG):
            while not is_reached(self):  # noqa: ASYNC110 - another process has no event to wait for
                await asyncio.sleep(0.01)


@frozen
class OnDisk:
    """An order as any SQL tool finds it in the journal."""

    key: str
    attempts: list[tuple[str, str]]
    """Kind and latest outcome of each."""
    task_ids: set[str]

    @property
    def state(self) -> str:
        outcomes = {outcome for _, outcome in self.attempts}
        dangers = ("accepted", "sending", "uncertain", "rejected")
        return next((danger for danger in dangers if danger in outcomes), "queued")


_FILE = "sqlite:///"
_TABLES = (
    "SELECT count(*) FROM pg_tables WHERE schemaname = 'vidgen' AND tablename = 'orders'",
    "SELECT count(*) FROM sqlite_master",
)
_ATTEMPTS = """
    SELECT order_id, kind, coalesce(
        (SELECT outcome FROM evidence AS e WHERE e.order_id = a.order_id AND e.n = a.n ORDER BY id DESC LIMIT 1),
        'sending'
    ) FROM attempts AS a ORDER BY order_id, n
"""


def connect(dsn: str) -> psycopg.Connection:
    return psycopg.connect(dsn, options="-c search_path=vidgen", autocommit=True)


def on_disk(journal: str) -> dict[str, OnDisk]:
    """The orders in the file or the database. It is opened by no part of the package."""
    path = Path(journal.removeprefix(_FILE))
    is_file = journal.startswith(_FILE)
    if is_file and not path.exists():
        return {}
    with closing(sqlite3.connect(path, timeout=TOO_LONG) if is_file else connect(journal)) as db:
        if db.execute(_TABLES[is_file]).fetchone() == (0,):
            return {}
        db.execute("BEGIN" if is_file else "BEGIN ISOLATION LEVEL REPEATABLE READ")
        orders = {
            order: OnDisk(key, [], set()) for order, key in db.execute("SELECT order_id, idempotency_key FROM orders")
        }
        for order, kind, outcome in db.execute(_ATTEMPTS):
            orders[order].attempts.append((kind, outcome))
        for order, task_id in db.execute("SELECT order_id, task_id FROM evidence WHERE task_id IS NOT NULL"):
            orders[order].task_ids.add(task_id)
    return orders


# -- oracles -----------------------------------------------------------------------------------------------------------


def posts_by_order(record: Record, orders: Mapping[str, OnDisk]) -> dict[str, list[Post]]:
    """Each POST belongs to an order: by its body, or, if that did not come, by its key."""
    by_key = {found.key: order for order, found in orders.items()}
    posts = defaultdict(list)
    for post in record.posts():
        posts[post.order or by_key[post.key]].append(post)
    return posts


def check(
    record: Record, journal: str, *, told: Iterable[Told] = (), resends: Mapping[str, int] | None = None
) -> dict[str, list[Post]]:
    """Assert all that must hold for every order; ``resends`` is how many a person asked for."""
    orders = on_disk(journal)
    posts = posts_by_order(record, orders)
    asked = Counter(resends or {})
    for order, sent in posts.items():
        refused = sum(post.status in REFUSALS for post in sent)
        assert len(sent) - refused <= 1 + asked[order], f"{order}: one POST too many: {sent}"
        assert {post.key for post in sent} == {orders[order].key}, f"{order}: one order, one key: {sent}"
        assert len({post.sha256 for post in sent} - {None}) <= 1, f"{order}: one order, one body: {sent}"
        given = {post.task_id for post in sent} - {None}
        assert orders[order].task_ids <= given, f"{order}: a task that the service did not give for it"
        if given:
            assert orders[order].state in {"accepted", "sending", "uncertain"}, f"{order}: a paid task is forgotten"
    for word in told:
        if word.get("task"):
            assert word["task"] in orders[word["order"]].task_ids, f"{word}: told, and not in the journal"
            assert orders[word["order"]].state == "accepted"
    return posts


# -- processes ---------------------------------------------------------------------------------------------------------


class Forker:
    """The program that starts workers and services."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        with there:
            command = [sys.executable, "-W", "error", "-m", "tests.proof.forker", str(there.fileno())]
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()]
            )
        self._control = here
        here.settimeout(TOO_LONG)
        assert here.recv(16) == b"ready"

    def fork(self, program: bytes, *descriptors: int) -> int:
        """The pid of one more process, whose stdin, stdout and stderr these are."""
        socket.send_fds(self._control, [program], list(descriptors))
        return int(self._control.recv(16))

    def close(self) -> None:
        """It ends what it started, and then itself."""
        self._control.close()
        try:
            self._process.wait(TOO_LONG)
        finally:
            self._process.kill()


@mutable(eq=False)
class Worker:
    """A process that orders videos, or is their service."""

    pid: int
    stdin: int
    stdout: asyncio.StreamReader
    transport: asyncio.ReadTransport
    complaints: Path
    told: list[dict[str, Any]] = field(factory=list)

    @property
    def is_over(self) -> bool:
        """It has ended; what it said may not have been read yet."""
        return self.transport.is_closing()

    async def next(self) -> dict[str, Any] | None:
        """What it says next; None when it has ended."""
        async with asyncio.timeout(TOO_LONG):
            line = await self.stdout.readline()
        if not line.endswith(b"\n"):
            return None
        self.told.append(json.loads(line))
        return self.told[-1]

    async def ended(self) -> list[dict[str, Any]]:
        """All that it said, once it has ended."""
        while await self.next() is not None:
            pass
        return self.told

    def go(self) -> None:
        os.write(self.stdin, b"\n")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def resume(self) -> None:
        """Continue it, once it is suspended: it reports its halt just before."""
        async with asyncio.timeout(TOO_LONG):
            while not self._is_suspended():  # noqa: ASYNC110 - another process has no event to wait for
                await asyncio.sleep(0.001)
        self.send(signal.SIGCONT)

    def _is_suspended(self) -> bool:
        return "State:\tT" in Path(f"/proc/{self.pid}/status").read_text()

    async def kill(self) -> list[dict[str, Any]]:
        self.send(signal.SIGKILL)
        return await self.ended()


class Processes:
    """Starts the service and workers on one journal; ends what it started."""

    def __init__(self, forker: Forker, place: Path, journal: str) -> None:
        self._forker = forker
        self._place = place
        self._workers: list[Worker] = []
        self.journal = journal
        self.record = Record(place / "record.jsonl")
        self.base_url = ""

    async def __aenter__(self) -> Self:
        return self

    async def start_service(self, **options: float) -> None:
        service = await self._start(SERVICE, {"record": str(self.record.path)} | options)
        port = int(await service.stdout.readline())
        self.base_url = f"http://127.0.0.1:{port}/openapi/v1"

    async def start(self, *lanes: list[list[Any]], door: str = "", program: bytes = WORKER, **more: Any) -> Worker:
        """A worker that carries out these lanes of steps (see ``worker``), or another program."""
        wanted = {
            "key": KEY,
            "base_url": self.base_url.replace("/openapi", f"{door}/openapi"),
            "journal": self.journal,
            "lanes": lanes,
        }
        return await self._start(program, wanted | more)

    async def _start(self, program: bytes, wanted: dict[str, Any]) -> Worker:
        there_in, stdin = os.pipe()
        stdout, there_out = os.pipe()
        complaints = self._place / f"stderr-{len(self._workers)}"
        there_err = os.open(complaints, os.O_CREAT | os.O_WRONLY, 0o600)
        pid = self._forker.fork(program, there_in, there_out, there_err)
        for descriptor in (there_in, there_out, there_err):
            os.close(descriptor)
        reader = asyncio.StreamReader(limit=1 << 20)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(stdout, "rb", 0)
        )
        worker = Worker(pid, stdin, reader, transport, complaints)
        self._workers.append(worker)
        words = json.dumps(wanted).encode() + b"\n"
        await asyncio.to_thread(_write_all, stdin, words)
        return worker

    async def start_together(self, several: Iterable[list[list[list[Any]]]], **more: Any) -> list[Worker]:
        """One worker for each; all begin at once, when every one is ready."""
        workers = [await self.start(*lanes, together=True, **more) for lanes in several]
        for worker in workers:
            assert await worker.next() == {"ready": True}
            worker.told.clear()
        for worker in workers:
            worker.go()
        return workers

    async def run(self, *lanes: list[list[Any]], **more: Any) -> list[dict[str, Any]]:
        """The outcomes that a worker received, after its end."""
        return await (await self.start(*lanes, **more)).ended()

    async def aclose(self) -> None:
        for worker in self._workers:
            worker.send(signal.SIGKILL)
        for worker in self._workers:
            await worker.ended()
            worker.transport.close()
            os.close(worker.stdin)
        await asyncio.sleep(0)  # the pipes' transports close in the next pass

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
        complaints = [text for worker in self._workers if (text := worker.complaints.read_text())]
        assert complaints == []


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
