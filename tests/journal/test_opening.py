"""Journals by name."""

import traceback

import pytest

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal import MemoryJournal, SqliteJournal, journal_from


def test_a_name_with_three_slashes_is_a_file_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = journal_from("sqlite:///data/orders.db")
    assert isinstance(journal, SqliteJournal)
    assert repr(journal) == repr(SqliteJournal(tmp_path / "data" / "orders.db"))


def test_a_name_with_four_slashes_is_an_absolute_path(tmp_path):
    assert repr(journal_from("sqlite:////var/lib/my orders.db")) == "SqliteJournal('/var/lib/my orders.db')"


def test_memory_is_this_process_only():
    assert isinstance(journal_from("memory:"), MemoryJournal)


def test_a_file_is_not_opened_when_it_is_named(tmp_path):
    journal_from(f"sqlite:///{tmp_path}/orders.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders.db",
        "/var/lib/orders.db",
        "memory",
        "sqlite:",
        "sqlite:///",
        "sqlite://orders.db",
        "sqlite:///:memory:",
        "SQLITE:///orders.db",
        "redis://host/0",
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(name):
    with pytest.raises(ConfigurationError) as caught:
        journal_from(name)
    for words in (repr(name), "sqlite:///relative.db", "sqlite:////absolute/path.db", "memory:"):
        assert words in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_database_is_named_without_its_password(scheme):
    journal = journal_from(f"{scheme}://ann:hidden@host:5433/db?sslmode=require")
    assert repr(journal) == "PostgresJournal('postgresql://ann@host:5433/db')"


def test_an_invalid_connection_string_is_not_shown():
    name = "hid%den"
    with pytest.raises(ConfigurationError) as caught:
        journal_from(f"postgresql://ann:{name}@host/db")
    assert "connection string of the journal is invalid" in str(caught.value)
    assert name not in "".join(traceback.format_exception(caught.value))


def test_options_are_refused():
    with pytest.raises(ConfigurationError, match="without options"):
        journal_from("sqlite:///orders.db?mode=ro")


@pytest.mark.parametrize("name", ["vk-live-0123456789", "vk.live.0123456789", "ann:0123456789@host/db", "0123456789\n"])
def test_a_name_that_may_be_a_key_is_not_shown(name):
    with pytest.raises(ConfigurationError) as caught:
        journal_from(name)
    assert "0123456789" not in str(caught.value)
    assert f"({len(name)} characters)" in str(caught.value)
