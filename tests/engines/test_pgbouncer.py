"""Journals whose connections a pgbouncer shares between transactions (``pool_mode = transaction``)."""

import asyncio
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.engines.processes import is_answering
from tests.free_ports import find_port
from tests.journal.conftest import ACCOUNT, DEADLINE, SERVICE, accepted, order_of, permission, ref_of
from tests.postgres import running_server
from vidgen_async.journal import MustWait, OrderChanged, PostgresJournal
from vidgen_async.types.orders import Order, OrderState

pytestmark = [pytest.mark.needs_engines, pytest.mark.slow]

#: Connections that pgbouncer opens to the server; as many as the journals have, because pgbouncer 1.18 may regard
#: a client that has committed as active until its next transaction.
POOL_SIZE = 20
CONFIGURATION = f"""
[databases]
* = host={{directory}} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {{port}}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {POOL_SIZE}
"""


@pytest.fixture
def dsns() -> Iterator[tuple[str, str]]:
    """A database by way of a pgbouncer, and the same directly."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "pgbouncer is not installed: apt-get install pgbouncer"
    user = {"user": "nobody"} if os.geteuid() == 0 else {}  # it refuses to run as root
    with running_server() as server:
        while True:
            port = find_port()
            configuration = server.directory / "pgbouncer.ini"
            configuration.write_text(CONFIGURATION.format(directory=server.directory, port=port))
            with subprocess.Popen(  # noqa: S603 - our own command
                [program, "--quiet", configuration], cwd="/", stderr=subprocess.DEVNULL, **user
            ) as pooler:
                try:
                    if is_answering(pooler, port):
                        yield f"postgresql://ann@127.0.0.1:{port}/postgres", server.dsn
                        return
                finally:
                    pooler.terminate()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def open_journal(stack: AsyncExitStack, dsn: str, **options: str) -> PostgresJournal:
    journal = PostgresJournal(dsn, **options)
    stack.push_async_callback(journal.aclose)
    return journal


async def test_journals_behind_a_pooler_share_one_limit_and_leave_its_sessions_unchanged(dsns, stack):
    pooled, direct = dsns
    journals = [open_journal(stack, pooled) for _ in range(4)]
    now = datetime.now(UTC)

    async def create(number: int, journal: PostgresJournal) -> Order:
        order_id = f"order-{number}"
        await journal.intend(order_of(order_id))
        await journal.begin(permission(order_id, now=now, limit=50))
        return await journal.settle(ref_of(order_id), 1, accepted(f"task-{number}", now))

    creates = [create(number, journal) for number in range(20) for journal in journals]
    answers = Counter(map(type, await asyncio.gather(*creates, return_exceptions=True)))

    assert answers == {Order: 20, OrderChanged: 60}
    listed = await open_journal(stack, direct).list(SERVICE, ACCOUNT, now)
    assert {order.receipt.task_id for order in listed} == {f"task-{number}" for number in range(20)}

    creates = [create(100 + number, journals[number % 4]) for number in range(40)]
    answers = Counter(map(type, await asyncio.gather(*creates, return_exceptions=True)))

    assert answers == {Order: 30, MustWait: 10}
    await assert_unchanged(pooled)


async def assert_unchanged(pooled: str) -> None:
    """The sessions of the pool that were used last have the settings of the server, and hold nothing."""
    async with AsyncExitStack() as stack:
        for _ in range(3):
            connection = await stack.enter_async_context(await psycopg.AsyncConnection.connect(pooled))
            # In a transaction, so that each connection keeps a session of its own.
            for name, value in (("search_path", '"$user", public'), ("lock_timeout", "0"), ("statement_timeout", "0")):
                assert await (await connection.execute(f"SHOW {name}")).fetchone() == (value,)
            query = "SELECT count(*) FROM pg_prepared_statements"
            assert await (await connection.execute(query)).fetchone() == (0,)
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert await (await connection.execute(query)).fetchone() == (0,)


async def test_two_schemas_behind_one_pooler_have_their_own_orders(dsns, stack):
    pooled, _ = dsns
    first, second = (open_journal(stack, pooled, schema=schema) for schema in ("first", "second"))
    orders = [(journal, f"{journal.schema}-{number}") for number in range(20) for journal in (first, second)]

    await asyncio.gather(*(journal.intend(order_of(order_id)) for journal, order_id in orders))

    for journal in (first, second):
        listed = await journal.list(SERVICE, ACCOUNT, datetime.now(UTC))
        assert {order.order_id for order in listed} == {name for owner, name in orders if owner is journal}


async def test_the_orders_of_a_pooled_sender_are_sending_until_their_deadline_and_those_of_a_direct_one_are_not(
    dsns, stack, caplog
):
    pooled, direct = dsns
    now, reader = datetime.now(UTC), open_journal(stack, direct)
    with caplog.at_level("INFO"):
        for name, dsn in (("pooled", pooled), ("direct", direct)):
            sender = open_journal(stack, dsn)
            await sender.intend(order_of(name))
            await sender.begin(permission(name, now=now))
            if sender._sender_lock is not None:
                sender._sender_lock.close()  # as when its process has ended

    (record,) = [record for record in caplog.records if record.event_name == "journal.session_failed"]
    assert "connection pooler" in record.error
    assert (await reader.get(ref_of("direct"), now)).state is OrderState.UNCERTAIN
    assert (await reader.get(ref_of("pooled"), now)).state is OrderState.SENDING
    after = now + DEADLINE + timedelta(seconds=1)
    assert (await reader.get(ref_of("pooled"), after)).state is OrderState.UNCERTAIN
