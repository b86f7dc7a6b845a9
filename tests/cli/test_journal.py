"""``vidgen journal``, and commands whose journal is in PostgreSQL."""

import json

import pytest

from tests.journal.conftest import postgres
from vidgen_async.journal.postgres.connection_string import describe
from vidgen_async.journal.postgres.schema import VERSION, postgres_schema

__all__ = ["postgres"]

PASSWORD = "hush-hush"
HIDDEN = f"postgresql://ann:{PASSWORD}@127.0.0.1:9/shop"


def test_the_schema_is_printed_as_a_script_for_an_administrator(here):
    code, out, err = here("journal", "schema", "--schema", "shop", "--user", 'the "worker"')
    assert (code, err) == (0, "")
    assert out == postgres_schema("shop", user='the "worker"')
    assert 'GRANT USAGE ON SCHEMA "shop" TO "the ""worker""";\n' in out
    assert out.endswith("\nCOMMIT;\n")


def test_the_schema_can_be_upgraded(here):
    code, out, err = here("journal", "schema", "--from-version", "1")
    assert (code, out, err) == (0, postgres_schema("vidgen", version=1), "")
    assert "CREATE TABLE orders" not in out
    assert "GRANT" not in out
    code, out, err = here("journal", "schema", "--from-version", str(VERSION))
    assert code == 0
    assert err == f"warning: this release has schema version {VERSION} too: there is nothing to upgrade\n"


@pytest.mark.parametrize(
    "where",
    [
        HIDDEN,
        "postgres://ann@127.0.0.1:9/shop?password=hush-hush",
        "postgresql://ann:hush-hush/hush-hush@h/shop",
        "host=127.0.0.1 password=hush-hush",
        "host=127.0.0.1 password = 'hush-hush'",
    ],
)
@pytest.mark.parametrize("command", [("orders", "ls"), ("watch",), ("create", "x", "--model", "gen-2.0")])
def test_a_password_in_an_option_is_refused_without_showing_it(service, command, where, fails):
    err = fails(2, *command, "--journal", where, "--json")
    error = json.loads(err)["error"]
    assert error["kind"] == "usage"
    assert "password" in error["message"]
    assert PASSWORD not in err
    assert service.creates == []


@pytest.mark.parametrize("command", [("orders", "ls"), ("create", "x", "--model", "gen-2.0"), ("watch", "--journal")])
def test_a_database_that_cannot_be_reached_is_named_without_its_password(service, monkeypatch, command, fails):
    monkeypatch.setenv("VIDGEN_JOURNAL", HIDDEN)
    err = fails(3, *command, "--debug")
    assert "the journal postgresql://ann@127.0.0.1:9/shop could not be used" in err
    assert "Connection refused" in err
    assert PASSWORD not in err
    assert service.creates == []


@pytest.mark.slow
def test_commands_share_a_journal_in_postgresql(here, service, postgres, monkeypatch):
    service.set_speed(1000)
    monkeypatch.setenv("VIDGEN_JOURNAL", postgres)
    account = ("--account", "of this test")
    code, out, err = here("create", "a boat", "--model", "gen-2.0", "--order-id", "order-1187", *account)
    assert (code, out) == (0, f"{service.creates[0].task_id}\n"), err
    again = here("create", "a boat", "--model", "gen-2.0", "--order-id", "order-1187", *account)
    assert again[:2] == (0, out)
    assert len(service.creates) == 1

    assert "order-1187" in here("orders", "ls", *account)[1]
    assert out.strip() in here("watch", "--journal", postgres, *account)[1]
    code, out, err = here("orders", "show", "unknown", *account, "--journal", postgres)
    assert f"there is no order 'unknown' in the journal {describe(postgres)}" in err
