"""A client whose journal breaks: nothing is sent without its word, and no receipt is lost for want of it.

Real sockets, and a file that is broken as files are; what the sandbox received is the oracle.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.journal.conftest import MEMORY
from tests.proof.broken import AT_OPENING, IN_USE, HeldJournal, StruckJournal, directory_not_writable, misread
from tests.proof.cancelling import FIELDS, NAMESPACE, posts_of, stored_order
from vidgen_async import Client, JournalError, Receipt
from vidgen_async.errors import ReceiptNotStoredError
from vidgen_async.journal import SqliteJournal
from vidgen_async.sandbox import Sandbox
from vidgen_async.types.orders import OrderState

ROOT = Path(__file__).resolve().parents[2]
#: Seconds after which the outcomes that a journal refused have been offered to it again.
A_WHILE = 61.0


Struck: TypeAlias = tuple[Client, "asyncio.Future[Receipt]"]


@pytest.fixture
def path() -> Iterator[Path]:
    """In a directory that another user can reach, in another that may be moved."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        Path(name).chmod(0o755)
        (directory := Path(name, "kept")).mkdir(mode=0o755)
        yield directory / "orders.db"


@pytest.fixture
async def make_client(service, path) -> AsyncIterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(journal: SqliteJournal | None = None, **options: object) -> Client:
        journal = journal or SqliteJournal(path, busy_timeout=0.01)
        options = {"journal": journal, "namespace": NAMESPACE} | options
        made.append(Client(service.api_key, base_url=service.base_url, **options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


async def create(client: Client, order_id: str):
    return await client.videos.create(**FIELDS, order_id=order_id)


async def refuses(client: Client, service: Sandbox, path: Path, *words: str) -> None:
    """The create of the order ``o`` fails with a JournalError that names the problem, and nothing is sent."""
    with pytest.raises(JournalError) as caught:
        await create(client, "o")
    assert not isinstance(caught.value, ReceiptNotStoredError)
    for word in (str(path), *words):
        assert word in str(caught.value)
    assert posts_of(service, "o") == []


# -- before the POST ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", AT_OPENING, ids=str)
async def test_with_a_journal_that_cannot_be_opened_no_post_is_sent_and_after_its_repair_the_same_client_sends_one(
    make_client, service, path, harm, trouble
):
    if trouble.harm is not directory_not_writable:
        before = make_client()
        first = await create(before, "first")
        await before.aclose()
    client = make_client()
    harm.enter_context(trouble.harm(path))
    for _ in range(2):
        await refuses(client, service, path, *trouble.words)

    harm.close()

    receipt = await create(client, "o")
    assert [post.task_id for post in posts_of(service, "o")] == [receipt.task_id]
    if trouble.harm is not directory_not_writable:
        assert await create(client, "first") == first
        assert len(posts_of(service, "first")) == 1


@pytest.mark.parametrize("trouble", IN_USE, ids=str)
async def test_with_a_journal_that_fails_while_in_use_no_post_is_sent_and_after_its_repair_the_same_client_sends_one(
    make_client, service, path, harm, trouble
):
    client = make_client()
    first = await create(client, "first")
    harm.enter_context(trouble.harm(path))
    for _ in range(2):
        await refuses(client, service, path, *trouble.words)
        with pytest.raises(JournalError):
            await create(client, "first")

    harm.close()

    receipt = await create(client, "o")
    assert [post.task_id for post in posts_of(service, "o")] == [receipt.task_id]
    assert await create(client, "first") == first
    assert len(posts_of(service, "first")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["intend", "turn", "begin"])
@pytest.mark.parametrize("trouble", [trouble for trouble in IN_USE if trouble.words], ids=str)
async def test_no_post_is_sent_if_the_journal_fails_before_any_operation_of_a_send(
    make_client, service, path, harm, trouble, operation
):
    client = make_client(StruckJournal(path, operation, lambda: harm.enter_context(trouble.harm(path))))
    await refuses(client, service, path, *trouble.words)
    harm.close()
    receipt = await create(client, "o")
    assert [post.task_id for post in posts_of(service, "o")] == [receipt.task_id]
    assert (await stored_order(path, service, "o")).state is OrderState.ACCEPTED


@pytest.mark.parametrize(
    ("pragma", "word"), [("query_only = ON", "may not write it"), ("max_page_count = 1", "disk is full")]
)
async def test_with_a_temporarily_unwritable_file_no_post_is_sent_and_the_next_call_of_the_same_client_sends_one(
    make_client, service, path, pragma, word
):
    journal = SqliteJournal(path)
    client = make_client(journal)
    long = FIELDS | {"prompt": "a paper boat " * 400}  # more than the pages that there are can take
    await create(client, "first")
    await journal._run(lambda db: db.execute(f"PRAGMA {pragma}").fetchone())
    with pytest.raises(JournalError, match=word) as caught:
        await client.videos.create(**long, order_id="o")
    assert str(path) in str(caught.value)
    assert posts_of(service, "o") == []

    receipt = await client.videos.create(**long, order_id="o")

    assert [post.task_id for post in posts_of(service, "o")] == [receipt.task_id]


# -- between the POST and its receipt ----------------------------------------------------------------------------------


@pytest.fixture
def struck(make_client, path, harm, clock, on_arrival) -> Callable[..., Awaitable[Struck]]:
    """A client whose journal is harmed while its create is at the service, and that create, whose outcome is being
    written."""

    async def strike(with_what: Callable[[Path], AbstractContextManager[None]]) -> Struck:
        journal = HeldJournal(path, clock)
        client = make_client(journal, clock=clock)
        on_arrival.append(lambda: harm.enter_context(with_what(path)))
        with clock.hold():
            caller = asyncio.ensure_future(create(client, "o"))
            await journal.is_settling.wait()
        return client, caller

    return strike


@pytest.mark.parametrize("trouble", IN_USE, ids=str)
async def test_a_receipt_that_cannot_be_stored_is_in_the_exception_and_is_stored_after_the_repair_of_the_journal(
    make_client, service, path, harm, clock, struck, trouble
):
    client, caller = await struck(trouble.harm)
    with pytest.raises(ReceiptNotStoredError) as caught:
        await caller
    (post,) = posts_of(service, "o")
    assert caught.value.task_id == post.task_id
    for word in ("o", post.task_id, str(path), *trouble.words[:1]):
        assert word in str(caught.value)

    harm.close()
    await clock.sleep(A_WHILE)

    order = await stored_order(path, service, "o")
    assert (order.state, order.task_ids) == (OrderState.ACCEPTED, (post.task_id,))
    another = make_client()
    for one in (client, another):
        assert (await create(one, "o")).task_id == post.task_id
    assert len(posts_of(service, "o")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("trouble", IN_USE, ids=str)
async def test_a_receipt_is_returned_and_stored_if_the_journal_is_repaired_within_half_a_minute(
    make_client, service, path, harm, clock, struck, trouble
):
    _, caller = await struck(trouble.harm)
    await clock.sleep(10)
    assert not caller.done()

    harm.close()

    receipt = await caller
    assert clock.now() < 30
    order = await stored_order(path, service, "o")
    assert (order.state, order.task_ids) == (OrderState.ACCEPTED, (receipt.task_id,))
    assert [post.task_id for post in posts_of(service, "o")] == [receipt.task_id]


async def test_a_receipt_is_in_the_exception_if_the_journal_can_no_longer_be_read(service, path, harm, clock, struck):
    _, caller = await struck(misread)
    (outcome,) = await asyncio.gather(caller, return_exceptions=True)
    (post,) = posts_of(service, "o")
    harm.close()
    assert getattr(outcome, "task_id", None) == post.task_id


# -- a full disk -------------------------------------------------------------------------------------------------------

#: In a process of its own: its files may not grow for a while. (Python ignores the signal for that.)
FULL_DISK = f"""
import asyncio, json, resource, sys
from contextlib import contextmanager
from pathlib import Path
from tests.proof.broken import HeldJournal
from vidgen_async import Client, JournalError, Receipt
from vidgen_async.clock import VirtualClock

key, base_url, directory, *moments = sys.argv[1:]

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

class Filling(HeldJournal):
    when = ""

    async def begin(self, permission):
        attempt = await super().begin(permission)
        if self.when == "between":
            limit(0)
        return attempt

async def fill(when):
    clock = VirtualClock()
    journal = Filling(Path(directory, when), clock)
    journal.when = when
    async with Client(key, base_url=base_url, journal=journal, clock=clock, namespace={NAMESPACE!r}) as client:
        with clock.hold():
            if when == "in use":
                await client.orders.list()
            if when != "between":
                limit(0)
            caller = asyncio.ensure_future(client.videos.create(**{FIELDS!r}, order_id=when))
            settling = asyncio.ensure_future(journal.is_settling.wait())
            await asyncio.wait([caller, settling], return_when=asyncio.FIRST_COMPLETED)
            settling.cancel()
        (error,) = await asyncio.gather(caller, return_exceptions=True)
        print(json.dumps([type(error).__name__, str(error), getattr(error, "task_id", None)]), flush=True)
        sys.stdin.readline()
        limit(resource.RLIM_INFINITY)
        if when == "between":
            await clock.sleep({A_WHILE})
        else:
            with clock.hold():
                await client.videos.create(**{FIELDS!r}, order_id=when)
        print("repaired", flush=True)
        sys.stdin.readline()

for when in moments:
    asyncio.run(fill(when))
"""


@pytest.mark.slow
async def test_with_a_full_disk_no_post_is_sent_or_the_receipt_is_in_the_exception_and_is_stored_later(
    service, tmp_path
):
    moments = ("at opening", "in use", "between")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FULL_DISK, service.api_key, service.base_url, str(tmp_path), *moments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    for when in moments:
        kind, said, task_id = json.loads(await process.stdout.readline())
        posts = posts_of(service, when)
        if when == "between":
            assert (kind, len(posts), task_id) == ("ReceiptNotStoredError", 1, posts[0].task_id)
        else:
            assert (kind, len(posts)) == ("JournalError", 0), when
        assert str(tmp_path / when) in said, when
        assert "disk" in said, when

        process.stdin.write(b"\n")
        assert await process.stdout.readline() == b"repaired\n", when

        (post,) = posts_of(service, when)
        order = await stored_order(tmp_path / when, service, when)
        assert (order.state, order.task_ids) == (OrderState.ACCEPTED, (post.task_id,)), when
        process.stdin.write(b"\n")
    await process.communicate()
    assert process.returncode == 0
