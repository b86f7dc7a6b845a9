"""A sender that has ended is detected by its lock: its attempts are uncertain at once, and never sent again."""

import asyncio
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.journal.conftest import (
    ACCOUNT,
    DEADLINE,
    NOW,
    SENDABLE,
    SERVICE,
    MakeJournal,
    accepted,
    evidence,
    order_of,
    permission,
    ref_of,
    rows,
    sending,
)
from vidgen_async import Client, JournalError, UncertainCreateError
from vidgen_async.journal import OrderChanged, PostgresJournal, SqliteJournal
from vidgen_async.journal.postgres import session_lock
from vidgen_async.journal.sql.journal import SqlJournal
from vidgen_async.journal.sqlite.side_files import SenderLock
from vidgen_async.journal.sqlite.side_files import _close as close_all
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.types.orders import Attempt, AttemptOutcome, Closing, Order, OrderState

SOCKET = ".s.PGSQL."
FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
ROOT = Path(__file__).resolve().parents[2]

#: The application name of the connections that hold locks.
LOCK = "vidgen session lock"

#: Orders a video.
ORDERS = f"""
import asyncio, sys
from vidgen_async import Client
from vidgen_async.journal import PostgresJournal, SqliteJournal

async def main():
    name = sys.argv[3]
    journal = SqliteJournal(name) if name.endswith(".db") else PostgresJournal(name, schema="tests")
    async with Client(sys.argv[1], base_url=sys.argv[2], journal=journal) as client:
        await client.videos.create(**{FIELDS!r}, order_id="order-1187")

asyncio.run(main())
"""


@pytest.fixture(params=["postgres"])
def open_journal(request: pytest.FixtureRequest) -> MakeJournal:
    """Opens the journal of another process."""
    return request.getfixturevalue({"sqlite": "open_file", "postgres": "open_database"}[request.param])


#: For the tests that hold for both kinds of locks.
in_both = pytest.mark.parametrize("open_journal", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def sender(open_journal: MakeJournal) -> SqlJournal[Any]:
    """The journal of a process that sends orders."""
    return open_journal()


@pytest.fixture
def end_sessions(request: pytest.FixtureRequest, sender: SqlJournal[Any]) -> Callable[[], int]:
    """Ends all locks, as the system or the server does when their processes have ended. Returns their number."""
    if isinstance(sender, SqliteJournal):
        return lambda: end_lock(sender._sender_lock)
    postgres = request.getfixturevalue("postgres")

    def end() -> int:
        with psycopg.connect(postgres, autocommit=True) as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity "
                "WHERE application_name = %s AND datname = current_database()",
                (LOCK,),
            ).fetchall()
        assert all(is_ended for (is_ended,) in ended)
        return len(ended)

    return end


def end_lock(lock: SenderLock) -> int:
    """Close the files of a lock, as the system does when its process has ended, and return their number."""
    ended = len(lock._descriptors)
    close_all(lock._descriptors)
    return ended


@pytest.fixture
def sessions(request: pytest.FixtureRequest, sender: SqlJournal[Any]) -> Callable[[], list[object]]:
    """Reads the sessions of all attempts."""
    if isinstance(sender, SqliteJournal):
        return lambda: [session for (session,) in rows(sender.path, "SELECT session FROM attempts ORDER BY order_id")]
    postgres = request.getfixturevalue("postgres")

    def read() -> list[object]:
        with psycopg.connect(postgres) as connection:
            rows = connection.execute("SELECT session FROM tests.attempts ORDER BY order_id").fetchall()
        return [session for (session,) in rows]

    return read


# -- a sender that has ended -------------------------------------------------------------------------------------------


async def get(journal: SqlJournal[Any]) -> Order:
    return await journal.get(ref_of(), NOW)


async def find_in_list(journal: SqlJournal[Any]) -> Order:
    (order,) = await journal.list(SERVICE, ACCOUNT, NOW, states=[OrderState.SENDING, OrderState.UNCERTAIN])
    return order


async def begin(journal: SqlJournal[Any]) -> Order:
    with pytest.raises(OrderChanged) as answer:
        await journal.begin(permission(expect_attempt=1))
    return answer.value.order


async def withdraw(journal: SqlJournal[Any]) -> Order:
    return await journal.close_order(ref_of(), Closing(state=OrderState.WITHDRAWN, at=NOW, reason=""), SENDABLE)


async def adopt(journal: SqlJournal[Any]) -> Order:
    attempt = Attempt(n=0, sent_at=NOW, deadline_at=NOW, kind="adopt", evidence=accepted())
    return await journal.adopt(ref_of(), attempt, SENDABLE)


