"""A journal in PostgreSQL: trouble with the server and the network, clocks, and administration."""

import asyncio
import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import time

import psycopg
import pytest
from attrs import evolve

from tests.journal.conftest import (
    ACCOUNT,
    DEADLINE,
    NOW,
    SERVICE,
    HeldLock,
    accepted,
    evidence,
    order_of,
    permission,
    ref_of,
    rejected,
    sending,
    uncertain,
)
from tests.postgres import PostgresServer, running_server
from tests.proof.lossy_network import Loss, LossyNetwork, Message, Way, lossy_network
from tests.transports.raw_service import Connection, raw_service
from vidgen_async import Client
from vidgen_async.clock import LoopClock
from vidgen_async.errors import JournalError, OrderStateError, UncertainCreateError
from vidgen_async.journal import MustWait, OrderChanged, PostgresJournal
from vidgen_async.journal.postgres import schema
from vidgen_async.journal.postgres.connections import _SERVER_LIMITS
from vidgen_async.journal.sql import queries
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Request
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import Attempt, AttemptOutcome, Balance, Closing, Order, OrderState, TaskResult


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may stop."""
    with running_server() as running:
        yield running


@pytest.fixture
async def open_journal(server: PostgresServer) -> AsyncIterator[Callable[..., PostgresJournal]]:
    """Another journal in the tables of the test."""
    name = f"test_{secrets.token_hex(8)}"
    async with AsyncExitStack() as stack:

        def make(dsn: str = server.dsn, **options: object) -> PostgresJournal:
            journal = PostgresJournal(dsn, **{"schema": name, "max_connections": 2, **options})
            stack.push_async_callback(journal.aclose)
            return journal

        yield make


@pytest.fixture
def journal(open_journal) -> PostgresJournal:
    return open_journal()


# -- a server that cannot be used --------------------------------------------------------------------------------------


async def test_nothing_is_opened_before_the_first_operation(tmp_path):
    journal = PostgresJournal(f"postgresql:///db?host={tmp_path}")
    assert "db" in repr(journal)
    await journal.aclose()


async def test_a_standby_is_refused(server, open_journal):
    await open_journal().namespace("word")
    with server.as_standby(), pytest.raises(JournalError, match=r"standby.*connect to the primary"):
        await open_journal().get(ref_of(), NOW)


# -- connections that are lost -----------------------------------------------------------------------------------------


async def test_connections_that_the_server_closed_are_replaced(server, journal):
    await journal.intend(order_of())
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    await journal.begin(permission())


async def test_a_crash_of_the_server_loses_nothing_that_was_returned(server, open_journal):
    journal = open_journal(max_connections=8)
    await journal.namespace("word")
    writes = [asyncio.ensure_future(journal.intend(order_of(f"order-{n}"))) for n in range(300)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(server.stop, "immediate")
    await asyncio.to_thread(server.start)
    results = await asyncio.gather(*writes, return_exceptions=True)
    listed = {order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW)}
    returned = {order.order_id for order in results if not isinstance(order, BaseException)}
    assert 0 < len(returned) <= 300
    assert returned <= listed
    assert {type(result) for result in results if isinstance(result, BaseException)} <= {JournalError}


async def test_the_receipt_of_a_create_during_which_the_server_crashed_is_recorded(server, open_journal):
    async def accept_late(connection: Connection) -> None:
        await connection.request()
        was_received.set()
        await was_restarted.wait()
        await connection.answer(b'HTTP/1.1 202 Accepted\r\nContent-Length: 16\r\n\r\n{"id": "task-1"}')

    was_received, was_restarted = asyncio.Event(), asyncio.Event()
    other = open_journal()
    async with (
        raw_service(accept_late) as service,
        Client("a-key", base_url=str(service.url("/openapi/v1")), journal=open_journal()) as client,
    ):
        fields = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
        create = asyncio.ensure_future(client.videos.create(**fields, order_id="o", validate=False))
        await was_received.wait()
        await asyncio.to_thread(server.stop, "immediate")
        await asyncio.to_thread(server.start)

        ref = ref_of(service=f"http://127.0.0.1:{service.port}", account="default")
        assert (await other.get(ref, datetime.now(UTC))).state is OrderState.UNCERTAIN
        was_restarted.set()
        receipt = await create
        assert (await other.get(ref, datetime.now(UTC))).receipt == receipt
        assert service.requests_begun == 1


@pytest.fixture
async def network(server: PostgresServer) -> AsyncIterator[LossyNetwork]:
    """Between journals and the server."""
    async with lossy_network(server.directory) as lossy:
        yield lossy


def cut_at_commit(network: LossyNetwork, way: Way) -> None:
    """End the connection instead of forwarding the next commit, or the answer to it."""

    def cut(message: Message) -> Loss | None:
        if message.way is not way or b"COMMIT\0" not in message.data:
            return None
        network.decide = lambda _: None
        return Loss.CUT

    network.decide = cut


async def test_a_commit_whose_answer_is_lost_may_have_been_carried_out(open_journal, network):
    journal = open_journal(network.dsn)
    await journal.intend(order_of())
    cut_at_commit(network, Way.TO_CLIENT)
    with pytest.raises(JournalError, match=r"lost during a commit .* may have been carried out") as caught:
        await journal.begin(permission())
    assert caught.value.may_be_temporary
    assert caught.value.may_be_committed
    order = await open_journal().get(ref_of(), NOW)
    assert order.state is OrderState.SENDING
    with pytest.raises(OrderChanged) as answer:
        await journal.begin(permission())
    assert answer.value.order == order  # it is never recorded twice


async def test_a_commit_that_did_not_arrive_was_not_carried_out(open_journal, network):
    journal = open_journal(network.dsn)
    await journal.intend(order_of())
    cut_at_commit(network, Way.TO_SERVER)
    with pytest.raises(JournalError) as caught:
        await journal.begin(permission())
    assert caught.value.may_be_committed
    assert network.losses == 1
    assert (await open_journal().get(ref_of(), NOW)).state is OrderState.QUEUED


async def test_after_the_lost_answer_to_a_commit_each_attempt_of_its_group_is_settled_by_its_own_mark(
    open_journal, network, holding
):
    journal, other, names = open_journal(network.dsn), open_journal(), ("a", "b", "c")
    for name in names:
        await sending(journal, name)
        await journal.settle(ref_of(name), 1, rejected())
    operations = await holding.start(journal)
    permissions = [permission(name, expect_attempt=1, mark=f"mark of {name}") for name in names]
    operations += [asyncio.ensure_future(journal.begin(each)) for each in permissions]
    while len(journal._database._waiting[SERVICE, ACCOUNT]._operations) < len(names):  # noqa: ASYNC110 - threads
        await asyncio.sleep(0.001)
    cut_at_commit(network, Way.TO_CLIENT)
    holding.end.set()

    outcomes = await asyncio.gather(*operations, return_exceptions=True)

    assert [(type(one), one.may_be_committed) for one in outcomes] == [(JournalError, True)] * 4
    assert network.losses == 1
    for name in names:
        assert (await other.get(ref_of(name), NOW)).state is OrderState.SENDING
        order = await other.settle_mark(ref_of(name), f"mark of {name}", evidence(AttemptOutcome.NOT_SENT))
        assert order.state is OrderState.REJECTED
        assert [attempt.n for attempt in order.attempts] == [1, 2]


async def test_an_error_that_the_server_reports_late_is_that_of_its_operation(journal, holding):
    holding.failures["first"] = lambda db: db.execute("DO $$ BEGIN RAISE serialization_failure; END $$", {})
    outcomes = await holding.gather(journal, "a", "b")
    assert [type(outcome) for outcome in outcomes] == [JournalError, Order, Order]


async def test_an_error_of_the_server_is_that_of_the_whole_group(journal, holding):
    holding.failures["b"] = lambda db: db.execute("DO $$ BEGIN RAISE query_canceled; END $$", {})
    outcomes = await holding.gather(journal, "a", "b")
    assert [type(outcome) for outcome in outcomes] == [JournalError] * 3


async def test_a_read_returns_what_was_committed_before_it_was_asked_for(journal, holding, monkeypatch):
    begun, end, read_order = threading.Event(), threading.Event(), queries.read_order

    def read_and_wait(db, ref):
        found = read_order(db, ref)
        if ref.order_id == "early":
            begun.set()
            assert end.wait(30)
        return found

    monkeypatch.setattr(queries, "read_order", read_and_wait)
    early = asyncio.ensure_future(journal.get(ref_of("early"), NOW))
    assert await asyncio.to_thread(begun.wait, 30)
    await journal.intend(order_of("o"))
    operations = await holding.start(journal)  # the other connection is in use, too
    late = asyncio.ensure_future(journal.get(ref_of(), NOW))
    await asyncio.sleep(0)
    end.set()

    assert (await late).order_id == "o"

    holding.end.set()
    await asyncio.gather(early, *operations)


#: At the commit of an order: what is executed.
_AT_COMMIT = """
    CREATE FUNCTION {0}.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {1}; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {0}.orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {0}.at_commit();
