"""A journal that is named is checked when the client is entered, and nothing is written."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from vidgen_async import Client
from vidgen_async.errors import JournalError
from vidgen_async.journal import PostgresJournal, SqliteJournal
from vidgen_async.sandbox import Sandbox

FIELDS = {"model": "gen-2.0", "prompt": "a boat"}


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (a)")


@pytest.mark.parametrize(
    ("name", "prepare", "said"),
    [
        ("missing/orders.db", None, "there is no directory"),
        ("orders.db", lambda path: path.write_text("no database" * 100), "it is not a journal"),
        ("orders.db", foreign, "a database of another program"),
        ("orders.db", Path.mkdir, "it cannot be opened"),
    ],
)
async def test_a_file_that_cannot_be_a_journal_is_found_when_the_client_is_entered(tmp_path, name, prepare, said):
    if prepare is not None:
        prepare(tmp_path / name)
    before = contents(tmp_path)
    async with Sandbox() as service:
        with pytest.raises(JournalError, match=said):
            async with Client(service.api_key, base_url=service.base_url, journal=f"sqlite:///{tmp_path / name}"):
                raise AssertionError
        assert service.requests == []
    assert contents(tmp_path) == before


async def test_a_directory_in_which_no_file_may_be_created_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # tests may run as the administrator
    with pytest.raises(JournalError, match="it cannot be opened"):
        await SqliteJournal(tmp_path / "orders.db").check()


async def test_a_check_writes_nothing_and_does_not_wait_for_a_writer(tmp_path):
    path = tmp_path / "orders.db"
    async with Sandbox() as service:
        options = {"base_url": service.base_url, "journal": f"sqlite:///{path}"}
        async with Client(service.api_key, **options):
            assert contents(tmp_path) == {}
        async with Client(service.api_key, **options) as client:
            await client.videos.create(**FIELDS, order_id="o", validate=False)
            before = contents(tmp_path)
            with closing(sqlite3.connect(path, isolation_level=None)) as writer:
                writer.execute("BEGIN EXCLUSIVE")
                await SqliteJournal(path).check()
                writer.execute("ROLLBACK")
            assert contents(tmp_path) == before
            await client.orders.find("o")


async def test_a_lost_journal_is_found(tmp_path):
    path = tmp_path / "orders.db"
    async with Sandbox() as service:
        options = {"base_url": service.base_url, "journal": f"sqlite:///{path}"}
        async with Client(service.api_key, **options) as client:
            await client.videos.create(**FIELDS, order_id="o", validate=False)
        path.unlink()
        with pytest.raises(JournalError, match="now is missing"):
            async with Client(service.api_key, **options):
                raise AssertionError


async def test_a_server_that_does_not_answer_is_found():
    with pytest.raises(JournalError, match="refused"):
        async with Client("key", base_url="https://h/openapi/v1", journal="postgresql://u@127.0.0.1:9/orders"):
            raise AssertionError


async def test_a_check_of_a_database_creates_nothing_and_finds_a_newer_version(postgres):
    journal = PostgresJournal(postgres, schema="checked")
    await journal.check()
    with psycopg.connect(postgres, autocommit=True) as connection:
        schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'checked'"
        assert connection.execute(schemas).fetchone() == (0,)
        await journal.namespace("n")
        await journal.check()
        connection.execute("UPDATE checked.version SET number = 9999")
        with pytest.raises(JournalError, match="newer vidgen_async"):
            await journal.check()
    await journal.aclose()