@in_both
@pytest.mark.parametrize("operation", [get, find_in_list, begin, withdraw, adopt])
async def test_every_operation_finds_its_attempt_uncertain_and_does_not_send_it(sender, other, end_sessions, operation):
    await sending(sender)
    assert (await operation(other)).state is OrderState.SENDING
    assert end_sessions()
    order = await operation(other)
    assert order.state is OrderState.UNCERTAIN
    assert "the process that began it has ended or has lost its connection" in order.attempts[0].evidence.cause
    assert order.attempts[0].wait_time is None
    assert await get(sender) == order


@in_both
async def test_a_list_of_uncertain_orders_has_it(sender, other, end_sessions):
    await sending(sender)
    end_sessions()
    assert len(await other.list(SERVICE, ACCOUNT, NOW, states=[OrderState.UNCERTAIN])) == 1
    assert await other.list(SERVICE, ACCOUNT, NOW, states=[OrderState.SENDING]) == []


@in_both
async def test_a_late_receipt_has_precedence(sender, other, end_sessions):
    await sending(sender)
    end_sessions()
    assert (await get(other)).state is OrderState.UNCERTAIN
    assert (await sender.settle(ref_of(), 1, accepted())).receipt.task_id == "task-1"
    assert (await get(other)).receipt.task_id == "task-1"


@in_both
@pytest.mark.parametrize("outcome", [AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED])
async def test_only_the_sender_knows_that_nothing_was_sent_or_charged(sender, other, end_sessions, outcome):
    await sending(sender)
    end_sessions()
    assert (await begin(other)).state is OrderState.UNCERTAIN
    await sender.settle(ref_of(), 1, evidence(outcome))
    assert (await get(other)).state in SENDABLE
    assert (await other.begin(permission(expect_attempt=1))).n == 2


@in_both
async def test_a_slot_of_the_limit_is_held_as_before(sender, other, end_sessions):
    await sending(sender, limit=1)
    end_sessions()
    assert (await get(other)).state is OrderState.UNCERTAIN
    turn = await other.turn(SERVICE, ACCOUNT, permission(limit=1).pacing, NOW)
    assert (turn.free, turn.wait) == (0, pytest.approx(190.1))


# -- a sender that has not ended ---------------------------------------------------------------------------------------


@in_both
async def test_a_sender_does_not_give_up_its_own_attempts(sender, end_sessions):
    await sending(sender)
    end_sessions()
    assert (await get(sender)).state is OrderState.SENDING
    assert (await sender.get(ref_of(), NOW + DEADLINE * 2)).state is OrderState.UNCERTAIN


@in_both
async def test_a_lost_lock_is_acquired_again_before_the_next_attempt(sender, other, end_sessions, sessions):
    await sending(sender, "a")
    end_sessions()
    await sending(sender, "b")
    states = [order.state for order in await other.list(SERVICE, ACCOUNT, NOW)]
    assert states == [OrderState.SENDING, OrderState.SENDING]
    assert len(set(sessions())) == 1
    assert sessions() != [None, None]


@in_both
async def test_a_journal_that_is_used_again_after_it_was_closed_has_the_same_session(sender, other):
    await sending(sender, "a")
    await sender.aclose()
    await sending(sender, "b")
    states = [order.state for order in await other.list(SERVICE, ACCOUNT, NOW)]
    assert states == [OrderState.SENDING, OrderState.SENDING]


async def test_closing_one_of_two_clients_of_a_journal_keeps_the_lock_of_the_other(sender, other, postgres):
    await sending(sender)
    await sender.aclose()  # as the client does that is closed
    assert (await get(other)).state is OrderState.SENDING
    await sender.settle(ref_of(), 1, accepted())
    await sender.aclose()
    await wait_for_release(postgres)


async def test_a_closed_journal_whose_attempts_have_outcomes_holds_no_lock(sender, postgres):
    await sending(sender)
    await sender.settle(ref_of(), 1, evidence(AttemptOutcome.UNCERTAIN))
    assert count_connections(postgres, LOCK) == 1
    await sender.aclose()
    await wait_for_release(postgres)


async def test_the_lock_is_released_after_an_outcome_that_is_stored_while_the_journal_is_closed(sender, postgres):
    await sending(sender)
    settle = asyncio.ensure_future(sender.settle(ref_of(), 1, accepted()))
    await asyncio.sleep(0)
    await sender.aclose()
    await settle
    await wait_for_release(postgres)


