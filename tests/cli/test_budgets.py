"""Budgets on the command line, and ``vidgen spend``."""

import csv
import json
import shlex
import sqlite3
from contextlib import closing

import pytest

from vidgen_async.sandbox import Fault

from .conftest import text_of

BOAT = ("create", "A boat", "--model", "gen-2.0", "--duration", "5", "--no-validate", "--order-id")
#: A task of gen-2.0 costs 20 points.
TWO = ("--max-points", "40", "--price", "points")
THREE = ("--max-points", "60", "--price", "points")


@pytest.fixture
def uncertain(here, service) -> None:
    """Two orders within a budget for two: one whose task is completed, and an uncertain one."""
    assert here("generate", *BOAT[1:], "o-1", "-o", "boat.mp4", "--poll-interval", "0.05", *TWO)[0] == 0
    service.add_fault("videos.create", Fault.close_after_body())
    assert here(*BOAT, "o-2", *TWO)[0] == 5


def test_all_commands_that_send_orders_share_a_budget(here, service, uncertain):
    for words in (
        (*BOAT, "o-3"),
        ("orders", "resume", "o-3"),
        ("generate", "--resume", "o-3", "-o", "o-3.mp4"),
        ("orders", "resend", "o-2", "--expect-attempt", "1", "--reason", "no task", "--yes"),
    ):
        code, out, err = here(*words, *TWO, "--json")
        error = json.loads(err.splitlines()[-1])["error"]
        assert (code, out, error["kind"], error["exit_code"]) == (3, "", "budget_exceeded", 3)
        counted = {"spent": 20, "reserved": 20, "unknown": 0, "asked": 20, "limit": 40, "room_at": None}
        assert {name: error[name] for name in counted} == counted
        proposed = [command for command in error["commands"] if "resume" in command or "resend" in command]
        assert proposed
        assert all("--max-points 40 --price points" in command for command in proposed)
        # An order that is uncertain already is still one: only an operator decides about it.
        assert any(" abandon o-2 " in command for command in error["commands"]) is ("o-2" in words)
    assert len(service.creates) == 2
    for order, command in (
        ("o-3", "orders resume o-3"),
        ("o-2", "orders resend o-2 --expect-attempt 1 --yes --reason x"),
    ):
        code, _, err = here(*shlex.split(command), "--max-points", "80", "--price", "points")
        assert code == 0, (order, err)
    assert len(service.creates) == 4


@pytest.mark.parametrize("is_adopted", [False, True])
@pytest.mark.parametrize(
    "way",
    [
        "wait TASK",
        "wait o-1 -o boat.mp4",
        "wait TASK o-2 -o out/",
        "download o-1 -o boat.mp4",
        "generate --resume o-1 -o boat.mp4",
    ],
)
def test_wait_download_and_generate_record_once_what_a_task_has_cost(here, service, works, way, is_adopted):
    if is_adopted:
        service.add_fault("videos.create", Fault.close_after_body())
    here(*BOAT, "o-1")
    (create,) = service.creates
    if is_adopted:
        works("orders", "adopt", "o-1", create.task_id)
    assert here(*BOAT, "o-2", "--journal", "sqlite:///other.db")[0] == 0
    assert here(*BOAT, "o-3", *TWO)[0] == 3  # the cost of the first is unknown
    works(*way.replace("TASK", create.task_id).replace("o-2", service.creates[1].task_id).split())
    (row,) = json.loads(works("spend", "--by", "state", "--json")[0])["rows"]
    assert (row["key"], row["videos"], row["spent"], row["estimated"], row["unknown"]) == ("completed", 1, 20, 0, 0)
    assert here(*BOAT, "o-3", *TWO)[0] == 0


def test_a_failed_task_that_was_waited_for_is_recorded(here, service, works):
    works("create", "x [fail: too dark]", *BOAT[2:], "o-1")
    assert here("wait", "o-1")[0] == 1
    assert json.loads(works("spend", "--by", "state", "--json")[0])["rows"][0]["key"] == "failed"
    assert "too dark" in works("orders", "show", "o-1")[0]


def test_an_end_that_cannot_be_recorded_is_a_warning(here, works, data_home):
    works(*BOAT, "o-1")
    with closing(sqlite3.connect(data_home / "vidgen" / "orders.db")) as db:
        db.execute("CREATE TRIGGER refuse BEFORE INSERT ON results BEGIN SELECT RAISE(ABORT, 'no'); END")
    code, _, err = here("wait", "o-1")
    assert (code, "results of tasks could not be written: " in err) == (0, True)


