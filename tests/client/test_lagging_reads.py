"""A service that does not know a new task yet (404): what the journal knows of it counts, however the wait names it."""

import json
from datetime import timedelta
from functools import partial

import pytest
from attrs import define, field

from vidgen_async import Client, NotFoundError, VideoTask
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal, SqliteJournal
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Request

FIELDS = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}


@define
class LaggingService:
    """Answers the first polls with 404, in its own form."""

    missing: int = 2
    polls: int = field(init=False, default=0)

    async def __call__(self, request: Request) -> BufferedResponse:
        if request.method == "POST":
            return BufferedResponse(202, b'{"id": "t"}')
        self.polls += 1
        if self.polls <= self.missing:
            return BufferedResponse(404, b'{"error": {"code": "NOT_FOUND"}}')
        return BufferedResponse(200, json.dumps({"id": "t", "status": "completed"}).encode())


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def make_client(clock):
    def make(service: LaggingService, **options) -> Client:
        transport = FakeTransport(service)
        return Client("key-never-shown", base_url="https://h/openapi/v1", transport=transport, clock=clock, **options)

    return make


async def last_of_watch(client: Client, task: object) -> VideoTask:
    return [seen async for seen in client.videos.watch(task)][-1]


async def first_completed(client: Client, task: object) -> VideoTask:
    (outcome,) = [one async for one in client.videos.as_completed([task])]
    return outcome.unwrap()


WAYS = {
    "wait": lambda client, task: client.videos.wait(task),
    "watch": last_of_watch,
    "as_completed": first_completed,
    "a view": lambda client, task: client.with_options(poll_interval=61).videos.wait(task),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("named_by", ["receipt", "id", "task"])
async def test_a_new_task_is_awaited_however_it_is_named(make_client, name, named_by):
    service = LaggingService()
    async with make_client(service) as client:
        receipt = await client.videos.create(**FIELDS, validate=False)
        task = {"receipt": receipt, "id": receipt.task_id, "task": VideoTask(id="t")}[named_by]
        assert (await WAYS[name](client, task)).status == "completed"
    assert service.polls == 3


@pytest.mark.parametrize("is_other_account", [False, True])
async def test_another_process_with_the_same_journal_knows_the_task(make_client, clock, is_other_account, tmp_path):
    make_journal = partial(SqliteJournal, tmp_path / "orders.db")
    with clock.hold():  # the journal's thread works in real time
        async with make_client(LaggingService(), journal=make_journal()) as client:
            receipt = await client.videos.create(**FIELDS, validate=False)
    options = {"account": "other"} if is_other_account else {}
    async with make_client(LaggingService(), journal=Held(make_journal(), clock), **options) as client:
        assert (await client.videos.wait(receipt.task_id)).status == "completed"


async def test_a_receipt_that_is_not_written_yet_counts(make_client, clock):
    class Full(MemoryJournal):
        async def settle(self, *_):
            message = "the disk is full"
            raise OSError(message)

    async with make_client(LaggingService(), journal=Full()) as client:
        with pytest.raises(Exception, match="accepted it as task 't'"):
            await client.videos.create(**FIELDS, validate=False)
        assert (await client.videos.wait("t")).status == "completed"


class Held:
    """Time stands still while the journal works."""

    def __init__(self, inner: SqliteJournal, clock: VirtualClock) -> None:
        self._inner, self._clock = inner, clock
        self.durable = inner.durable

    def __getattr__(self, name: str):
        async def call(*arguments, **options):
            with self._clock.hold():
                return await getattr(self._inner, name)(*arguments, **options)

        return call


class Broken(MemoryJournal):
    """Cannot be asked whose task it is."""

    is_broken = False

    async def owner(self, *arguments):
        if self.is_broken:
            message = "the journal is locked"
            raise OSError(message)
        return await super().owner(*arguments)


@pytest.mark.parametrize("why", ["unknown", "old", "the journal fails"])
async def test_a_task_that_the_journal_cannot_vouch_for_is_not_found_after_two_polls(make_client, clock, why):
    service, journal = LaggingService(missing=9), Broken()
    async with make_client(service, journal=journal) as client:
        if why != "unknown":
            await client.videos.create(**FIELDS, validate=False)
        if why == "old":
            await clock.sleep(timedelta(minutes=3).total_seconds())
        journal.is_broken = why == "the journal fails"
        with pytest.raises(NotFoundError):
            await client.videos.wait("t")
    assert service.polls == 2
