"""A journal in PostgreSQL: connection strings, databases that cannot be used, and rights."""

import asyncio
import logging
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote

import psycopg
import pytest

from tests.free_ports import find_port
from tests.journal.conftest import ACCOUNT, NOW, SERVICE, accepted, after, order_of, permission, ref_of, sending
from tests.postgres import PostgresServer, running_server
from vidgen_async import Client
from vidgen_async.errors import ConfigurationError, JournalError
from vidgen_async.journal import PostgresJournal, journal_from
from vidgen_async.journal.postgres import connections, schema
from vidgen_async.sandbox import Sandbox
from vidgen_async.types.orders import Attempt, Closing, OrderState

#: The password of the user ann; each character is one that some spelling must escape.
PASSWORD = "hush @:/?#%&='\"\\ hush"
ACCESS = """
local   all all                    trust
hostssl all encrypted 127.0.0.1/32 scram-sha-256
host    all encrypted 127.0.0.1/32 reject
host    all all       127.0.0.1/32 scram-sha-256
"""
ROLES = ("ann", "encrypted", "crowded", "reader", "careless")


@pytest.fixture(scope="module")
def port() -> int:
    return find_port()


@pytest.fixture(scope="module")
def server(port: int) -> Iterator[PostgresServer]:
    """A server with users, which checks passwords."""
    with running_server(port=port, access=ACCESS) as running:
        with psycopg.connect(running.dsn, autocommit=True) as connection:
            for role in ROLES:
                connection.execute(f"CREATE ROLE {role} LOGIN")
            connection.execute(psycopg.sql.SQL("ALTER ROLE ann SUPERUSER PASSWORD {}").format(PASSWORD))
            connection.execute("ALTER ROLE crowded CONNECTION LIMIT 0")
            connection.execute("ALTER ROLE reader SET default_transaction_read_only = on")
            connection.execute("ALTER ROLE careless SUPERUSER")
            connection.execute("ALTER ROLE careless SET synchronous_commit = off")
        yield running


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as closing:
        yield closing


def secret_in(error: BaseException, secret: str) -> str | None:
    """Where the secret can be read: in the message, the variables of a traceback, the other errors, or a pickle."""
    if secret in "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()):
        return "traceback"
    if isinstance(error, JournalError | ConfigurationError) and secret.encode() in pickle.dumps(error):
        return "pickle"
    for other in (error.__cause__, error.__context__):
        if other is not None and (place := secret_in(other, secret)):
            return place
    return None


# -- databases that cannot be used -------------------------------------------------------------------------------------