def test_options_take_precedence_over_the_budget_of_the_environment(here, service, monkeypatch, fails):
    monkeypatch.setenv("VIDGEN_BUDGET", "10/24h")
    monkeypatch.setenv("VIDGEN_PRICE", "points")
    err = fails(3, *BOAT, "o-1")
    assert "of the budget of 10 points" in err
    assert "There is room from" not in err  # there never is: it costs more than the budget
    assert here(*BOAT, "o-1", "--max-points", "20")[0] == 0
    monkeypatch.setenv("VIDGEN_PRICE", "cents")
    assert here(*BOAT, "o-2", *TWO)[0] == 0
    assert len(service.creates) == 2


def test_the_embedded_sandbox_has_a_budget_too(here, service):
    code, _, err = here(
        "generate", *BOAT[1:], "o-1", "-o", "boat.mp4", "--sandbox", "--max-points", "10", "--price", "points"
    )
    assert code == 3
    assert "hint: a higher limit is set with --max-points" in err
    assert "vidgen " not in err.partition("hint:")[2]


def test_the_account_and_the_list_of_orders_show_a_budget(here, terminal, uncertain, monkeypatch):
    text = "60 points in 168 h: 20 spent, 20 reserved, 20 free"
    assert f"budget:                 {text}\n" in here("account", *THREE, "--per", "7d")[1]
    state = {"limit": 60, "window": None, "spent": 20, "reserved": 20, "unknown": 0, "free": 20, "room_at": None}
    assert json.loads(here("account", *THREE, "--json")[1])["budget"] == state
    assert json.loads(here("account", "--json")[1])["budget"] is None
    assert "budget" not in here("account")[1] + "".join(text_of(terminal("orders", "ls")[1]))
    *_, note, older, command = text_of(terminal("orders", "ls", "--limit", "1", *THREE, "--per", "7d")[1])
    assert (note, older) == (f"budget: {text}", "Older orders:")
    assert command.endswith("--max-points 60 --per 7d --price points")
    monkeypatch.setenv("VIDGEN_BUDGET", "60/7d")
    monkeypatch.setenv("VIDGEN_PRICE", "points")
    assert text_of(terminal("orders", "ls")[1])[-1] == f"budget: {text}"


def test_the_account_needs_a_journal_only_for_a_budget(here, tmp_path, monkeypatch, fails):
    (tmp_path / "orders.db").write_bytes(b"no database" * 100)
    monkeypatch.setenv("VIDGEN_JOURNAL", "sqlite:///orders.db")
    assert here("account")[0] == 0
    err = fails(3, "account", *TWO)
    assert "orders.db" in err


@pytest.fixture
def bill(here, service, uncertain, monkeypatch) -> None:
    """The two orders, and an uncertain one of unknown cost whose model is a formula. Nothing more may be sent."""
    service.add_fault("videos.create", Fault.status(503))
    assert here("create", "x", "--model=-1", "--no-validate")[0] == 5
    monkeypatch.delenv("VIDGEN_API_KEY")


def test_the_bill_has_a_row_for_each_key_and_a_sum(here, terminal, bill):
    code, out, err = here("spend", "--by", "model", "--since", "1h")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["-1", "0", "≥", "0", "0", "0", "1", "1"],
        ["gen-2.0", "1", "40", "20", "20", "0", "1"],
        ["sum", "1", "≥", "40", "20", "20", "1", "2"],
    ]
    lines = text_of(terminal("spend", "--by", "state")[1])
    assert [line.split()[0] for line in lines] == ["state", "completed", "uncertain", "sum"]
    assert max(map(len, lines)) <= 80
    document = json.loads(here("spend", "--json")[1])
    assert document["by"] == "day"
    assert sum(row["uncertain"] for row in document["rows"]) == document["sum"]["uncertain"] == 2


def test_a_bill_as_csv_has_no_formula_and_no_sum(here, bill):
    rows = list(csv.DictReader(here("spend", "--by", "model", "--csv")[1].splitlines()))
    assert [row["key"] for row in rows] == ["'-1", "gen-2.0"]
    assert rows[1] | {"key": ""} == {
        "key": "", "videos": "1", "spent": "20", "estimated": "20", "unknown": "0", "uncertain": "1",
    }  # fmt: skip


def test_days_are_those_of_the_time_zone(here, bill):
    def days(zone: str) -> list[str]:
        return [row["key"] for row in json.loads(here("spend", "--json", "--tz", zone)[1])["rows"]]

    assert days("Pacific/Kiritimati") > days("Pacific/Niue")  # 25 hours later


def test_a_bill_without_orders_is_a_sentence(here, bill, works):
    out = works("spend", "--since", "2999-01-01")[0]
    assert out.startswith("no orders were sent in the journal ")
    assert here("spend", "--account", "other", "--csv")[1] == "key,videos,spent,estimated,unknown,uncertain\n"