async def test_the_lock_is_released_after_a_begin_that_fails_while_the_journal_is_closed(sender, postgres):
    begin = asyncio.ensure_future(sender.begin(permission("unknown")))
    await asyncio.sleep(0)
    await sender.aclose()
    with pytest.raises(JournalError, match="no order 'unknown'"):
        await begin
    await wait_for_release(postgres)


@in_both
async def test_an_attempt_that_another_client_has_begun_meanwhile_keeps_the_lock(sender, other):
    await sending(sender)
    with pytest.raises(OrderChanged):
        await sender.begin(permission())
    await sender.aclose()
    assert (await get(other)).state is OrderState.SENDING


async def test_a_cancelled_begin_does_not_keep_the_lock(sender, postgres):
    await sending(sender, "another")
    await sender.settle(ref_of("another"), 1, accepted())
    begin = asyncio.ensure_future(sender.begin(permission("another", expect_attempt=1)))
    await asyncio.sleep(0)
    begin.cancel()
    await asyncio.gather(begin, return_exceptions=True)
    await sender.aclose()
    await wait_for_release(postgres)


async def test_event_loops_in_several_threads_share_the_lock_of_their_journal(sender, other, sessions, postgres):
    def send(number: int) -> None:
        asyncio.run(sending(sender, f"order-{number}"))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    states = [order.state for order in await other.list(SERVICE, ACCOUNT, NOW)]
    assert states == [OrderState.SENDING] * 4
    assert len(set(sessions())) == 1
    assert count_connections(postgres, LOCK) == 1


async def test_journals_of_one_process_have_locks_of_their_own(sender, other, sessions, postgres):
    await sending(sender, "a")
    await sending(other, "b")
    assert len({None, *sessions()}) == 3
    assert count_connections(postgres, LOCK) == 2


async def test_a_forked_child_has_a_lock_of_its_own(sender, sessions, monkeypatch):
    await sending(sender, "a")
    await sender.settle(ref_of("a"), 1, accepted())
    await sender.aclose()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    await sending(sender, "b")
    await sender.settle(ref_of("b"), 1, accepted("task-2"))
    await sender.aclose()
    monkeypatch.undo()
    assert len({None, *sessions()}) == 3


def test_an_administrators_limit_for_idle_sessions_does_not_end_the_lock(postgres):
    limit = "idle_session_timeout"
    lock = session_lock.SessionLock(make_conninfo(postgres, options=f"-c {limit}=1h"), name="journal")
    lock.hold()
    try:
        assert lock._connection.execute(f"SHOW {limit}").fetchone() == {limit: "0"}
    finally:
        lock.close()


def count_connections(postgres: str, application: str) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    with psycopg.connect(postgres) as connection:
        (count,) = connection.execute(query, (application,)).fetchone()
    return int(count)


async def wait_for_release(postgres: str) -> None:
    """Wait until no lock is held any more."""
    while count_connections(postgres, LOCK):  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)


@asynccontextmanager
async def journal_at(dsn: str) -> AsyncIterator[PostgresJournal]:
    journal = PostgresJournal(dsn, schema="tests", max_connections=2)
    try:
        yield journal
    finally:
        await journal.aclose()


# -- without a lock ----------------------------------------------------------------------------------------------------


async def is_given_up_at_its_deadline(journal: PostgresJournal) -> bool:
    before, after = NOW + DEADLINE / 2, NOW + DEADLINE * 2
    states = [(await journal.get(ref_of(), now)).state for now in (before, after)]
    return states == [OrderState.SENDING, OrderState.UNCERTAIN]


async def test_an_attempt_whose_lock_could_not_be_acquired_is_sending_until_its_deadline(
    sender, other, sessions, monkeypatch, caplog
):
    def refuse(lock: session_lock.SessionLock) -> None:
        requests.append(lock)
        text = "too many connections"
        raise psycopg.OperationalError(text)

    requests: list[session_lock.SessionLock] = []
    monkeypatch.setattr(session_lock.SessionLock, "_connect_and_lock", refuse)
    with caplog.at_level("INFO"):
        await sending(sender, "another")
        await sending(sender)
    assert sessions() == [None, None]
    assert len(requests) == 1, "it is not requested again at once"
    assert await is_given_up_at_its_deadline(other)
    (record,) = [record for record in caplog.records if record.event_name == "journal.session_failed"]
    assert "until their deadlines" in record.getMessage()
    assert record.error == "too many connections"