UNUSABLE = {
    "refused": ("ann:hush@127.0.0.1:9/shop", "Connection refused"),
    "wrong password": ("ann:hush@127.0.0.1:{port}/postgres", 'password authentication failed for user "ann"'),
    "unknown database": ("ann:{password}@127.0.0.1:{port}/shop", 'database "shop" does not exist'),
    "no rights": (
        "encrypted:hush@/postgres?host={socket}&port={port}",
        "let an administrator execute what vidgen journal schema prints",
    ),
    "read-only": ("reader:hush@/postgres?host={socket}&port={port}", "the server accepts no changes"),
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_nothing_is_sent_if_the_database_cannot_be_used_and_the_error_says_why(server, port, case, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "psycopg")
    address, reason = UNUSABLE[case]
    dsn = "postgresql://" + address.format(port=port, socket=server.directory, password=quote(PASSWORD, safe=""))
    async with Sandbox() as service:
        error = await create_with(dsn, service)
        assert service.creates == []
    assert reason in str(error)
    assert "Nothing was written" in str(error)
    assert "?" not in str(error)
    user, at = address.partition(":")[0], address.rpartition("@")[2].partition("?")[0].format(port=port)
    name = f"postgresql://{user}@{at}" if at[0] != "/" else f"postgresql://{user}@{server.directory}:{port}{at}"
    assert f"the journal {name} could not be used" in str(error)
    assert secret_in(error, "hush") is None
    assert "hush" not in caplog.text


async def create_with(dsn: str, service: Sandbox) -> JournalError:
    """Return the error, whose traceback has no frame of the test itself, which knows the password."""
    client = Client(service.api_key, base_url=service.base_url, journal=dsn)
    del dsn
    try:
        await client.videos.create(model="gen-2.0", prompt="a boat", duration=5)
    except JournalError as error:
        return error
    finally:
        await client.aclose()
    raise AssertionError


async def test_a_server_that_is_shutting_down_refuses_new_connections(server, stack):
    journal = PostgresJournal(server.dsn)
    stack.push_async_callback(journal.aclose)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        os.kill(int((server.data / "postmaster.pid").read_text().split()[0]), signal.SIGTERM)
        with pytest.raises(JournalError, match="the database system is shutting down") as caught:
            await connect_until_refused(journal)
        connection.execute("SELECT 1")
    assert caught.value.may_be_temporary
    while (server.data / "postmaster.pid").exists():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    server.start()


async def connect_until_refused(journal: PostgresJournal) -> None:
    """Until the server has handled the signal."""
    while True:
        await journal.get(ref_of(), NOW)
        await journal.aclose()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_cannot_store_every_text_is_refused_before_anything_is_sent(server, port, encoding):
    name = f"in_{encoding.lower()}"
    server.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    async with Sandbox() as service:
        error = await create_with(server.dsn.replace("/postgres?", f"/{name}?"), service)
        assert service.creates == []
    assert f"its encoding is {encoding}" in str(error)
    assert "Nothing was written" in str(error)
    assert not error.may_be_temporary


async def test_texts_are_exchanged_in_utf_8_whatever_the_environment_and_the_user_have(server, monkeypatch):
    server.execute("ALTER ROLE careless SET client_encoding = LATIN1")
    for variable in ("", "SQL_ASCII"):
        monkeypatch.setenv("PGCLIENTENCODING", variable)
        async with journals_of(server, "texts", count=1, user="careless") as (journal,):
            await sending(journal, "заказ-1…")
            await journal.settle(ref_of("заказ-1…"), 1, accepted("任务-1"))
            assert (await journal.get(ref_of("заказ-1…"), NOW)).receipt.task_id == "任务-1"
            server.execute("DROP SCHEMA texts CASCADE")


# -- connection strings ------------------------------------------------------------------------------------------------


@pytest.fixture
def spellings(server, port, tmp_path, monkeypatch) -> dict[str, str]:
    """Connection strings of the same database, in which each way to name it occurs."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    passwords = tmp_path / "passwords"
    passwords.write_text(":".join(("127.0.0.1", str(port), "postgres", "ann", escape(PASSWORD, "\\:"))))
    passwords.chmod(0o600)
    services = tmp_path / "services"
    services.write_text(f"[shop]\nhost=127.0.0.1\nport={port}\nuser=ann\ndbname=postgres\npassword={PASSWORD}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    encoded, at = quote(PASSWORD, safe=""), f"127.0.0.1:{port}/postgres"
    words = f"host=127.0.0.1 port={port} user=ann dbname=postgres"
    quoted = escape(PASSWORD, "\\'")
    return {
        f"postgresql://ann:{encoded}@{at}": "",
        f"postgres://ann:{encoded}@{at}": "",
        f"postgresql://ann@{at}?password={encoded}": "",
        f"postgresql://127.0.0.1:{port}/postgres?user=ann&password={encoded}&application_name=shop": "",
        f"postgresql://ann@{at}?passfile={quote(str(passwords))}": "",
        f"{words} password='{quoted}'": "",
        f"  {words}  password = '{quoted}'": "",
        f"{words} passfile='{passwords}'": "",
        "postgresql://?service=shop": "postgresql:///?service=shop",
        "service=shop": "postgresql:///?service=shop",
    }


def escape(text: str, characters: str) -> str:
    return "".join(f"\\{one}" if one in characters else one for one in text)


async def test_every_spelling_of_a_connection_string_works_and_hides_the_password(server, port, spellings, monkeypatch):
    usual = f"postgresql://ann@127.0.0.1:{port}/postgres"
    for dsn, name in spellings.items():
        await check_spelling(dsn, name or usual)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    await check_spelling(usual, usual)
    variables = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "ann", "PGDATABASE": "postgres"}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    await check_spelling("postgresql://", usual)
    monkeypatch.setenv("PGSERVICE", "shop")
    await check_spelling("postgresql://", "postgresql:///?service=shop")


async def check_spelling(dsn: str, name: str) -> None:
    journal = PostgresJournal(dsn)
    assert (journal.name, repr(journal)) == (name, f"PostgresJournal({name!r})")
    assert await journal.get(ref_of(), NOW) is None
    await journal.aclose()


@pytest.mark.slow
async def test_the_second_host_is_tried_after_the_timeout_of_the_first(server, port, stack):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = f"{silent.getsockname()[1]},{port}"
        encoded = quote(PASSWORD, safe="")
        query = f"host=127.0.0.1,127.0.0.1&port={ports}&user=ann&password={encoded}&connect_timeout=2"
        journal = PostgresJournal(f"postgresql:///postgres?{query}", time_limit=1000)
        stack.push_async_callback(journal.aclose)
        assert journal.name == f"postgresql://ann@127.0.0.1,127.0.0.1:{ports}/postgres"
        assert await journal.get(ref_of(), NOW) is None


@pytest.mark.parametrize(
    "address",
    [
        "ann:hush@hush@host/db",  # the first @ ends the password
        "ann:hush/hush@host/db",  # a / ends the host
        "ann:5/hush@host/db",
        "ann:hush/db",
        "ann:hush%@host/db",
        "ann:hu?sh/hush@host/db",
        "ann:x@host:hush/db",
        "ann@host/db?hush",
        "ann@host/db?passwort=hush",
        "ann:5/hu?hush=1@host/db",
        "ann:p@ss?hush=1@host/db",
        "ann@host/db?password=x&hush=1",
        "ann@host/db?sslpassword=x&hush=1",
        "ann@host/db?pass%77ord=x&hush=1",
        "ann:hu?sh/5?hush=1",
    ],
)
def test_a_password_that_is_not_escaped_is_an_error_that_does_not_show_it(address):
    error = error_of(address)
    assert "connection string of the journal is invalid" in error.message
    assert "write / @ : and % of a password as %2F %40 %3A and %25" in error.message
    while error is not None:
        assert "hush" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("postgresql://ann:hush@host/db?schema=public", "libpq has no parameter 'schema'.*schema=…"),
        ("postgres://host/db?sslmode=require&currentSchema=shop", "libpq has no parameter 'currentSchema'.*schema=…"),
        ("postgresql://ann:hush%3F%40@host:5433/db?pool_size=5", "libpq has no parameter 'pool_size'"),
        ("postgresql:///db?ssl=on", "libpq has no parameter 'ssl'"),
        ("host=h schema=public", "libpq has no parameter 'schema'"),
        ("host=h max_conns = 5", "libpq has no parameter 'max_conns'"),
        ("postgresql+psycopg://ann:hush@host/db", r"begins with postgresql\+psycopg://"),
        ("jdbc:postgresql://host/db?user=ann&password=hush", "begins with jdbc:postgresql://"),
    ],
)
def test_a_parameter_or_scheme_that_is_not_of_libpq_is_named(dsn, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        PostgresJournal(dsn)
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(words in shown for words in ("hush", "public", "control character", "of a password as"))


def error_of(address: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        journal_from(f"postgresql://{address}")
    return caught.value


@pytest.mark.parametrize("address", ["ann:hush@host/db\n", "ann:hush@ho%0Ast/db", "ann%0A:hush@host/db"])
def test_a_line_break_in_a_connection_string_is_refused(address):
    assert "has a line break" in error_of(address).message


def test_words_instead_of_a_url_are_checked_too():
    with pytest.raises(ConfigurationError, match="invalid") as caught:
        PostgresJournal("host=h password='hush")
    assert "hush" not in str(caught.value)
    assert PostgresJournal("host=/tmp dbname=a@b").name == "postgresql:///tmp/a@b"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"schema": name}, "schema: .* 1 to 63 bytes") for name in ("", "x" * 64, "ü" * 32, "a\0", "\udc80")),
        *(({"schema": name}, "schema must not be") for name in ("$user", "pg_temp")),
        *(
            ({"max_connections": number}, f"max_connections .*: {re.escape(repr(number))}")
            for number in (0, -1, 1.5, True, "4")
        ),
        *(
            ({"time_limit": number}, f"time_limit must be 0.01 to 86400 seconds: {re.escape(repr(number))}")
            for number in (0, -1.0, 0.0001, 1e12, float("inf"), float("nan"), True, "30")
        ),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        PostgresJournal("postgresql://", **options)


def test_without_psycopg_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for module in ("connection_string", "journal"):
        monkeypatch.delitem(sys.modules, f"vidgen_async.journal.postgres.{module}")
    with pytest.raises(ConfigurationError, match=r"pip install 'vidgen-async\[postgres\]'"):
        Client("key", base_url="https://h/openapi/v1", journal="postgresql://host/db")


async def test_its_connections_can_be_found_by_name(server, stack):
    for dsn, name in {server.dsn: "vidgen", f"{server.dsn}&application_name=shop": "shop"}.items():
        journal = PostgresJournal(dsn)
        stack.push_async_callback(journal.aclose)
        await journal.namespace("word")
        assert (name,) in server.execute("SELECT application_name FROM pg_stat_activity")


async def test_an_error_never_quotes_the_parameters_of_a_statement(server):
    server.execute("ALTER ROLE careless SET log_parameter_max_length_on_error = -1")
    async with journals_of(server, "quoted", count=1, user="careless") as (journal,):
        await journal.namespace("word")
        server.execute("ALTER TABLE quoted.orders ADD CHECK (length(body) < 10)")
        with pytest.raises(JournalError, match="violates check constraint") as caught:
            await journal.intend(order_of())
    assert isinstance(caught.value.__cause__, psycopg.errors.CheckViolation)
    for error in (caught.value, caught.value.__cause__, caught.value.__cause__.__context__):
        assert "key-of-o" not in str(error)
    assert caught.value.__context__ in (None, caught.value.__cause__)


# -- commits -----------------------------------------------------------------------------------------------------------


async def test_commits_are_synchronous_also_for_a_user_who_has_that_off(server, stack):
    def read(db: object) -> str:
        return db.execute("SELECT current_setting('synchronous_commit') AS value", {}).fetchone()["value"]

    dsn = server.dsn.replace("postgres@", "careless@")
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
    journal = PostgresJournal(dsn)
    stack.push_async_callback(journal.aclose)
    assert await journal._write(read, "https://h", "a") == "on"


WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
CANCEL_WAITS = WAITS.replace("pid", "pg_cancel_backend(pid)")


async def test_a_commit_that_is_cancelled_before_a_standby_has_it_is_an_error_and_its_repetition_waits_too(server):
    server.execute("ALTER ROLE careless SET client_min_messages = error")
    async with journals_of(server, "replicated", count=1, user="careless") as (journal,):
        await sending(journal)
        await set_standbys(server, "nobody")
        try:
            write = asyncio.ensure_future(journal.settle(ref_of(), 1, accepted()))
            while not server.execute(CANCEL_WAITS):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            with pytest.raises(
                JournalError, match=r"cancelled while it waited for the standby.* may be lost"
            ) as caught:
                await write
            assert caught.value.may_be_temporary
            assert caught.value.may_be_committed
            again = asyncio.ensure_future(journal.settle(ref_of(), 1, accepted()))
            while not again.done() and not server.execute(WAITS):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            assert not again.done()
        finally:
            await set_standbys(server, "")
        assert (await again).receipt.task_id == "task-1"


async def test_nothing_is_sent_while_no_standby_confirms_a_commit(server):
    await set_standbys(server, "nobody")
    try:
        async with Sandbox() as service:
            journal = PostgresJournal(server.dsn, schema="waiting", time_limit=0.2)
            async with Client(service.api_key, base_url=service.base_url, journal=journal) as client:
                with pytest.raises(JournalError, match="could not be used"):
                    await client.videos.create(model="gen-2.0", prompt="a boat", duration=5)
            assert service.creates == []
    finally:
        await set_standbys(server, "")


async def set_standbys(server: PostgresServer, names: str) -> None:
    """Let commits wait for these servers."""
    server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    server.execute("SELECT pg_reload_conf()")
    while server.execute("SHOW synchronous_standby_names") != [(names,)]:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)


async def test_primary_keys_alone_prevent_a_second_attempt(server, stack, monkeypatch):
    journals = [PostgresJournal(server.dsn, schema="keys") for _ in range(4)]
    for journal in journals:
        stack.push_async_callback(journal.aclose)
    await journals[0].intend(order_of())
    monkeypatch.setattr(connections.Connections, "_lock", lambda *_: None)
    results = await asyncio.gather(*(journal.begin(permission()) for journal in journals), return_exceptions=True)
    assert len([result for result in results if isinstance(result, Attempt)]) == 1
    assert len((await journals[0].get(ref_of(), NOW)).attempts) == 1


# -- the tables --------------------------------------------------------------------------------------------------------


async def test_several_processes_may_create_the_tables_at_once(server):
    async with journals_of(server, "race", count=6) as journals:
        words = await asyncio.gather(*(journal.namespace(f"word-{n}") for n, journal in enumerate(journals)))
    assert len(set(words)) == 1


async def test_tables_that_are_upgraded_are_upgraded_once(server, monkeypatch):
    async with journals_of(server, "upgraded", count=1) as (journal,):
        await sending(journal)
        await journal.settle(ref_of(), 1, accepted())
    add_column = "ALTER TABLE orders ADD COLUMN more TEXT"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, (add_column,)))
    newest = schema.VERSION + 1
    for module in (schema, connections):
        monkeypatch.setattr(module, "VERSION", newest)
    async with journals_of(server, "upgraded", count=4) as journals:
        for order in await asyncio.gather(*(journal.get(ref_of(), NOW) for journal in journals)):
            assert order.state is OrderState.ACCEPTED
    assert server.execute("SELECT number FROM upgraded.version") == [(newest,)]


async def test_a_user_may_create_the_tables_in_a_schema_of_their_own(server):
    server.execute("CREATE ROLE owner LOGIN; CREATE SCHEMA owned AUTHORIZATION owner")
    async with journals_of(server, "owned", count=1, user="owner") as (journal,):
        await sending(journal)


@asynccontextmanager
async def journals_of(
    server: PostgresServer, name: str, *, count: int, user: str = "postgres"
) -> AsyncIterator[list[PostgresJournal]]:
    dsn = server.dsn.replace("postgres@", f"{user}@")
    journals = [PostgresJournal(dsn, schema=name) for _ in range(count)]
    try:
        yield journals
    finally:
        for journal in journals:
            await journal.aclose()


#: What makes up the tables of a schema.
DESCRIPTION = (
    "SELECT table_name, column_name, udt_name, is_nullable FROM information_schema.columns WHERE table_schema = '{0}'",
    "SELECT tablename, replace(indexdef, schemaname, '') FROM pg_indexes WHERE schemaname = '{0}'",
    "SELECT number FROM {0}.version",
)


def psql(server: PostgresServer, script: str) -> subprocess.CompletedProcess[str]:
    """Execute a script as an administrator does."""
    command = [server.programs / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", server.dsn, "-f", "-"]
    return subprocess.run(command, input=script, capture_output=True, encoding="utf-8", check=False)  # noqa: S603


async def test_the_printed_script_makes_the_tables_that_a_journal_makes(server):
    def describe(name: str) -> list[tuple[object, ...]]:
        queries = [query.format(name) for query in DESCRIPTION]
        return [row for query in queries for row in sorted(server.execute(query))]

    async with journals_of(server, "made", count=1) as (journal,):
        await journal.namespace("word")
    printed = psql(server, schema.postgres_schema("printed"))
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, "", "")
    assert describe("printed") == describe("made")
    assert len(describe("made")) > 60
    assert 'relation "version" already exists' in psql(server, schema.postgres_schema("printed")).stderr
    assert describe("printed") == describe("made")


async def test_the_printed_script_upgrades_the_tables_of_its_version_only(server, monkeypatch):
    assert psql(server, schema.postgres_schema("older")).returncode == 0
    newest = schema.VERSION
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("ALTER TABLE orders ADD COLUMN more TEXT",)))
    monkeypatch.setattr(schema, "VERSION", newest + 1)
    assert psql(server, schema.postgres_schema("older", version=newest)).returncode == 0
    assert server.execute("SELECT number FROM older.version") == [(newest + 1,)]
    again = psql(server, schema.postgres_schema("older", version=newest))
    assert again.returncode != 0
    assert f"the tables are not those of schema version {newest}" in again.stderr


async def test_a_user_with_the_printed_rights_can_do_everything_but_delete(server):
    server.execute('CREATE ROLE "a ""worker""" LOGIN')
    assert psql(server, schema.postgres_schema("granted", user='a "worker"')).returncode == 0
    user = quote('a "worker"')
    async with journals_of(server, "granted", count=1, user=user) as (journal,):
        await sending(journal)
        assert (await journal.get(ref_of(), NOW)).state is OrderState.SENDING
    dsn = server.dsn.replace("postgres@", f"{user}@")
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM granted.orders")


async def test_a_user_who_may_only_read_sees_the_order_of_a_process_that_has_ended_as_uncertain(server, caplog):
    server.execute("CREATE ROLE viewer LOGIN")
    async with journals_of(server, "viewed", count=1) as (journal,):
        await sending(journal)
    for role in ("viewer", "reader"):
        server.execute(f"GRANT USAGE ON SCHEMA viewed TO {role}")
        server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA viewed TO {role}")
    async with journals_of(server, "viewed", count=1, user="viewer") as (viewer,):
        late = after(131)
        caplog.clear()
        (order,) = await viewer.list(SERVICE, ACCOUNT, late, states=[OrderState.UNCERTAIN])
        assert order.state is OrderState.UNCERTAIN
        assert await viewer.get(ref_of(), late) == order
        assert [n for n, _ in order.found_uncertain(late)] == [1]
        assert server.execute("SELECT count(*) FROM viewed.evidence") == [(0,)]
        assert caplog.records == []
        with pytest.raises(JournalError, match="use the user of the workers") as caught:
            await viewer.close_order(
                ref_of(), Closing(state=OrderState.ABANDONED, at=late, reason="why"), [OrderState.UNCERTAIN]
            )
        assert not caught.value.may_be_temporary
    async with journals_of(server, "viewed", count=1, user="reader") as (reader,):  # as after a failover
        with pytest.raises(JournalError, match="the server accepts no changes"):
            await reader.get(ref_of(), late)
    async with journals_of(server, "viewed", count=1) as (journal,):
        assert (await journal.get(ref_of(), late)).state is OrderState.UNCERTAIN
        assert server.execute("SELECT count(*) FROM viewed.evidence") == [(1,)]
