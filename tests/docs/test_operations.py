"""The SQL and the program of docs/how-to/operations.md, on a server of their own."""

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.docs.documentation import find_blocks, find_steps, run_program
from tests.postgres import PostgresServer, running_server
from vidgen_async import Client, NotSentError, RejectedError, UncertainCreateError, VideoRequest
from vidgen_async.journal.postgres import schema
from vidgen_async.sandbox import Fault, Sandbox

pytestmark = pytest.mark.slow

BLOCKS = [block.text for block in find_blocks("sql")]


def find_sql(marker: str) -> str:
    """The one block that contains the marker."""
    (found,) = [block for block in BLOCKS if marker in block]
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of its own, with the users and tables that the page proposes; the tests change its settings too."""
    with running_server() as running:
        execute(running, find_sql("CREATE ROLE"))
        execute(running, schema.postgres_schema("vidgen"))
        execute(running, find_sql("GRANT SELECT, INSERT"))
        execute(running, find_sql("GRANT SELECT ON"))
        yield running


@pytest.fixture
def tables(server: PostgresServer) -> PostgresServer:
    """The server with empty tables."""
    execute(server, "TRUNCATE vidgen.orders, vidgen.results, vidgen.candidates CASCADE")
    return server


def execute(server: PostgresServer, statements: str, *, user: str = "postgres") -> list[tuple[object, ...]]:
    with psycopg.connect(dsn_of(server, user), autocommit=True) as connection:
        cursor = connection.execute(statements)
        return cursor.fetchall() if cursor.description else []


def dsn_of(server: PostgresServer, user: str) -> str:
    return server.dsn.replace("postgres@", f"{user}@")


def make_client(service: Sandbox, server: PostgresServer, user: str = "vidgen_worker") -> Client:
    return Client(service.api_key, base_url=service.base_url, journal=dsn_of(server, user), poll_interval=0.05)


async def order(client: Client, order_id: str) -> str | None:
    """Create a video; return the task id, or None if there is none."""
    try:
        receipt = await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, order_id=order_id)
    except (NotSentError, RejectedError, UncertainCreateError):
        return None
    return receipt.task_id


async def test_the_clients_of_two_hosts_send_an_order_once(service, tables, monkeypatch):
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    make_client_of_page = run_program("PostgresJournal(dsn")["make_client"]
    dsn = dsn_of(tables, "vidgen_worker")
    async with make_client_of_page(dsn) as one, make_client_of_page(dsn) as other:
        task_ids = {await order(client, "order-1") for client in (one, other)}
    assert task_ids == {service.creates[0].task_id}
    assert len(service.creates) == 1


def test_the_printed_script_grants_what_the_page_says():
    printed = schema.postgres_schema("vidgen", user="vidgen_worker").replace('"', "").replace("\n\n", "\n")
    assert find_sql("GRANT SELECT, INSERT") in printed


async def test_every_statement_is_accepted_by_the_server(tables):
    try:
        for block in BLOCKS:
            if "CREATE ROLE" not in block:
                execute(tables, block)
    finally:
        execute(tables, "ALTER SYSTEM RESET ALL")
    assert len(BLOCKS) > 8


async def test_a_worker_with_the_rights_of_the_page_can_do_everything(service, tables):
    async with make_client(service, tables) as client:
        task_id = await order(client, "accepted")
        assert (await client.videos.wait(task_id)).status == "completed"
        for order_id in ("adopted", "abandoned"):
            service.faults.add("videos.create", Fault.close_after_body())
            assert await order(client, order_id) is None
        await client.orders.adopt("adopted", service.creates[1].task_id)
        await client.orders.abandon("abandoned", "no task")
        assert [one.order_id async for one in client.orders.running()] == ["adopted"]
    assert len(service.creates) == 3


async def test_the_query_for_uncertain_orders_lists_what_the_command_lists(service, tables):
    async with make_client(service, tables) as client:
        await order(client, "accepted")
        service.faults.add("videos.create", Fault.status(402))
        await order(client, "rejected")
        async with service.refusing():
            for order_id in ("queued", "withdrawn"):
                await order(client, order_id)
        await client.orders.withdraw("withdrawn")
        for order_id in ("uncertain", "abandoned", "adopted", "resent", "being resent"):
            service.faults.add("videos.create", Fault.close_after_body())
            await order(client, order_id)
        await client.orders.abandon("abandoned", "no task")
        await client.orders.adopt("adopted", service.creates[4].task_id)
        for order_id in ("resent", "being resent"):
            service.faults.add("videos.create", Fault.close_after_body())
            with pytest.raises(UncertainCreateError):
                await client.orders.resend(order_id, expect_attempt=1, reason="no task")
        for order_id in ("overdue", "being sent"):
            await order(client, order_id)
        change_to_sending(tables, "overdue", timedelta(seconds=-1))
        change_to_sending(tables, "being sent", timedelta(seconds=60))
        change_to_sending(tables, "being resent", timedelta(seconds=60), n=2)
        listed = execute(tables, find_sql("HAVING stage"), user="vidgen_reader")
        uncertain = {one.order_id for one in await client.orders.list(["uncertain"])}
    assert uncertain == {order_id for _, _, order_id, _ in listed} == {"uncertain", "resent", "overdue"}
    assert {row[:2] for row in listed} == {(service.base_url.removesuffix("/openapi/v1"), "default")}
    assert all(abs(sent_at - datetime.now(UTC)) < timedelta(minutes=1) for *_, sent_at in listed)


def change_to_sending(server: PostgresServer, order_id: str, remaining: timedelta, n: int = 1) -> None:
    """Let the order be as if its process had been killed during this attempt."""
    deadline = (datetime.now(UTC) + remaining).timestamp() * 1e6
    attempt = f"order_id = '{order_id}' AND n = {n}"
    execute(server, f"DELETE FROM vidgen.evidence WHERE {attempt}")  # noqa: S608
    execute(server, f"UPDATE vidgen.attempts SET deadline_at = {deadline:.0f} WHERE {attempt}")  # noqa: S608
    execute(server, f"UPDATE vidgen.orders SET stage = 'sending' WHERE order_id = '{order_id}'")  # noqa: S608


async def test_the_queries_count_creates_and_find_tasks_that_have_not_ended(service, tables):
    async with make_client(service, tables) as client:
        ended, lost = [await order(client, order_id) for order_id in ("ended", "lost")]
        await client.videos.wait(ended)
        assert execute(tables, find_sql("SELECT service, account, count(*)")) == [
            (service.base_url.removesuffix("/openapi/v1"), "default", 2)
        ]
        assert execute(tables, find_sql("results.status IS NULL")) == []
        execute(tables, "UPDATE vidgen.evidence SET at = at - 90000000000")
        ((_, account, order_id, task_id, _),) = execute(tables, find_sql("results.status IS NULL"))
    assert (account, order_id, task_id) == ("default", "lost", lost)


async def test_a_restored_dump_is_the_same_journal(service, tables, tmp_path):
    execute(tables, "CREATE DATABASE shop")
    async with make_client_of_database(service, tables, "shop") as client:
        task_id = await order(client, "order-1")
        (dump,) = [block.text for block in find_blocks("sh") if "pg_dump" in block.text]
        run_commands(tables, dump, tmp_path)
        assert await order(client, "order-2") not in (task_id, None)

    _, restore = find_steps("docs/how-to/backups.md")
    run_commands(tables, restore, tmp_path)

    async with make_client_of_database(service, tables, "shop") as client:
        assert [one.order_id for one in await client.orders.list()] == ["order-1"]
        assert await order(client, "order-1") == task_id
    assert len(service.creates) == 2


def make_client_of_database(service: Sandbox, server: PostgresServer, name: str) -> Client:
    dsn = server.dsn.replace("/postgres?", f"/{name}?")
    return Client(service.api_key, base_url=service.base_url, journal=dsn)


def run_commands(server: PostgresServer, commands: str, directory: Path) -> None:
    """Run commands of a page as the owner of the database."""
    path = f"{server.programs}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PGHOST": str(server.directory), "PGUSER": "postgres"}
    command = ["/bin/sh", "-eu", "-c", commands]
    subprocess.run(command, cwd=directory, env=env, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - the page's own


@pytest.mark.filterwarnings("ignore:this client belongs to a sandbox")
async def test_orders_after_a_backup_are_stored_as_uncertain_and_not_sent_again(service, tables, monkeypatch):
    request = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)
    jobs = dict.fromkeys(("known", "lost", "unsent"), request)
    async with make_client(service, tables) as client:
        known = await order(client, "known")
    ((last_known,),) = execute(tables, find_sql("AS last_known"))
    task_id = (await create_elsewhere(service, request, "lost")).task_id

    monkeypatch.setenv("VIDGEN_JOURNAL", dsn_of(tables, "vidgen_worker"))
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    await run_program("async def store_as_uncertain(")["store_as_uncertain"](jobs, last_known)

    async with make_client(service, tables) as client:
        assert [await order(client, order_id) for order_id in jobs] == [known, None, None]
        assert [one.order_id for one in await client.orders.list(["uncertain"])] == ["lost", "unsent"]
        await client.orders.adopt("lost", task_id)
        await client.orders.abandon("unsent", "not charged")
        assert await order(client, "lost") == task_id
    assert len(service.creates) == 2


async def create_elsewhere(service: Sandbox, request: VideoRequest, order_id: str) -> object:
    """As before the journal was restored: it no longer knows of this."""
    async with Client(service.api_key, base_url=service.base_url, journal="memory:") as client:
        return await client.videos.create(request, order_id=order_id)
