"""For how long the SDK keeps the event loop to itself: the longest time between two passes of it, in each situation.

Requests with long texts go to a transport that is a function, and tasks to a poll that is one: what is measured is the
SDK's own work, in a process of its own, as CPU time: what other processes take does not count. Each figure is
the least of some rounds.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve

from benchmarks.children import child
from benchmarks.get_peers import KEY, task_ids
from benchmarks.results import Figure, Scale, at_most
from vidgen_async import Client
from vidgen_async.cassette import Cassette
from vidgen_async.clock import LoopClock
from vidgen_async.errors import VidgenError
from vidgen_async.journal import Journal, MemoryJournal, SqliteJournal
from vidgen_async.transports import BufferedResponse, FakeTransport, RecordingTransport, ReplayTransport, Transport
from vidgen_async.types.http import Request, make_headers
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef
from vidgen_async.types.resources import TaskStatus, VideoRequest, VideoTask
from vidgen_async.watcher import Watcher

BENCHMARK = "longest hold of the event loop"
MOST_MILLISECONDS = 50.0
_URL = "https://video.test/openapi/v1"
_NOW = datetime(2026, 11, 28, tzinfo=UTC)
_CHARACTERS_PER_TASK = 10
_MOST_ROUNDS = 3


class Holds:
    """Measures what lies between two passes of the running event loop: CPU time of its thread, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._passed_at = 0.0
        self._is_over = True

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """Only what happens inside counts; without the garbage collector, which goes through all that there is."""
        gc.collect()
        gc.disable()
        self._is_over = False
        self._passed_at = time.thread_time()
        self._loop.call_soon(self._pass)
        yield
        await asyncio.sleep(0)
        self._is_over = True
        gc.enable()

    def _pass(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._passed_at)
        self._passed_at = now
        if not self._is_over:
            self._loop.call_soon(self._pass)


Situation: TypeAlias = Callable[[Holds, int, int], Awaitable[None]]
"""Called with the length of one text, and the number of tasks."""

# -- texts -----------------------------------------------------------------------------------------------------------

_PIECES: Mapping[str, str] = {
    "words": "a boat sails at dawn number 1974 ",
    "Chinese": "黎明时分一艘小船启航",
    "accents": "Größe déjà vu Straße ",
    "escapes": "\\u0041\\n%41&amp;",
    "backslashes": "\\",
    "quotes": "\"'",
    "key=": "key=token=secret= ",
    "Bearer": "Bearer token ",
    "no spaces": "abcdefghijklmnopqrstuvwxyz0123456789",
    "places": "\"prompt 'a://b:?token&sig=data:",
}