async def test_a_problem_is_reported_again_after_the_lock_was_held(sender, end_sessions, monkeypatch, caplog):
    def refuse(lock: session_lock.SessionLock) -> None:
        text = "too many connections"
        raise psycopg.OperationalError(text)

    monkeypatch.setattr(session_lock, "_PAUSE", 0.0)
    with caplog.at_level("INFO"):
        for number in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(session_lock.SessionLock, "_connect_and_lock", refuse)
                await sending(sender, f"without-{number}")
                await sending(sender, f"still-without-{number}")
            await sending(sender, f"with-{number}")
            end_sessions()
    records = [record for record in caplog.records if record.event_name == "journal.session_failed"]
    assert len(records) == 2


async def test_behind_a_connection_pooler_no_lock_is_acquired(other, postgres, sessions):
    async with pooler(postgres) as dsn, journal_at(dsn) as journal:
        await sending(journal)
        assert sessions() == [None]
        assert count_connections(postgres, LOCK) == 0
    assert await is_given_up_at_its_deadline(other)


@pytest.mark.parametrize(("has_pooler", "are_prepared"), [(False, True), (True, False)])
async def test_statements_are_prepared_only_without_a_connection_pooler(postgres, has_pooler, are_prepared):
    async with pooler(postgres) as pooled, journal_at(pooled if has_pooler else postgres) as journal:
        for number in range(30):
            await journal.intend(order_of(f"order-{number}"))
        query = "SELECT EXISTS (SELECT FROM pg_prepared_statements) AS found"
        assert (await journal._write(lambda db: db.execute(query, {}).fetchone()))["found"] is are_prepared


async def test_a_lock_connection_that_hangs_delays_an_attempt_by_its_time_limit_only(
    other, postgres, sessions, monkeypatch
):
    monkeypatch.setattr(session_lock, "_TIME_LIMIT", 0.1)
    async with pooler(postgres, hangs_at=b"SELECT pg_backend_pid") as dsn, journal_at(dsn) as journal:
        await sending(journal)
    assert sessions() == [None]
    assert await is_given_up_at_its_deadline(other)


@asynccontextmanager
async def pooler(postgres: str, *, hangs_at: bytes = b"no such statement") -> AsyncIterator[str]:
    """A server in front of another one, which gives clients process ids of its own.

    It forwards nothing more on a connection once the client has sent ``hangs_at``.
    """
    with psycopg.connect(postgres) as connection:
        host, port = connection.info.host, connection.info.port

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_socket = host.startswith("/")
        path = f"{host}/{SOCKET}{port}"
        opening = asyncio.open_unix_connection(path) if is_socket else asyncio.open_connection(host, port)
        from_server, to_server = await opening
        responses = asyncio.ensure_future(forward_responses(from_server, writer))
        while data := await reader.read(65536):
            if hangs_at in data:
                await reader.read()
                break
            to_server.write(data)
        responses.cancel()
        to_server.close()
        writer.close()

    async def forward_responses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(re.sub(rb"K\0\0\0\x0c....", b"K\0\0\0\x0c\0\0\0\1", data, flags=re.DOTALL))

    with TemporaryDirectory(prefix="vidgen-") as directory:
        async with await asyncio.start_unix_server(serve, Path(directory) / f"{SOCKET}5432"):
            yield make_conninfo(postgres, host=directory, port=5432)


# -- clients -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@in_both
async def test_the_successor_of_a_killed_process_learns_at_once_that_its_order_is_uncertain(sender, other, request):
    name = sender.path if isinstance(sender, SqliteJournal) else request.getfixturevalue("postgres")
    async with Sandbox() as service:
        service.faults.add("videos.create", Fault.stall(made=True))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ORDERS, service.api_key, service.base_url, str(name)), cwd=ROOT
        )
        try:
            while not service.creates:  # noqa: ASYNC110 - another process has no event to wait for
                await asyncio.sleep(0.01)
            ref = (await find_orders(other, service))[0].ref
            process.send_signal(signal.SIGSTOP)
            assert (await other.get(ref, datetime.now(UTC))).state is OrderState.SENDING
        finally:
            process.kill()
            await process.wait()
        async with Client(service.api_key, base_url=service.base_url, journal=other) as client:
            with pytest.raises(UncertainCreateError, match="the process that began it has ended") as caught:
                await client.videos.create(**FIELDS, order_id="order-1187")
        assert not caught.value.may_retry
        assert len(service.creates) == 1


async def find_orders(journal: SqlJournal[Any], service: Sandbox) -> list[Order]:
    return await journal.list(service.base_url.removesuffix("/openapi/v1"), "default", datetime.now(UTC))