"""


async def test_nobody_is_answered_before_the_commit_of_a_group(server, journal, holding):
    await journal.namespace("word")
    server.execute(_AT_COMMIT.format(journal.schema, "PERFORM pg_advisory_xact_lock(7)"))
    operations = await holding.start(journal, "a", "b")
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(7)")
        holding.end.set()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted"
        while connection.execute(waits).fetchone() != (1,):  # noqa: ASYNC110 - the server
            await asyncio.sleep(0.001)
        assert not any(operation.done() for operation in operations)
        assert holding.stored == ["first", "a", "b"]
    assert [(await operation).order_id for operation in operations] == holding.stored


async def test_all_operations_of_a_commit_that_fails_have_failed_and_can_be_repeated(server, journal, holding):
    await journal.namespace("word")
    server.execute(_AT_COMMIT.format(journal.schema, "RAISE disk_full"))
    outcomes = await holding.gather(journal, "a", "b")
    assert [(type(one), one.may_be_committed, one.may_be_temporary) for one in outcomes] == [
        (JournalError, False, True)
    ] * 3
    assert await journal.list(SERVICE, ACCOUNT, NOW) == []
    server.execute(f"DROP TRIGGER at_commit ON {journal.schema}.orders")
    assert (await journal.intend(order_of("a"))).order_id == "a"


async def test_a_group_is_repeated_with_a_new_connection_if_the_old_one_was_closed(server, journal, holding):
    def end_connection(db):
        del holding.failures["b"]
        db.execute("SELECT pg_terminate_backend(pg_backend_pid())", {}).fetchall()

    holding.failures["b"] = end_connection
    outcomes = await holding.gather(journal, "a", "b", "c")
    assert [order.order_id for order in outcomes] == ["first", "a", "b", "c"]
    assert holding.stored == ["first", "a", "b", "first", "a", "b", "c"]


async def test_a_network_that_loses_everything_ends_the_operation_after_its_time_limit(
    open_journal, network, monkeypatch
):
    journal = open_journal(network.dsn)
    await sending(journal, "another")
    await journal.intend(order_of())
    network.decide = lambda _: Loss.SWALLOWED
    with monkeypatch.context() as patch:
        patch.setattr(journal._database, "_time_limit", 0.1)
        with pytest.raises(JournalError):
            await journal.begin(permission())
    network.decide = lambda _: None
    await journal.begin(permission())


@pytest.mark.parametrize("lock", ["LOCK TABLE {0}.orders", "SELECT pg_advisory_xact_lock({1})"])
async def test_a_lock_that_another_process_holds_too_long_is_named(server, journal, lock, monkeypatch, caplog):
    await journal.intend(order_of())
    key = f"hashtextextended('vidgen {journal.schema} {SERVICE}', 0)"
    monkeypatch.setitem(_SERVER_LIMITS, "lock_timeout", 0.001)
    with psycopg.connect(server.dsn) as connection:
        connection.execute(lock.format(journal.schema, key))
        with pytest.raises(JournalError, match="another process held a lock for too long"):
            await journal.intend(order_of("another"))
    assert caplog.records == []


def test_the_limits_of_the_server_are_exceeded_before_the_time_limit_and_that_of_locks_first():
    assert list(_SERVER_LIMITS) == ["lock_timeout", "statement_timeout", "transaction_timeout"]
    assert sorted(_SERVER_LIMITS.values()) == list(_SERVER_LIMITS.values())
    assert max(_SERVER_LIMITS.values()) < 1


async def test_a_transaction_that_exceeds_the_time_limit_is_not_repeated(journal, monkeypatch, caplog):
    calls = []

    def wait(db):
        calls.append(1)
        return db.execute("SELECT pg_sleep(10)", {}).fetchone()

    await journal.namespace("word")
    for name in _SERVER_LIMITS:
        monkeypatch.setitem(_SERVER_LIMITS, name, 100)  # as if the server did not respond
    with monkeypatch.context() as patch:
        patch.setattr(journal._database, "_time_limit", 0.2)
        with pytest.raises(
            JournalError, match=r"did not finish within 0\.2 s \(time_limit\)\. Nothing was written"
        ) as caught:
            await journal._write(wait, SERVICE, ACCOUNT)
    assert calls == [1]
    assert caught.value.may_be_temporary
    assert not caught.value.may_be_committed
    assert caplog.records == []
    assert await journal.namespace("word") == "word"


async def test_the_limit_is_exact_whatever_isolation_level_is_the_default(server, open_journal):
    serializable = "&options=-c%20default_transaction_isolation%3Dserializable"
    journal = open_journal(server.dsn + serializable, max_connections=4)
    names = [f"order-{n}" for n in range(20)]
    await asyncio.gather(*(journal.intend(order_of(name)) for name in names))
    begins = [journal.begin(permission(name, limit=5)) for name in names]
    answers = await asyncio.gather(*begins, return_exceptions=True)
    assert Counter(map(type, answers)) == {Attempt: 5, MustWait: 15}


async def test_an_order_that_is_larger_than_the_buffers_of_a_connection_is_stored(journal):
    order = order_of(body=b"a" * (4 << 20))
    assert (await journal.intend(order)).body == order.body


async def test_cancelled_callers_do_not_use_up_the_connections(journal):
    for number in range(50):
        call = asyncio.ensure_future(journal.intend(order_of(f"order-{number}")))
        await asyncio.sleep(0)
        call.cancel()
    await sending(journal, "another")
    assert (await journal.get(ref_of("another"), NOW)).state is OrderState.SENDING


async def test_a_stopped_process_does_not_hold_the_lock_of_an_account(open_journal, monkeypatch):
    def stop_once(db, order):
        monkeypatch.undo()
        stored = queries.add_order(db, order)
        is_locked.set()
        assert goes_on.wait(20)
        return stored

    is_locked, goes_on = threading.Event(), threading.Event()
    stopped, other = open_journal(), open_journal()
    await stopped.namespace("word")
    monkeypatch.setattr("vidgen_async.journal.postgres.connections._IDLE_LIMIT", 0.1)
    monkeypatch.setattr(queries, "add_order", stop_once)
    write = asyncio.ensure_future(stopped.intend(order_of("stopped")))
    await asyncio.to_thread(is_locked.wait)

    await sending(other, "another")
    goes_on.set()
    with pytest.raises(JournalError) as caught:
        await write
    assert caught.value.may_be_committed
    assert [order.order_id for order in await other.list(SERVICE, ACCOUNT, NOW)] == ["another"]


# -- the sequence of receipts ------------------------------------------------------------------------------------------


async def settle(journal: PostgresJournal, order_id: str) -> None:
    await journal.settle(ref_of(order_id), 1, accepted(order_id))


async def confirm(journal: PostgresJournal, order_id: str) -> None:
    await journal.confirm(ref_of(order_id), 1, accepted(order_id))


async def adopt(journal: PostgresJournal, order_id: str) -> None:
    adoption = Attempt(n=0, sent_at=NOW, deadline_at=NOW, kind="adopt", evidence=accepted(order_id))
    await journal.adopt(ref_of(order_id), adoption, frozenset(OrderState))


@pytest.mark.parametrize("later", [settle, confirm, adopt])
@pytest.mark.parametrize("earlier", [settle, confirm, adopt])
async def test_a_receipt_that_is_committed_between_two_pages_is_on_a_later_one(
    server, open_journal, monkeypatch, earlier, later
):
    monkeypatch.setattr("vidgen_async.journal.sql.journal.RUNNING_PAGE", 1)
    writer, other = open_journal(), open_journal()
    for order_id in ("first", "earlier", "later"):
        await sending(writer, order_id)
    await settle(writer, "first")
    found = await running_after(writer, 0)

    async with stopped_before_commit(earlier(writer, "earlier"), monkeypatch):
        second = asyncio.ensure_future(later(other, "later"))
        await ended_or_blocked(second, server)
        between = await running_after(writer, found[-1][1])
    await second

    found += between + await running_after(writer, (found + between)[-1][1])
    assert [task_id for task_id, _ in found] == ["first", "earlier", "later"]


@asynccontextmanager
async def stopped_before_commit(write: Coroutine[None, None, object], monkeypatch) -> AsyncIterator[None]:
    """Carry out the operation, whose transaction has written a receipt and is not committed inside the block."""

    def stop_once(db, before, after):
        order = add_evidence(db, before, after)
        if after is not before:
            monkeypatch.setattr(queries, "add_evidence", add_evidence)
            db.execute("SELECT 1", {}).fetchone()  # a pipeline may not have sent the other statements before
            is_written.set()
            assert goes_on.wait(20)
        return order

    add_evidence, is_written, goes_on = queries.add_evidence, threading.Event(), threading.Event()
    monkeypatch.setattr(queries, "add_evidence", stop_once)
    writing = asyncio.ensure_future(write)
    await asyncio.to_thread(is_written.wait, 20)
    try:
        yield
    finally:
        goes_on.set()
    await writing


async def ended_or_blocked(operation: asyncio.Future[object], server: PostgresServer) -> None:
    # The server has no event for it.
    while not operation.done() and not server.execute("SELECT 1 FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def running_after(journal: PostgresJournal, after: int) -> list[tuple[str, int]]:
    """The running tasks that follow, each with its position."""
    found = []
    while (page := await journal.running(SERVICE, ACCOUNT, after=after)).after is not None:
        after = page.after
        found += [(task.task_id, after) for task in page.tasks]
    return found


async def test_a_second_receipt_that_is_stored_while_the_first_task_ends_keeps_the_order_in_the_list(
    server, open_journal, monkeypatch
):
    writer, other = open_journal(), open_journal()
    await sending(writer)
    await settle(writer, "o")
    await writer.begin(permission(expect_attempt=1, states=frozenset(OrderState)))

    async with stopped_before_commit(writer.settle(ref_of(), 2, accepted("second")), monkeypatch):
        result = TaskResult(task_id="o", status="completed", at=NOW)
        recording = asyncio.ensure_future(other.record(SERVICE, [result]))
        await ended_or_blocked(recording, server)
    await recording

    (order,) = await other.list(SERVICE, ACCOUNT, NOW, is_terminal=False)
    assert order.running_task_ids == ("second",)


async def test_a_receipt_of_another_account_that_is_stored_while_its_task_ends_counts_as_ended(
    server, open_journal, monkeypatch
):
    writer, other = open_journal(), open_journal()
    for account in (ACCOUNT, "b"):
        await writer.intend(order_of(account=account))
        await writer.begin(permission(account=account))
    await settle(writer, "o")

    async with stopped_before_commit(writer.settle(ref_of(account="b"), 1, accepted("o")), monkeypatch):
        recording = asyncio.ensure_future(other.record(SERVICE, [TaskResult(task_id="o", status="completed", at=NOW)]))
        await ended_or_blocked(recording, server)
    await recording

    for account in (ACCOUNT, "b"):
        assert len(await other.list(SERVICE, account, NOW, is_terminal=True)) == 1


# -- the clock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong_by", [-400.0, -1.5, 1.5, 400.0])
async def test_the_limit_is_counted_by_the_clock_of_the_database(open_journal, wrong_by):
    exact, wrong = open_journal(), open_journal(read_time=lambda: time() + wrong_by)
    pacing = Pacing(limit=1)
    await wrong.intend(order_of())
    await wrong.begin(permission(now=at(wrong_by), limit=1))
    await wrong.settle(ref_of(), 1, accepted(at=at(wrong_by)))

    turn = await exact.turn(SERVICE, ACCOUNT, pacing, at(0))
    assert (turn.free, turn.wait) == (0, pytest.approx(60.1, abs=2.0))
    assert (await exact.turn(SERVICE, ACCOUNT, pacing, at(63))).free == 1
    assert (await wrong.turn(SERVICE, ACCOUNT, pacing, at(wrong_by + 63))).free == 1


async def test_an_attempt_of_a_host_whose_clock_is_slow_is_not_over_at_once(open_journal):
    exact, slow = open_journal(), open_journal(read_time=lambda: time() - 400)
    await slow.intend(order_of())
    await slow.begin(permission(now=at(-400)))
    assert (await exact.get(ref_of(), at(0))).state is OrderState.SENDING
    assert (await exact.get(ref_of(), at(140))).state is OrderState.UNCERTAIN


async def test_every_stored_time_is_that_of_the_database(server, open_journal):
    journal = open_journal(read_time=lambda: time() - 400)
    now = at(-400)
    for order_id in ("accepted", "adopted", "abandoned", "rejected"):
        await journal.intend(evolve(order_of(order_id), created_at=now))
        await journal.begin(permission(order_id, now=now))
    await journal.settle(ref_of("accepted"), 1, accepted(at=now))
    await journal.record(SERVICE, [TaskResult(task_id="task-1", status="completed", at=now)])
    await journal.settle(ref_of("rejected"), 1, rejected(at=now, retry_at=at(-390)))
    balance = Balance(at=now, numbers={})
    for order_id in ("adopted", "abandoned"):
        await journal.settle(ref_of(order_id), 1, uncertain(at=now, balance_before=balance, balance_after=balance))
    adoption = Attempt(n=0, sent_at=now, deadline_at=now, kind="adopt", evidence=accepted("task-2", now))
    await journal.adopt(ref_of("adopted"), adoption, {OrderState.UNCERTAIN})
    closing = Closing(state=OrderState.ABANDONED, at=now, reason="no task", by="ann")
    await journal.close_order(ref_of("abandoned"), closing, {OrderState.UNCERTAIN})

    of_times = f"table_schema = '{journal.schema}' AND column_name LIKE '%at'"
    columns = server.execute(f"SELECT table_name, column_name FROM information_schema.columns WHERE {of_times}")  # noqa: S608
    assert len(columns) == 8
    for table, column in columns:
        stored = server.execute(f"SELECT {column} FROM {journal.schema}.{table} WHERE {column} IS NOT NULL")  # noqa: S608
        assert [column for (micros,) in stored if not -60 < micros / 1e6 - time() < 200] == []
    for (text,) in server.execute(f"SELECT balance_before FROM {journal.schema}.evidence WHERE outcome = 'uncertain'"):  # noqa: S608
        assert json.loads(text)["at"] / 1e6 - time() > -60
    assert len(await journal.list(SERVICE, ACCOUNT, at(-400), since=at(-460))) == 4
    assert await journal.list(SERVICE, ACCOUNT, at(-400), since=at(-340)) == []


async def test_every_returned_time_is_that_of_the_caller(open_journal):
    journal = open_journal(read_time=lambda: time() - 400)
    now = at(-400)
    stored = evolve(order_of(), created_at=now)
    assert await journal.intend(stored) == stored
    assert (await journal.begin(permission(now=now))).sent_at == now
    assert (await journal.settle(ref_of(), 1, accepted(at=now))).receipt.accepted_at == now

    (listed,) = await journal.list(SERVICE, ACCOUNT, at(-400))
    (task,) = (await journal.running(SERVICE, ACCOUNT)).tasks
    await journal.record(SERVICE, [TaskResult(task_id="task-1", status="completed", at=now)])
    order = await journal.get(ref_of(), at(-400))
    times = [listed.created_at, listed.attempts[0].sent_at, task.accepted_at, order.receipt.accepted_at]
    times += [order.attempts[0].deadline_at - DEADLINE, order.results[0].at]
    assert [moment for moment in times if abs(moment - now) > timedelta(seconds=0.1)] == []


async def test_what_a_read_finds_uncertain_is_dated_with_its_time_in_the_clock_of_the_caller(open_journal):
    journal = open_journal(read_time=lambda: time() - 400)
    await journal.intend(evolve(order_of(), created_at=at(-400)))
    await journal.begin(permission(now=at(-400)))
    now = at(-400) + DEADLINE + timedelta(seconds=1)
    (listed,) = await journal.list(SERVICE, ACCOUNT, now)
    assert [n for n, _ in listed.found_uncertain(now)] == [1]


@pytest.mark.parametrize("wrong_by", [-400.0, 400.0])
async def test_the_first_and_the_last_date_of_the_calendar_are_limits_of_lists(open_journal, wrong_by):
    journal = open_journal(read_time=lambda: time() + wrong_by)
    await journal.intend(order_of())
    assert len(await journal.list(SERVICE, ACCOUNT, at(wrong_by), since=datetime.min.replace(tzinfo=UTC))) == 1
    assert await journal.list(SERVICE, ACCOUNT, at(wrong_by), since=datetime.max.replace(tzinfo=UTC)) == []


@pytest.mark.parametrize("wrong_by", [-400.0, 400.0])
async def test_the_age_of_a_key_is_known_on_a_host_whose_clock_is_wrong(server, open_journal, wrong_by):
    class WrongClock(LoopClock):
        def wall(self) -> datetime:
            return at(wrong_by)

    posts = []

    async def lose(request: Request) -> BufferedResponse:
        posts.append(request)
        raise ConnectionError

    journal = open_journal(read_time=lambda: time() + wrong_by)
    options = {"transport": FakeTransport(lose), "clock": WrongClock(), "journal": journal}
    async with Client("a-key", base_url="https://h/openapi/v1", **options) as client:
        with pytest.raises(UncertainCreateError):
            await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, order_id="o", validate=False)
        columns = "sent_at = sent_at - {0}, deadline_at = deadline_at - {0}, counted_at = counted_at - {0}"
        server.execute(f"UPDATE {journal.schema}.attempts SET " + columns.format(3900 * 10**6))  # noqa: S608
        with pytest.raises(OrderStateError, match=r"first sent 1\.1 h ago"):
            await client.orders.resend("o", expect_attempt=1, reason="no task")
    assert len([request for request in posts if request.method == "POST"]) == 1


async def test_the_clock_is_read_exactly_however_the_database_prints_numbers(server, open_journal):
    server.execute("CREATE ROLE rounding LOGIN SUPERUSER")
    server.execute("ALTER ROLE rounding SET extra_float_digits = -15")
    journal = open_journal(server.dsn.replace("postgres@", "rounding@"))
    await journal.intend(evolve(order_of(), created_at=at(0)))
    ((micros,),) = server.execute(f"SELECT created_at FROM {journal.schema}.orders")  # noqa: S608
    assert abs(micros / 1e6 - time()) < 60


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(time() + seconds, UTC)


# -- administration ----------------------------------------------------------------------------------------------------


async def test_a_missing_table_is_named(server, open_journal):
    journal = open_journal()
    await journal.namespace("word")
    server.execute(f"DROP TABLE {journal.schema}.closings")
    with pytest.raises(JournalError, match=r'a table is missing.*"closings" does not exist.*Nothing was written'):
        await journal.get(ref_of(), NOW)


async def test_a_user_whose_right_to_the_schema_was_revoked_is_not_told_to_restore_tables_only(server, open_journal):
    journal = open_journal(server.dsn.replace("postgres@", "revoked@"))
    server.execute("CREATE ROLE revoked LOGIN")
    server.execute(schema.postgres_schema(journal.schema, user="revoked"))
    await journal.namespace("word")
    server.execute(f"REVOKE USAGE ON SCHEMA {journal.schema} FROM revoked")
    with pytest.raises(JournalError, match=r"may not use the schema \(then GRANT USAGE ON SCHEMA\)"):
        await journal.get(ref_of(), NOW)


async def test_a_forked_child_needs_a_journal_of_its_own(journal, monkeypatch):
    await journal.namespace("word")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    monkeypatch.setattr(journal, "_lock", HeldLock())
    with pytest.raises(JournalError, match="was forked"):
        await journal.namespace("word")
    with pytest.raises(JournalError, match="was forked"):
        await journal.begin(permission())
    await journal.aclose()
    monkeypatch.undo()