def text_of(kind: str, size: int) -> str:
    """A text of about ``size`` characters without repeated parts of words."""
    if kind == "words":
        return " ".join(f"a boat {number} sails at dawn" for number in range(size // 26))[:size]
    return "".join(islice(cycle(_PIECES[kind]), size))


Answer: TypeAlias = tuple[int, bytes]


def _accepts(text: str) -> Answer:
    return 202, b'{"id": "vt-1", "status": "queued"}'


def _refuses(text: str) -> Answer:
    return 400, json.dumps({"error": {"code": "INVALID_PARAMETERS", "message": f"bad: {text}"}}).encode()


def _says_nothing_useful(text: str) -> Answer:
    return 200, json.dumps({"echo": text}).encode()


def _breaks(text: str) -> Answer:
    return 502, f"<html>{text}".encode()


def _transport(answers: Mapping[str, Answer]) -> FakeTransport:
    """Answers each operation always alike."""
    headers = {f"x-header-{number}": f"a boat sails at dawn {number}" for number in range(40)}
    headers["content-type"] = "application/json"

    async def handle(request: Request) -> BufferedResponse:
        status, data = answers.get(request.op, (500, b""))
        if request.op == "videos.get" and not data:
            status, data = 200, json.dumps({"id": request.url.name, "status": "running"}).encode()
        return BufferedResponse(status, data, headers=make_headers(headers), url=request.url)

    return FakeTransport(handle)


@asynccontextmanager
async def _client(transport: Transport, journal: Journal | None = None) -> AsyncIterator[Client]:
    async with Client(KEY, base_url=_URL, transport=transport, journal=journal or MemoryJournal()) as client:
        yield client


async def _create(client: Client, **fields: Any) -> None:
    try:
        await client.videos.create(order_id="order", validate=False, **{"model": "m", "prompt": "p", **fields})
    except VidgenError as error:
        str(error)


def _creates(kind: str, answer: Callable[[str], Answer]) -> Situation:
    async def run(holds: Holds, size: int, _: int) -> None:
        with tempfile.TemporaryDirectory() as directory:
            journal = SqliteJournal(Path(directory) / "orders.db")
            prompt = text_of(kind, size)
            transport = _transport({"videos.create": answer(prompt)})
            async with _client(transport, journal) as client, holds.measured():
                await _create(client, prompt=prompt)
                await client.orders.get("order")

    return run


async def _many_fields(holds: Holds, size: int, _: int) -> None:
    answers = {
        "videos.create": _says_nothing_useful(text_of("words", 5 * size)),
        "models.list": (200, b'{"models": []}'),
    }
    async with _client(_transport(answers)) as client:
        extra = {f"note_{number}": [{"text": text_of("words", size // 4)}] for number in range(4)}
        request = VideoRequest(model="m", prompt=text_of("words", size), mode=text_of("words", size), extra=extra)
        async with holds.measured():
            await client.videos.check(request)
            try:
                await client.videos.create(request, order_id="order", validate=False)
            except VidgenError as error:
                str(error)


async def _recorded(holds: Holds, size: int, _: int) -> None:
    """A create, refused with all that it said, and a long answer; then both once more, from the cassette."""
    account = {"balance": 5, "notes": [text_of(kind, size // 10) for kind in _PIECES]}

    prompt = text_of("words", size)
    answers = {"videos.create": _refuses(prompt), "account.get": (200, json.dumps(account).encode())}
    with tempfile.TemporaryDirectory() as directory:
        cassette = Cassette(Path(directory) / "one.json", prompts="pseudonym")
        async with holds.measured():
            for transport in (RecordingTransport(_transport(answers), cassette), None):
                async with _client(transport or ReplayTransport(cassette)) as client:
                    await _create(client, prompt=prompt)
                    await client.account.get()


async def _long_answers(holds: Holds, size: int, _: int) -> None:
    """The longest that are read."""
    data = json.dumps({"id": "vt-1", "status": "failed", "failure_reason": text_of("places", 7 * size)}).encode()
    error = json.dumps({"error": {"detail": [{"loc": "x", "msg": text_of("words", 100)}] * (6 * size // 120)}}).encode()
    answers = {"videos.get": (200, data), "account.get": (400, error), "models.list": (500, b"<p>" * 2 * size)}
    async with _client(_transport(answers)) as client, holds.measured():
        for read in (lambda: client.videos.get("vt-1"), lambda: client.videos.wait("vt-1"), client.account.get):
            try:
                repr(await read())
            except VidgenError as failure:
                str(failure)


async def _uploads(holds: Holds, size: int, _: int) -> None:
    async with _client(_transport({"files.create": (200, b'{"id": "a-1"}')})) as client:
        image = b"\x89PNG\r\n\x1a\n" + bytes(20 * size)
        async with holds.measured():
            await client.files.upload(image)


# -- tasks -----------------------------------------------------------------------------------------------------------


class Polls:
    """Every task runs until ``status`` is set."""

    def __init__(self) -> None:
        self.status: TaskStatus = "running"

    async def __call__(self, task_id: str, mark: int | None, *, is_task_needed: bool) -> tuple[VideoTask, None]:
        return VideoTask(id=task_id, status=self.status, created_at=_NOW), None


@asynccontextmanager
async def _watcher(poll: Polls | None = None, **options: Any) -> AsyncGenerator[Watcher, None]:
    watcher = Watcher(poll or Polls(), clock=LoopClock(), **options)
    try:
        yield watcher
    finally:
        await watcher.aclose()


async def _begun(watcher: Watcher, tasks: int) -> None:
    while watcher.stats.tasks < tasks:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)


async def _gather_and_leave(holds: Holds, _: int, tasks: int) -> None:
    async with _watcher() as watcher:
        ids = task_ids(tasks)
        async with holds.measured(), aclosing(watcher.as_completed(ids, timeout=None)) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            await _begun(watcher, tasks)
            waiter.cancel()
            await asyncio.wait({waiter})


async def _gather_and_close(holds: Holds, _: int, tasks: int) -> None:
    async with _watcher() as watcher, aclosing(watcher.as_completed(task_ids(tasks), timeout=None)) as outcomes:
        waiter = asyncio.ensure_future(anext(outcomes))
        await _begun(watcher, tasks)
        async with holds.measured():
            await watcher.aclose()
            await waiter
            async for _outcome in outcomes:
                await asyncio.sleep(0)


async def _gather_until_late(holds: Holds, _: int, tasks: int) -> None:
    async with _watcher() as watcher:
        ids = task_ids(tasks)
        async with holds.measured():
            async for _outcome in watcher.as_completed(ids, timeout=0.001):
                await asyncio.sleep(0)


async def _gather_until_the_end(holds: Holds, _: int, tasks: int) -> None:
    poll = Polls()
    async with _watcher(poll, first_polls=10 * tasks, concurrency=1000) as watcher:
        poll.status = "completed"
        ids = task_ids(tasks)
        async with holds.measured():
            async for _outcome in watcher.as_completed(ids, timeout=None):
                pass


@asynccontextmanager
async def _waits(watcher: Watcher, tasks: int, timeout: float | None) -> AsyncIterator[list["asyncio.Task[Any]"]]:
    """Started a few at a time, as by a program that does not hold up its own event loop."""
    waits = []
    for number, task_id in enumerate(task_ids(tasks)):
        waits.append(asyncio.ensure_future(watcher.wait(task_id, timeout=timeout)))
        if number % 100 == 99:
            await asyncio.sleep(0)
    await _begun(watcher, tasks)
    yield waits
    while pending := [wait for wait in waits if not wait.done()]:
        for wait in pending[:100]:
            wait.cancel()
        await asyncio.sleep(0)
    for wait in waits:
        if not wait.cancelled():
            wait.exception()


async def _wait_and_close(holds: Holds, _: int, tasks: int) -> None:
    async with _watcher() as watcher, _waits(watcher, tasks, None) as waits, holds.measured():
        await watcher.aclose()
        await asyncio.wait({waits[-1]})


async def _wait_until_late(holds: Holds, _: int, tasks: int) -> None:
    async with _watcher() as watcher, _waits(watcher, tasks, 2.0 + tasks / 10_000) as waits, holds.measured():
        for wait in waits:
            await asyncio.wait({wait})


async def _cancel_waits(holds: Holds, _: int, tasks: int) -> None:
    """A few at a time."""
    async with _watcher() as watcher, _waits(watcher, tasks, None) as waits, holds.measured():
        for start in range(0, len(waits), 100):
            for wait in waits[start : start + 100]:
                wait.cancel()
            await asyncio.sleep(0)
        await asyncio.sleep(0)


async def _stats(holds: Holds, _: int, tasks: int) -> None:
    async with _watcher() as watcher, _waits(watcher, tasks, None), holds.measured():
        seen = []
        for _ in range(100):
            seen.append(watcher.stats)
            await asyncio.sleep(0)


# -- orders ----------------------------------------------------------------------------------------------------------


async def _orders(journal: Journal, tasks: int) -> None:
    evidence = Evidence(outcome=AttemptOutcome.ACCEPTED, at=_NOW, status=202, answered=True)
    for number, task_id in enumerate(task_ids(tasks)):
        ref = OrderRef(service="https://video.test", account="default", order_id=f"order-{number}")
        attempt = Attempt(n=1, sent_at=_NOW, deadline_at=_NOW)
        order = Order(ref=ref, idempotency_key=f"key-{number}", body=b"{}", created_at=_NOW, attempts=(attempt,))
        await journal.intend(order)
        await journal.settle(ref, 1, evolve(evidence, task_id=task_id))


async def _rewatch(holds: Holds, _: int, tasks: int) -> None:
    journal = MemoryJournal()
    await _orders(journal, tasks)
    async with _client(_transport({"videos.get": (200, b"")}), journal) as client, holds.measured():
        async with aclosing(client.videos.rewatch()) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            await _begun(client.watcher, tasks)
            waiter.cancel()
            await asyncio.wait({waiter})
        await client.aclose()


async def _client_gather(holds: Holds, _: int, tasks: int) -> None:
    async with _client(_transport({"videos.get": (200, b"")})) as client:
        ids = task_ids(tasks)
        async with holds.measured(), aclosing(client.videos.as_completed(ids)) as outcomes:
            waiter = asyncio.ensure_future(anext(outcomes))
            await _begun(client.watcher, tasks)
            await client.aclose()
            await asyncio.wait({waiter})


async def _list_orders(holds: Holds, _: int, tasks: int) -> None:
    journal = MemoryJournal()
    await _orders(journal, tasks)
    async with _client(_transport({"videos.get": (200, b"")}), journal) as client, holds.measured():
        await client.orders.list()


SITUATIONS: Mapping[str, Situation] = {
    **{f"a create, refused with what it said: {kind}": _creates(kind, _refuses) for kind in _PIECES},
    "a create that is accepted: words": _creates("words", _accepts),
    "an uncertain create: words": _creates("words", _says_nothing_useful),
    "an uncertain create: Chinese": _creates("Chinese", _breaks),
    "a create with many long fields": _many_fields,
    "creates and answers, recorded and replayed": _recorded,
    "the longest answers": _long_answers,
    "an upload": _uploads,
    "as_completed, begun and left": _gather_and_leave,
    "as_completed, closed": _gather_and_close,
    "as_completed, all time out": _gather_until_late,
    "as_completed, all end": _gather_until_the_end,
    "waits, closed": _wait_and_close,
    "waits, all time out": _wait_until_late,
    "waits, cancelled": _cancel_waits,
    "stats": _stats,
    "rewatch": _rewatch,
    "client.as_completed": _client_gather,
    "orders.list": _list_orders,
}


async def longest_hold(name: str, size: int, tasks: int) -> float:
    holds = Holds()
    await SITUATIONS[name](holds, size, tasks)
    return holds.longest


def run(scale: Scale) -> list[Figure]:
    size = scale.tasks * _CHARACTERS_PER_TASK
    rounds = [child("benchmarks.loop_holds", size, scale.tasks) for _ in range(min(scale.rounds, _MOST_ROUNDS))]
    note = f"long texts have {size:,} characters, and there are {scale.tasks:,} tasks or orders"
    return [_figure(name, min(found[name] for found in rounds) * 1e3, note) for name in SITUATIONS]


def _figure(name: str, longest: float, note: str) -> Figure:
    target, is_met = at_most(MOST_MILLISECONDS, longest)
    return Figure(BENCHMARK, name, longest, "ms", target=f"{target} ms", is_met=is_met, note=note)


def main(size: str, tasks: str) -> None:
    print(json.dumps({name: asyncio.run(longest_hold(name, int(size), int(tasks))) for name in SITUATIONS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
