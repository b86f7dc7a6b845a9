"""A client whose journal is in a PostgreSQL server that fails, or behind a network that does.

Real sockets; what the sandbox received is the oracle, and what another client reads in the database.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, TypeAlias

import pytest
from attrs import frozen

from tests.postgres import PostgresServer
from tests.proof.broken import HeldPostgresJournal
from tests.proof.cancelling import FIELDS, NAMESPACE, posts_of
from tests.proof.lossy_network import Loss, Message
from tests.proof.processes import on_disk
from vidgen_async import Client, JournalError, Receipt, UncertainCreateError
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ReceiptNotStoredError
from vidgen_async.journal.postgres import connections, schema

HOUR = 3600.0
MakeClient: TypeAlias = Callable[..., Client]


@pytest.fixture
def dsn(server: PostgresServer) -> str:
    """A database without the tables."""
    server.execute("DROP SCHEMA IF EXISTS vidgen CASCADE")
    return server.dsn


@pytest.fixture
async def make_client(service, dsn) -> AsyncIterator[MakeClient]:
    made: list[Client] = []

    def make(clock: VirtualClock, journal: HeldPostgresJournal | None = None) -> Client:
        named = {"journal": journal or HeldPostgresJournal(dsn, clock), "namespace": NAMESPACE, "clock": clock}
        made.append(Client(service.api_key, base_url=service.base_url, **named))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


async def result_of(client: Client, order_id: str) -> Any:
    """The receipt or the error of a create."""
    create = client.videos.create(**FIELDS, order_id=order_id)
    (result,) = await asyncio.gather(create, return_exceptions=True)
    return result


# -- a network that loses one message ----------------------------------------------------------------------------------


def is_of_commit(message: Message) -> bool:
    return b"COMMIT\0" in message.data


def is_any(_: Message) -> bool:
    return True


@pytest.mark.parametrize(
    ("loss", "may_be_lost", "step"),
    [
        pytest.param(Loss.CUT, is_of_commit, 1, marks=pytest.mark.slow),
        pytest.param(Loss.CUT, is_any, 13, marks=pytest.mark.needs_engines),
        pytest.param(Loss.SWALLOWED, is_of_commit, 1, marks=pytest.mark.needs_engines),
        pytest.param(Loss.SWALLOWED, is_any, 53, marks=pytest.mark.needs_engines),
    ],
    ids=["connection cut at commits", "connection cut", "commits swallowed", "swallowed"],
)
async def test_whatever_message_to_or_from_the_server_is_lost_a_create_is_sent_once_at_most_and_its_receipt_is_stored(
    make_client, service, network, monkeypatch, loss, may_be_lost, step
):
    time_limit = 0.4 if loss is Loss.SWALLOWED else 30.0
    monkeypatch.setattr(connections, "_IDLE_LIMIT", time_limit)
    later = VirtualClock()
    await later.sleep(HOUR)
    another = make_client(later)
    await another.orders.list()  # the tables exist
    outcomes: Counter[str] = Counter()
    for number in count(1, step):
        order_id, losses = f"order-{number}", network.losses
        network.decide = lose_one(number, loss, may_be_lost)
        clock = VirtualClock()
        client = make_client(clock, HeldPostgresJournal(network.dsn, clock, time_limit=time_limit))
        first = await result_of(client, order_id)
        await client.aclose()
        posts = posts_of(service, order_id)
        again = await result_of(another, order_id)

        if type(first) is JournalError:
            assert posts == []
            assert type(again) in (Receipt, UncertainCreateError)
            outcomes[type(again).__name__] += 1
        else:
            assert type(first) is Receipt
            assert again == first
        assert [post.task_id for post in posts_of(service, order_id)] == (
            [again.task_id] if isinstance(again, Receipt) else []
        )
        if network.losses == losses:
            break
    assert number > 8 * step
    # The process that knows that nothing was sent writes it, at the latest when its client is closed.
    assert not outcomes["UncertainCreateError"] or loss is not Loss.CUT
    assert outcomes["Receipt"] >= 1


def lose_one(number: int, loss: Loss, may_be_lost: Callable[[Message], bool]) -> Callable[[Message], Loss | None]:
    numbers = count(1)
    return lambda message: loss if may_be_lost(message) and next(numbers) == number else None


# -- a server that cannot be used --------------------------------------------------------------------------------------


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    server.stop("immediate")
    yield
    server.start()


def standby(server: PostgresServer) -> AbstractContextManager[None]:
    return server.as_standby()


@contextmanager
def read_only(server: PostgresServer) -> Iterator[None]:
    role = "ALTER ROLE postgres"
    server.execute(f"{role} SET default_transaction_read_only = on", END_OTHERS)
    yield
    server.execute("SET default_transaction_read_only = off", f"{role} RESET ALL")


@contextmanager
def full(server: PostgresServer) -> Iterator[None]:
    """The error of a full disk."""
    server.execute(
        "CREATE FUNCTION vidgen.fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
        *(f"CREATE TRIGGER fail BEFORE INSERT ON vidgen.{table} EXECUTE FUNCTION vidgen.fail()" for table in WRITTEN),
    )
    yield
    server.execute("DROP FUNCTION vidgen.fail CASCADE")


@contextmanager
def without_schema(server: PostgresServer) -> Iterator[None]:
    server.execute("ALTER SCHEMA vidgen RENAME TO away")
    yield
    server.execute("ALTER SCHEMA away RENAME TO vidgen")


@contextmanager
def without_table(server: PostgresServer) -> Iterator[None]:
    server.execute("ALTER TABLE vidgen.evidence RENAME TO away")
    yield
    server.execute("ALTER TABLE vidgen.away RENAME TO evidence")


@contextmanager
def newer(server: PostgresServer) -> Iterator[None]:
    server.execute(f"UPDATE vidgen.version SET number = {schema.VERSION + 1}", END_OTHERS)  # noqa: S608 - a number
    yield
    server.execute(f"UPDATE vidgen.version SET number = {schema.VERSION}")  # noqa: S608 - a number


WRITTEN = ("orders", "attempts", "evidence")
END_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


@frozen
class Trouble:
    """A way to harm the server, and a text of the resulting message."""

    harm: Callable[[PostgresServer], AbstractContextManager[None]]
    words: str

    def __str__(self) -> str:
        return self.harm.__name__


IN_USE = (
    Trouble(stopped, "No such file or directory"),
    Trouble(standby, "connect to the primary"),
    Trouble(read_only, "default_transaction_read_only is on"),
    Trouble(full, "disk is full"),
    Trouble(without_schema, "a table is missing"),
    Trouble(without_table, "a table is missing"),
)
#: A database without the schema is a new journal.
AT_OPENING = (
    *(trouble for trouble in IN_USE if trouble.harm is not without_schema),
    Trouble(newer, "upgrade vidgen_async"),
)


@pytest.mark.needs_engines
@pytest.mark.parametrize(
    ("trouble", "is_new"),
    [(trouble, False) for trouble in IN_USE] + [(trouble, True) for trouble in AT_OPENING],
    ids=lambda value: str(value) if isinstance(value, Trouble) else ("at opening" if value else "in use"),
)
async def test_with_a_server_that_cannot_be_used_no_post_is_sent_and_after_its_repair_the_same_client_sends_one(
    make_client, service, server, clock, harm, trouble, is_new
):
    client = make_client(clock)
    first = await result_of(client, "first")
    client = make_client(clock) if is_new else client

    harm.enter_context(trouble.harm(server))
    for _ in range(2):
        error = await result_of(client, "o")
        assert type(error) is JournalError
        assert trouble.words in str(error)
    assert posts_of(service, "o") == []
    stored = await result_of(client, "first")  # it can be read in some cases
    assert stored == first or type(stored) is JournalError

    harm.close()

    receipt = await result_of(client, "o")
    assert [post.task_id for post in posts_of(service, "o")] == [receipt.task_id]
    assert await result_of(client, "first") == first
    assert len(posts_of(service, "first")) == 1


@pytest.mark.needs_engines
@pytest.mark.parametrize("seconds", [10.0, 45.0])
@pytest.mark.parametrize("trouble", IN_USE, ids=str)
async def test_a_receipt_that_the_server_cannot_store_is_returned_or_in_the_exception_and_is_stored_after_its_repair(
    make_client, service, server, clock, harm, on_arrival, trouble, seconds
):
    journal = HeldPostgresJournal(server.dsn, clock)
    client = make_client(clock, journal)
    await client.orders.list()
    on_arrival.append(lambda: harm.enter_context(trouble.harm(server)))
    with clock.hold():
        caller = asyncio.ensure_future(result_of(client, "o"))
        await journal.is_settling.wait()
    await clock.sleep(seconds)
    harm.close()
    await clock.sleep(61.0)  # what a journal refused has been offered to it again

    result = await caller
    (post,) = posts_of(service, "o")
    assert type(result) is (Receipt if seconds < 30 else ReceiptNotStoredError)
    assert result.task_id == post.task_id
    stored = on_disk(server.dsn)["o"]
    assert (stored.state, stored.task_ids) == ("accepted", {post.task_id})
    assert (await result_of(make_client(clock), "o")).task_id == post.task_id
    assert len(posts_of(service, "o")) == 1


@pytest.mark.slow
async def test_a_commit_during_which_the_server_ends_the_connection_may_have_been_carried_out(
    make_client, network, server, clock
):
    def end_before_commit(message: Message) -> None:
        if b"INSERT INTO orders" in message.data:
            network.decide = lambda message: server.execute(END_OTHERS) if is_of_commit(message) else None

    client = make_client(clock, HeldPostgresJournal(network.dsn, clock))
    await client.orders.list()
    network.decide = end_before_commit
    error = await result_of(client, "o")
    assert error.may_be_committed
