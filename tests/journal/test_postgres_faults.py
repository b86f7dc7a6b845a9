"""A journal in PostgreSQL: what each error means, connections that are replaced, and rows that cannot be seen."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing

import pytest

from tests.free_ports import find_port
from tests.journal.conftest import ACCOUNT, NOW, SERVICE, TABLES, accepted, order_of, permission, ref_of, sending
from tests.postgres import PostgresServer, running_server
from vidgen_async import Client, JournalError, Receipt
from vidgen_async.journal import PostgresJournal
from vidgen_async.journal.postgres import connection_pool, connections, schema
from vidgen_async.sandbox import Sandbox
from vidgen_async.types.orders import Closing, OrderState

ACCESS = """
local   all all                    trust
hostssl all encrypted 127.0.0.1/32 trust
host    all encrypted 127.0.0.1/32 reject
host    all trusted   127.0.0.1/32 trust
host    all all       127.0.0.1/32 scram-sha-256
"""
SETUP = """
CREATE ROLE ann LOGIN PASSWORD 'x';
CREATE ROLE encrypted LOGIN;
CREATE ROLE trusted LOGIN;
CREATE ROLE group_only NOLOGIN;
CREATE ROLE crowded LOGIN CONNECTION LIMIT 0;
CREATE ROLE worker LOGIN;
CREATE ROLE reader LOGIN;
ALTER ROLE reader SET default_transaction_read_only = on;
CREATE ROLE owner LOGIN;
GRANT CREATE ON DATABASE postgres TO owner;
"""
DATABASES = (
    "CREATE DATABASE closed",
    "ALTER DATABASE closed ALLOW_CONNECTIONS false",
    "CREATE DATABASE private",
    "REVOKE CONNECT ON DATABASE private FROM PUBLIC",
    "CREATE DATABASE crowded CONNECTION LIMIT 0",
)
END_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
FIELDS = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}


@pytest.fixture(scope="module")
def port() -> int:
    return find_port()


@pytest.fixture(scope="module")
def server(port: int) -> Iterator[PostgresServer]:
    with running_server(port=port, access=ACCESS) as running:
        running.execute(SETUP)
        for statement in DATABASES:
            running.execute(statement)
        yield running


@pytest.fixture
def worker(server: PostgresServer) -> str:
    """The connection string of a user with the rights of the printed script, to empty tables."""
    server.execute("DROP SCHEMA IF EXISTS vidgen CASCADE")
    server.execute(schema.postgres_schema("vidgen", user="worker"))
    return server.dsn.replace("postgres@", "worker@")


@pytest.fixture
async def open_journal(worker: str) -> AsyncIterator[Callable[..., PostgresJournal]]:
    async with AsyncExitStack() as stack:

        def make(dsn: str = worker, **options: object) -> PostgresJournal:
            journal = PostgresJournal(dsn, **options)
            stack.push_async_callback(journal.aclose)
            return journal

        yield make


@pytest.fixture
async def service() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def client(service: Sandbox, worker: str) -> AsyncIterator[Client]:
    async with Client(service.api_key, base_url=service.base_url, journal=worker) as made:
        yield made


async def create(client: Client, order_id: str) -> Receipt | Exception:
    (result,) = await asyncio.gather(client.videos.create(**FIELDS, order_id=order_id), return_exceptions=True)
    return result


# -- errors ------------------------------------------------------------------------------------------------------------

LOCAL = "host={socket} port={port} dbname=postgres"
TCP = "host=127.0.0.1 port={port} dbname=postgres"
#: Connection strings, whether a repetition may succeed, and a text of the message.
CONNECTION_STRINGS = (
    (f"{LOCAL} user=ann dbname=nowhere", False, "there is no such database"),
    (f"{LOCAL} user=ann dbname=closed", False, "not currently accepting connections"),
    (f"{LOCAL} user=ann dbname=private", False, "the server refuses this user"),
    (f"{LOCAL} user=ann dbname=crowded", True, "too many connections are open"),
    (f"{LOCAL} user=crowded", True, "too many connections are open"),
    (f"{LOCAL} user=nobody", False, "the server refuses this user"),
    (f"{LOCAL} user=group_only", False, "the server refuses this user"),
    (f"{LOCAL} user=ann requirepeer=somebody", False, "the server refuses this user"),
    (f"{LOCAL} user=reader target_session_attrs=read-write", True, "default_transaction_read_only"),
    (f"{TCP} user=ann password=wrong", False, "the server refuses this user"),
    (f"{TCP} user=ann", False, "the server refuses this user"),
    (f"{TCP} user=ann password=x require_auth=none", False, "the server refuses this user"),
    (f"{TCP} user=encrypted", False, "the server refuses this user"),
    (f"{TCP} user=ann password=x channel_binding=require", False, "encrypted connection"),
    (f"{TCP} user=trusted sslmode=require", False, "encrypted connection"),
    (f"{TCP} user=trusted gssencmode=require", False, "encrypted connection"),
    (f"{TCP} user=trusted sslmode=bogus", False, "a parameter"),
    (f"{TCP} user=trusted target_session_attrs=bogus", False, "a parameter"),
    (f"{TCP} user=trusted keepalives=bogus", False, "a parameter"),
    (f"{TCP} user=trusted connect_timeout=bogus", False, "connect_timeout"),
    (f"{TCP} user=trusted ssl_min_protocol_version=bogus", False, "a parameter"),
    (f"{TCP} user=trusted options='-c bogus=1'", False, "a parameter"),
    (f"{TCP} user=trusted options='-c work_mem=bogus'", False, "a parameter"),
    (f"{TCP} user=trusted options='-c log_statement=all'", False, "a parameter"),
    (f"{TCP} user=trusted target_session_attrs=standby", True, "target_session_attrs"),
    ("host=127.0.0.1 port=bogus", False, "a parameter"),
    ("host=127.0.0.1 port=70000", False, "a parameter"),
    ("host=127.0.0.1,127.0.0.1 port=1,2,3", False, "a parameter"),
    ("hostaddr=bogus", False, "a parameter"),
    (f"host=/{'x' * 120}", False, "a parameter"),
    ("service=bogus", False, "a parameter"),
    ("host=127.0.0.1 port=1", True, "Connection refused"),
    ("host=/nowhere/ssl/certificate", True, "No such file or directory"),
    ("host=ssl.invalid", True, "ssl.invalid"),
    # One of the hosts may accept the user later.
    ("host=127.0.0.1,127.0.0.1 port=1,{port} dbname=postgres user=ann password=wrong", True, "password"),
    ("host=127.0.0.1,127.0.0.1 port={port},{port} dbname=postgres user=ann password=wrong", False, "password"),
)


async def test_a_connection_that_cannot_be_opened_is_temporary_only_if_a_repetition_may_cure_it(
    server, port, open_journal
):
    wrong = []
    for template, may_be_temporary, text in CONNECTION_STRINGS:
        dsn = template.format(socket=server.directory, port=port)
        (error,) = await asyncio.gather(open_journal(dsn).namespace("word"), return_exceptions=True)
        if type(error) is not JournalError or error.may_be_temporary is not may_be_temporary or text not in str(error):
            wrong.append((template, error, getattr(error, "may_be_temporary", None)))
    assert wrong == []


#: SQLSTATEs, whether a repetition may succeed, and whether the connection is replaced.
SQLSTATES = (
    ("08006", True, True),
    ("22003", False, True),
    ("23503", False, True),
    ("23505", True, True),
    ("25006", True, True),
    ("28000", False, True),
    ("3D000", False, True),
    ("40001", True, False),
    ("40P01", True, False),
    ("42501", False, True),
    ("42601", False, True),
    ("42P01", False, True),
    ("53100", True, False),
    ("53200", True, True),
    ("53300", True, True),
    ("55P03", True, False),
    ("57014", True, False),
    ("57P01", True, True),
    ("57P03", True, True),
    ("57P04", False, True),
    ("58030", True, True),
    ("P0001", False, True),
    ("XX001", False, True),
)


async def test_the_sqlstate_of_an_error_decides_whether_it_is_temporary_and_the_connection_replaced(open_journal):
    journal = open_journal(max_connections=1)
    wrong = []
    for code, *expected in SQLSTATES:

        def fail(db, code=code):
            return db.execute(f"DO $$ BEGIN RAISE 'failed' USING ERRCODE = '{code}'; END $$", {}).fetchall()

        before = await read_process(journal)
        (error,) = await asyncio.gather(journal._write(fail, SERVICE), return_exceptions=True)
        is_replaced = await read_process(journal) != before
        if type(error) is not JournalError or [error.may_be_temporary, is_replaced] != expected:
            wrong.append((code, error, is_replaced))
    assert wrong == []


async def read_process(journal: PostgresJournal) -> int:
    """The server process of the only connection."""
    return await journal._read(lambda db: db.execute("SELECT pg_backend_pid() AS pid", {}).fetchone()["pid"])


# -- servers that accept no changes ------------------------------------------------------------------------------------

SET_READ_ONLY = {
    "database": "ALTER DATABASE postgres {} default_transaction_read_only {}",
    "role": "ALTER ROLE worker {} default_transaction_read_only {}",
}


@pytest.mark.parametrize("statement", SET_READ_ONLY.values(), ids=SET_READ_ONLY.keys())
async def test_a_connection_that_was_opened_while_the_database_was_read_only_is_replaced(
    server, client, service, statement
):
    try:
        server.execute(statement.format("SET", "= on"))
        error = await create(client, "o")
    finally:
        server.execute(statement.format("RESET", ""))
    assert type(error) is JournalError
    assert error.may_be_temporary
    assert "default_transaction_read_only is on" in str(error)
    assert "connect to the primary" not in str(error)
    assert service.creates == []
    assert isinstance(await create(client, "o"), Receipt)
    assert len(service.creates) == 1


async def test_an_outcome_that_a_read_only_connection_could_not_store_is_stored_when_it_is_replaced(
    server, open_journal
):
    statement = SET_READ_ONLY["database"]
    journal = open_journal(max_connections=1)
    await sending(journal)
    try:
        server.execute(statement.format("SET", "= on"))
        server.execute(END_OTHERS)
        with pytest.raises(JournalError, match="default_transaction_read_only"):
            await journal.settle(ref_of(), 1, accepted())
    finally:
        server.execute(statement.format("RESET", ""))
    assert (await journal.settle(ref_of(), 1, accepted())).state is OrderState.ACCEPTED


# -- identities --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 100], ids=["of a row", "before the rows"])
async def test_after_a_logical_failover_rows_follow_those_that_are_stored(server, open_journal, first):
    def restart(number: int) -> None:
        for table in ("orders", "evidence", "closings"):
            server.execute(f"ALTER TABLE vidgen.{table} ALTER id RESTART WITH {number}")
        server.execute(END_OTHERS)  # those to the old primary

    async def write(order_id: str) -> None:
        await sending(journal, order_id)
        await journal.settle(ref_of(order_id), 1, accepted(f"task-{order_id}"))
        await journal.intend(order_of(f"withdrawn-{order_id}"))
        closing = Closing(state=OrderState.WITHDRAWN, at=NOW, reason="why")
        await journal.close_order(ref_of(f"withdrawn-{order_id}"), closing, [OrderState.QUEUED])

    journal = open_journal()
    restart(first)
    for number in range(5):
        await write(f"before-{number}")
    restart(1)
    page = await journal.running(SERVICE, ACCOUNT)
    (position,) = server.execute("SELECT max(id) FROM vidgen.evidence")[0]
    await write("after")

    names = [order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW)]
    assert names[-2:] == ["after", "withdrawn-after"]
    assert len(names) == len(set(names)) == 12
    assert (await journal.get(ref_of("after"), NOW)).state is OrderState.ACCEPTED
    assert (await journal.get(ref_of("withdrawn-after"), NOW)).state is OrderState.WITHDRAWN
    assert len(page.tasks) == 5
    (task,) = (await journal.running(SERVICE, ACCOUNT, after=position)).tasks
    assert task.task_id == "task-after"


async def test_a_user_who_may_not_store_a_receipt_sends_nothing(server, client, service):
    rights = [("INSERT", table) for table in TABLES if table != "namespace"]
    for right, table in (*rights, ("UPDATE", "orders"), ("UPDATE", "attempts")):
        server.execute(f"REVOKE {right} ON vidgen.{table} FROM worker")
        error = await create(client, f"without {right} on {table}")
        assert "this user has no right" in str(error)
        server.execute(f"GRANT {right} ON vidgen.{table} TO worker")
    assert service.creates == []
    assert isinstance(await create(client, "o"), Receipt)


async def test_a_receipt_is_stored_although_the_user_has_lost_another_right(server, open_journal):
    journal = open_journal()
    await sending(journal)
    for table in ("closings", "results", "candidates"):
        server.execute(f"REVOKE INSERT ON vidgen.{table} FROM worker")
    server.execute(END_OTHERS)
    assert (await journal.settle(ref_of(), 1, accepted())).state is OrderState.ACCEPTED


# -- few connections ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_creates_wait_for_the_connections_that_the_server_grants(server, client, service, caplog, limit):
    server.execute(f"ALTER ROLE worker CONNECTION LIMIT {limit}")
    try:
        results = await asyncio.gather(*(create(client, f"first-{number}") for number in range(10)))
        server.execute(END_OTHERS)
        results += await asyncio.gather(*(create(client, f"second-{number}") for number in range(10)))
    finally:
        server.execute("ALTER ROLE worker CONNECTION LIMIT -1")
    assert [result for result in results if not isinstance(result, Receipt)] == []
    assert len(service.creates) == 20
    (warning,) = [record for record in caplog.records if record.event_name == "journal.connection_refused"]
    assert "too many connections" in warning.error


async def test_a_refused_connection_is_requested_again_later(server, open_journal, monkeypatch):
    def meet(_: object) -> None:
        if meeting.wait(20) == 0:
            meetings.append(1)

    monkeypatch.setattr(connection_pool, "_PAUSE", 0.0)
    meeting, meetings = threading.Barrier(2), []
    journal = open_journal(max_connections=2)
    server.execute("ALTER ROLE worker CONNECTION LIMIT 1")
    try:
        await asyncio.gather(*(journal.intend(order_of(f"order-{number}")) for number in range(5)))
    finally:
        server.execute("ALTER ROLE worker CONNECTION LIMIT -1")
    await asyncio.gather(journal._read(meet), journal._read(meet))
    assert meetings == [1]


async def test_a_read_waits_for_no_other_one_whichever_thread_comes_first(open_journal, monkeypatch):
    meeting, has_begun, calls = threading.Barrier(2), threading.Event(), []

    def meet(_: object) -> None:
        has_begun.set()
        meeting.wait(20)

    class LastFirst(ThreadPoolExecutor):
        def submit(self, *call):
            calls.append(call)
            if len(calls) == 2:
                super().submit(*calls[1])
                assert has_begun.wait(20)
                super().submit(*calls[0])

    monkeypatch.setattr(connections, "ThreadPoolExecutor", LastFirst)
    journal = open_journal(max_connections=2)
    await asyncio.gather(journal._read(meet), journal._read(meet))


# -- rows that cannot be seen ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("user", ["worker", "owner"])
async def test_nothing_is_sent_if_row_security_may_hide_rows(server, worker, service, user):
    journal = worker
    if user == "owner":
        server.execute("DROP SCHEMA vidgen CASCADE")
        journal = server.dsn.replace("postgres@", "owner@")
    in_use = Client(service.api_key, base_url=service.base_url, journal=journal)
    await create(in_use, "first")
    wrong = []
    for table in (*TABLES, "version"):
        server.execute(f"ALTER TABLE vidgen.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        # Not entered, which would check the journal already.
        async with aclosing(Client(service.api_key, base_url=service.base_url, journal=journal)) as new:
            for client, is_new in ((in_use, False), (new, True)):
                error = await create(client, f"{table} {is_new}")
                is_checked = is_new or table not in {"version", "namespace"}  # which are read once
                if is_checked and (type(error) is not JournalError or "row security applies" not in str(error)):
                    wrong.append((table, is_new, error))
        server.execute(f"ALTER TABLE vidgen.{table} DISABLE ROW LEVEL SECURITY")
    assert wrong == []
    sent = len(service.creates)
    assert isinstance(await create(in_use, "last"), Receipt)
    assert len(service.creates) == sent + 1
    await in_use.aclose()


DAMAGES = {
    "no version": "DELETE FROM vidgen.version",
    "no namespace": "CREATE FUNCTION vidgen.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
    "CREATE TRIGGER skip BEFORE INSERT ON vidgen.namespace FOR EACH ROW EXECUTE FUNCTION vidgen.skip()",
    "no attempt": "CREATE FUNCTION vidgen.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
    "CREATE TRIGGER skip BEFORE INSERT ON vidgen.attempts FOR EACH ROW EXECUTE FUNCTION vidgen.skip()",
    "no order": "CREATE FUNCTION vidgen.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
    "CREATE TRIGGER skip BEFORE INSERT ON vidgen.orders FOR EACH ROW EXECUTE FUNCTION vidgen.skip()",
    "no text": "ALTER TABLE vidgen.orders ALTER local_images SET DEFAULT '';"
    "CREATE FUNCTION vidgen.empty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.local_images = '{'; "
    "RETURN NEW; END $$;"
    "CREATE TRIGGER empty BEFORE INSERT ON vidgen.orders FOR EACH ROW EXECUTE FUNCTION vidgen.empty()",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
async def test_nothing_is_sent_if_a_row_is_missing_or_damaged(server, client, service, damage):
    server.execute(damage)
    error = await create(client, "o")
    assert type(error) is JournalError
    assert service.creates == []


async def test_a_receipt_whose_attempt_was_deleted_is_an_error(server, open_journal):
    journal = open_journal()
    await journal.intend(order_of())
    await journal.begin(permission())
    server.execute("DELETE FROM vidgen.attempts")
    with pytest.raises(JournalError, match="has no attempt 1"):
        await journal.settle(ref_of(), 1, accepted())
