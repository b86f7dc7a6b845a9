"""``vidgen orders``: the orders in the journal, and the operator's decisions."""

import csv
import io
import json
import re
import shlex
import sqlite3
import uuid
from contextlib import closing
from datetime import UTC, datetime

import click
import pytest

from vidgen_async.cli.commands.orders import orders
from vidgen_async.cli.options import order_ids
from vidgen_async.cli.service_connection import journal_file
from vidgen_async.cli.terminal.order_views import orders_table
from vidgen_async.sandbox import Fault
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef

from .conftest import text_of

pytestmark = pytest.mark.slow

BOAT = ("create", "A secret boat", "--model", "gen-2.0", "--duration", "5", "--no-validate", "--order-id")
WHY = ("--reason", "not in the account")


@pytest.fixture
def uncertain(here, service) -> str:
    """The id of an order that the service accepted, whose response was lost."""
    service.add_fault("videos.create", Fault.close_after_body())
    assert here(*BOAT, "order-1187")[0] == 5
    return "order-1187"


@pytest.fixture
def mixed(here, service, uncertain) -> None:
    assert here(*BOAT, "good")[0] == 0
    service.add_fault("videos.create", Fault.status(402))
    assert here(*BOAT, "refused")[0] == 4


def documents(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_the_orders_are_listed_oldest_first_with_their_causes(here, service, mixed):
    code, out, err = here("orders", "ls")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["order", "state", "age", "model", "points", "attempts", "task", "cause"]
    assert [line.split()[:2] for line in lines] == [
        ["order-1187", "uncertain"], ["good", "accepted"], ["refused", "rejected"],
    ]  # fmt: skip
    assert service.creates[1].task_id in lines[1]
    assert "402" in lines[2]


def test_the_list_can_be_filtered_by_state(here, mixed):
    out = here("orders", "ls", "--state", "uncertain", "--state", "rejected", "--json")[1]
    assert [document["order_id"] for document in documents(out)] == ["order-1187", "refused"]
    nothing = here("orders", "ls", "--state", "queued")[1]
    assert nothing.startswith(f"no matching orders in the journal {journal_file()} for account 'default' at http://")
    assert here("orders", "ls", "--state", "lost")[0] == 2


def listed(out: str) -> list[str]:
    return [document["order_id"] for document in documents(out)]


def test_the_list_can_be_filtered_by_time(here, mixed):
    for since, expected in (
        ("1h", 3),
        ("5m", 3),
        ("90s", 3),
        ("2020-01-01", 3),
        ("2020-01-01T08:00+02:00", 3),
        ("2999-01-01T08:00", 0),
    ):
        assert len(listed(here("orders", "ls", "--since", since, "--json")[1])) == expected, since


def test_the_list_has_pages_and_each_names_the_command_for_the_one_before(here, terminal, service, monkeypatch):
    monkeypatch.setattr("vidgen_async.cli.commands.orders.PAGE", 2)
    names = [f"order-{number}" for number in range(5)]
    for order_id in names:
        here(*BOAT, order_id)
    assert listed(here("orders", "ls", "--json")[1]) == names
    assert listed(here("orders", "ls", "--json", "--limit", "2")[1]) == names[-2:]
    code, shown = terminal("orders", "ls", "--since", "1h")
    pages = []
    while code == 0:
        lines = text_of(shown)
        pages.append([line.split()[0] for line in lines if line.startswith("order-")])
        if not lines[-1].startswith("  vidgen "):
            break
        assert lines[-2] == "Older orders:"
        code, shown = terminal(*shlex.split(lines[-1])[1:])
    assert pages == [names[3:], names[1:3], names[:1]]


def test_the_list_has_the_model_and_the_points_of_a_task_that_ended(here, service, tmp_path):
    here("generate", "x", "--model", "gen-2.0", "--poll-interval", "0.05", "-o", "boat.mp4", "--order-id", "good")
    (line,) = here("orders", "ls")[1].splitlines()[1:]
    assert line.split()[4:6] == ["gen-2.0", "20"]


@pytest.mark.parametrize("ids", [[str(uuid.UUID(int=number)) for number in range(4)], ["order-1187", "b", "c", "d"]])
def test_at_80_columns_the_list_shows_task_cause_and_attempts_of_every_order(here, terminal, service, ids):
    service.add_fault("videos.create", Fault.close_after_body(), times=2)
    for order_id in ids:
        here(*BOAT, order_id)
    lines = text_of(terminal("orders", "ls")[1])
    assert "attempts" in lines[0].split()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line[:1] != " "][1:] == ids
    starts = [number for number, line in enumerate(lines) if line.split()[0] in ids]
    shown = [
        " ".join(" ".join(lines[start:end]).split()) for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert ["closed the connection without a response" in text for text in shown] == [True, True, False, False]
    assert [create.task_id in text for create, text in zip(service.creates[2:], shown[2:], strict=True)] == [True, True]
    assert all("gen-2.0" in text for text in shown)
    assert "too narrow" not in " ".join(lines)


def test_the_list_shows_possible_tasks_of_an_uncertain_order_as_a_question():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ref = OrderRef(service="https://h", account="a", order_id="order-1187")
    order = Order(ref=ref, idempotency_key="k", body=b'{"model": "gen-2.0"}', created_at=now)
    evidence = Evidence(outcome=AttemptOutcome.UNCERTAIN, at=now, cause="no task id", candidates=("task_1", "task_2"))
    order = order.with_attempt(Attempt(n=1, sent_at=now, deadline_at=now, evidence=evidence))
    assert "task_1?, task_2?" in orders_table([order], now, "").rows[0]


def test_an_order_is_shown_with_its_attempts_and_without_its_request(here, uncertain):
    code, out, err = here("orders", "show", uncertain)
    assert (code, err) == (0, "")
    facts = dict(line.split(":", 1) for line in out.splitlines())
    assert facts["state"].strip() == "uncertain"
    assert facts["attempt 1"].strip().startswith("uncertain, sent ")
    assert "secret boat" not in out + here("orders", "show", uncertain, "--json")[1]
    assert '"prompt": "A secret boat"' in here("orders", "show", uncertain, "--with-request")[1]
    document = json.loads(here("orders", "show", uncertain, "--json", "--with-request")[1])
    assert (document["order_id"], document["state"], document["account"]) == (uncertain, "uncertain", "default")
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["uncertain"]
    assert document["request"]["prompt"] == "A secret boat"


def test_an_adopted_task_belongs_to_the_order_and_its_video_can_be_saved(here, service, uncertain, tmp_path, works):
    task_id = service.creates[0].task_id
    code, out, _ = here("orders", "adopt", uncertain, task_id, "--by", "ann", "--reason", "same minute")
    assert (code, out) == (0, f"order {uncertain}: task {task_id}\n")
    shown = here("orders", "show", uncertain)[1]
    (line,) = [line for line in shown.splitlines() if "adopt" in line]
    assert re.fullmatch(r"attempt 2: +accepted, adopt by ann: same minute, [^,:]+ [0-9:]+( UTC)?", line), line

    out = works("generate", "--resume", uncertain, "-o", "boat.mp4", "--poll-interval", "0.05")[0]
    assert out.startswith("saved boat.mp4")
    assert len(service.creates) == 1


def test_a_task_unknown_to_the_service_is_not_adopted(here, uncertain, fails):
    err = fails(1, "orders", "adopt", uncertain, "task_nope")
    assert "404" in err
    assert json.loads(here("orders", "show", uncertain, "--json")[1])["state"] == "uncertain"


def test_an_abandoned_order_has_its_operator_and_reason(here, service, uncertain):
    code, out, _ = here("orders", "abandon", uncertain, *WHY, "--by", "ann")
    assert (code, out) == (0, f"order {uncertain}: abandoned\n")
    closing = json.loads(here("orders", "show", uncertain, "--json")[1])["closing"]
    assert (closing["state"], closing["reason"], closing["by"]) == ("abandoned", "not in the account", "ann")
    assert "by ann: not in the account" in here("orders", "show", uncertain)[1]
    assert here("orders", "resume", uncertain)[0] == 5
    assert len(service.creates) == 1


def test_the_default_operator_is_the_login_name(here, uncertain, monkeypatch):
    monkeypatch.setenv("LOGNAME", "zoe")
    here("orders", "abandon", uncertain, *WHY)
    assert json.loads(here("orders", "show", uncertain, "--json")[1])["closing"]["by"] == "zoe"


@pytest.mark.parametrize(
    ("words", "verb", "more"),
    [
        *(("reason", "abandon", more) for more in ((), ("--reason", " "))),
        *(("reason", "resend", ("--expect-attempt", "1", "--yes", *more)) for more in ((), ("--reason", " "))),
        ("its last attempt is 1, not 2", "resend", ("--expect-attempt", "2", "--yes", *WHY)),
        ("charged twice. Resend it? stdin is not a terminal", "resend", ("--expect-attempt", "1", *WHY)),
    ],
)
def test_a_decision_without_what_it_needs_sends_nothing(service, uncertain, fails, words, verb, more):
    assert words in " ".join(fails(2, "orders", verb, uncertain, *more).split())
    assert len(service.creates) == 1


def test_a_resend_sends_the_same_request_with_the_same_key(here, service, uncertain, works):
    out = works("orders", "resend", uncertain, "--expect-attempt", "1", *WHY, "--by", "ann", "--yes")[0]
    first, second = service.creates
    assert out == f"{second.task_id}\n"
    assert (first.raw, first.idempotency_key) == (second.raw, second.idempotency_key)
    last = json.loads(here("orders", "show", uncertain, "--json")[1])["attempts"][-1]
    assert (last["kind"], last["by"], last["reason"]) == ("resend", "ann", "not in the account")


def test_a_resend_of_an_old_order_needs_accept_duplicate_risk(here, terminal, service, uncertain, fails):
    with closing(sqlite3.connect(journal_file())) as db, db:
        db.execute("UPDATE attempts SET sent_at = sent_at - 2 * 3600 * 1000000")
    resend = ("orders", "resend", uncertain, "--expect-attempt", "1", *WHY)

    err = fails(2, *resend, "--yes")
    assert "was first sent 2.0 h ago" in err
    assert "--accept-duplicate-risk resends it anyway" in err
    assert "accept_duplicate_risk" not in err
    proposed = shlex.split(err.splitlines()[-1])
    assert proposed[:3] == ["vidgen", "orders", "resend"]
    assert "--accept-duplicate-risk" in proposed
    ended, shown = terminal(*resend, typed="y\n")
    assert ended == 2, shown
    assert len(service.creates) == 1

    assert "--accept-duplicate-risk" in here("orders", "resume", uncertain)[2].splitlines()[-1]
    assert here(*proposed[1:], "--yes")[0] == 0
    assert len(service.creates) == 2


def test_the_result_of_a_task_is_shown_with_its_order(here, service):
    assert here("generate", *BOAT[1:], "good", "-o", "boat.mp4")[0] == 0
    (result,) = json.loads(here("orders", "show", "good", "--json")[1])["results"]
    assert (result["task_id"], result["status"]) == (service.creates[0].task_id, "completed")
    assert f"result: {result['task_id']} completed, 20 points, seen " in " ".join(
        here("orders", "show", "good")[1].split()
    )


def test_a_response_without_a_task_id_is_shown_with_the_request(here, service):
    service.add_fault("videos.create", Fault.garble(b'{"job": "task_hidden"}'))
    assert here(*BOAT, "unclear")[0] == 5
    assert "task_hidden" in here("orders", "show", "unclear", "--with-request")[1]
    (attempt,) = json.loads(here("orders", "show", "unclear", "--with-request", "--json")[1])["attempts"]
    assert attempt["evidence"]["body"] == '{"job": "task_hidden"}'
    (attempt,) = json.loads(here("orders", "show", "unclear", "--json")[1])["attempts"]
    assert "body" not in attempt["evidence"]


def test_an_order_is_shown_with_its_waiting_time_and_its_key_only_on_request(here, service, uncertain):
    (create,) = service.creates
    shown = here("orders", "show", uncertain)[1]
    assert re.search(r"uncertain, sent [\d: -]+ UTC, after \d+\.\d s: ", shown)
    assert create.idempotency_key not in shown + here("orders", "show", uncertain, "--json")[1]
    assert create.idempotency_key in here("orders", "show", uncertain, "--with-request")[1]
    document = json.loads(here("orders", "show", uncertain, "--with-request", "--json")[1])
    assert document["idempotency_key"] == create.idempotency_key


def test_a_watch_of_the_journal_reports_how_many_orders_need_an_operator(here, uncertain):
    assert "1 uncertain or being sent; vidgen orders ls lists them" in here("watch", "--journal")[2]


def test_on_a_terminal_a_resend_asks_for_confirmation(terminal, service, uncertain):
    for answer, code, creates in (("n", 2, 1), ("y", 0, 2)):
        ended, shown = terminal("orders", "resend", uncertain, "--expect-attempt", "1", *WHY, typed=f"{answer}\n")
        assert ended == code, shown
        assert "may be charged twice" in " ".join(text_of(shown))
        assert len(service.creates) == creates


def test_a_resend_without_a_response_stays_uncertain_and_names_the_next_attempt(service, uncertain, fails):
    service.add_fault("videos.create", Fault.close_after_body())
    err = fails(5, "orders", "resend", uncertain, "--expect-attempt", "1", *WHY, "--yes")
    assert "--expect-attempt 2" in err
    assert "was not sent again" not in err
    assert len(service.creates) == 2


def test_a_refused_resend_shows_the_refusal_and_what_to_check(here, service, uncertain, fails):
    service.add_fault("videos.create", Fault.status(401))
    err = fails(5, "orders", "resend", uncertain, "--expect-attempt", "1", *WHY, "--yes")
    assert re.search("attempt 2, a resend, began at .* status 401 was received", " ".join(err.split()))
    assert "check VIDGEN_API_KEY" in " ".join(err.split())
    assert "was not sent again" not in err
    assert len(service.creates) == 2
    assert "401" not in here("orders", "ls")[1]  # the refusal is not what makes the order uncertain


def test_resume_sends_a_rejected_order_again_with_the_same_request(here, service, fails):
    service.add_fault("videos.create", Fault.status(402))
    err = fails(4, *BOAT, "order-1187")
    assert err.splitlines()[-1] == "  vidgen orders resume order-1187"
    code, out, _ = here("orders", "resume", "order-1187")
    first, second = service.creates
    assert (code, out) == (0, f"{second.task_id}\n")
    assert (first.raw, first.idempotency_key) == (second.raw, second.idempotency_key)


def test_an_order_that_was_not_sent_can_be_withdrawn_and_is_never_sent(here, service, fails):
    nowhere = ("--base-url", "http://127.0.0.1:9/openapi/v1")
    assert here(*BOAT, "order-1187", *nowhere)[0] == 3
    code, out, _ = here("orders", "withdraw", "order-1187", *nowhere)
    assert (code, out) == (0, "order order-1187: withdrawn\n")
    err = fails(2, "orders", "resume", "order-1187", *nowhere)
    assert "withdrawn" in err


def test_an_accepted_order_cannot_be_abandoned_or_withdrawn(here, service, fails):
    assert here(*BOAT, "good")[0] == 0
    for verb in ("abandon", "withdraw"):
        err = fails(2, "orders", verb, "good", *WHY)
        assert "it is accepted" in err


def test_all_orders_can_be_exported(here, service, mixed):
    exported = documents(here("orders", "export")[1])
    assert [document["state"] for document in exported] == ["uncertain", "accepted", "rejected"]
    assert "request" not in exported[0]
    assert documents(here("orders", "export", "--with-request")[1])[0]["request"]["prompt"] == "A secret boat"

    rows = list(csv.DictReader(io.StringIO(here("orders", "export", "--format", "csv")[1])))
    assert [row["order_id"] for row in rows] == ["order-1187", "good", "refused"]
    assert rows[1]["task_ids"] == service.creates[1].task_id


def test_exported_cells_keep_their_spaces_and_are_no_formulas(here):
    for order_id in ("two  spaces", "=1+1"):
        assert here("create", "x", "--model", "gen-2.0", "--order-id", order_id)[0] == 0
    rows = csv.DictReader(io.StringIO(here("orders", "export", "--format", "csv")[1]))
    assert [row["order_id"] for row in rows] == ["two  spaces", "'=1+1"]


def test_a_file_that_is_not_a_journal_is_exit_code_3_and_nothing_is_sent(service, tmp_path, fails):
    (tmp_path / "bad.db").write_bytes(b"this is not a database, whatever its name says")
    for command in (("orders", "ls"), ("orders", "resume", "o"), (*BOAT, "o")):
        err = fails(3, *command, "--journal", "sqlite:///bad.db")
        assert "bad.db" in err
    err = fails(3, *BOAT, "o", "--journal", "sqlite:///missing/orders.db")
    assert "there is no directory" in err
    assert service.creates == []


def test_commands_about_existing_orders_create_no_journal(here, tmp_path, data_home, fails):
    commands = [("orders", *more) for more in (("ls",), ("export",), ("show", "o"), ("resume", "o"), ("withdraw", "o"))]
    for command in (*commands, ("generate", "--resume", "o", "-o", "boat.mp4")):
        err = fails(2, *command, "--journal", "sqlite:///mine.db")
        assert f"there is no journal at {tmp_path / 'mine.db'}" in err
        is_listing = command[1] in ("ls", "export")
        code, _, err = here(*command)
        assert code == (0 if is_listing else 2)
        assert is_listing or "there is no order 'o' in the journal" in err
        assert [*tmp_path.iterdir(), *data_home.iterdir()] == []


def test_completion_creates_no_journal(here, tmp_path):
    context = click.Context(orders)
    context.params = {"journal": "sqlite:///mine.db"}
    assert order_ids(context, click.Option(["--resume"]), "") == []
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_order_of_another_account_names_the_account(here, service, tmp_path):
    assert here(*BOAT, "good")[0] == 0
    where = f"for account 'shop' at {service.base_url.removesuffix('/openapi/v1')}; the service may still have it"
    for verb in (("show",), ("resume",), ("adopt", "task_1"), ("abandon", *WHY), ("withdraw",)):
        err = here("orders", verb[0], "good", *verb[1:], "--account", "shop")[2]
        assert where in err


def test_a_resend_of_an_accepted_order_is_refused_without_asking(terminal, here, service):
    assert here(*BOAT, "good")[0] == 0
    code, shown = terminal("orders", "resend", "good", "--expect-attempt", "1", *WHY)
    assert code == 2, shown
    text = " ".join(text_of(shown))
    assert "cannot be resent: it is accepted" in text
    assert "Resend it?" not in text
    assert len(service.creates) == 1


def test_an_abandoned_order_offers_only_adopt(here, uncertain):
    here("orders", "abandon", uncertain, *WHY)
    for command in (("orders", "resume", uncertain), (*BOAT, uncertain)):
        code, _, err = here(*command, "--json")
        error = json.loads(err.splitlines()[-1])["error"]
        assert (code, error["commands"]) == (5, [f"vidgen orders adopt {uncertain} TASK_ID"])
        assert not error["message"].endswith(":")
    resend = ("orders", "resend", uncertain, "--expect-attempt", "1", "--yes", *WHY)
    error = json.loads(here(*resend, "--json")[2])["error"]
    assert error["message"] == f"order '{uncertain}' cannot be resent: it is abandoned."
    assert error["commands"] == [f"vidgen orders adopt {uncertain} TASK_ID"]


def test_commands_that_only_use_the_journal_need_no_key(here, service, uncertain, monkeypatch, works):
    monkeypatch.delenv("VIDGEN_API_KEY")
    assert listed(here("orders", "ls", "--state", "uncertain", "--json")[1]) == [uncertain]
    assert here("orders", "show", uncertain)[0] == 0
    assert listed(here("orders", "export")[1]) == [uncertain]
    for verb, *rest in (("adopt", "task_1"), ("resume",), ("resend", "--expect-attempt", "1", "--yes", *WHY)):
        code, _, err = here("orders", verb, uncertain, *rest)
        assert (code, "no API key" in err) == (2, True), verb
    assert here("orders", "withdraw", uncertain)[0] == 2
    err = works("orders", "abandon", uncertain, *WHY)[1]
    assert len(service.creates) == 1


def test_commands_that_only_use_the_journal_do_not_read_the_key(here, uncertain, monkeypatch):
    for key in ("", "YOUR_API_KEY"):
        monkeypatch.setenv("VIDGEN_API_KEY", key)
        assert listed(here("orders", "ls", "--json")[1]) == [uncertain]
        assert here("account")[0] == 2


def test_commands_that_only_use_the_journal_need_the_base_url(uncertain, monkeypatch, fails):
    monkeypatch.delenv("VIDGEN_API_KEY")
    monkeypatch.delenv("VIDGEN_BASE_URL")
    err = fails(2, "orders", "ls")
    assert "no base URL: set VIDGEN_BASE_URL or use --base-url" in err
    assert "the orders of each service" in err


def test_an_empty_list_names_the_accounts_that_have_orders(here, service, uncertain):
    shown = " ".join(here("orders", "ls", "--account", "shop", "--state", "uncertain")[1].split())
    origin = service.base_url.removesuffix("/openapi/v1")
    assert shown.endswith(f"; it has orders of account 'default' at {origin}")
    shown = here("orders", "ls", "--state", "abandoned")[1]
    assert shown == f"no matching orders in the journal {journal_file()} for account 'default' at {origin}\n"
    for account in "abc":
        assert here(*BOAT, "good", "--account", account)[0] == 0
    shown = " ".join(here("orders", "ls", "--account", "shop")[1].split())
    names = ", ".join(f"account '{account}' at {origin}" for account in "abc")
    assert shown.endswith(f"; it has orders of {names}, others")
    shown = " ".join(here("orders", "ls", "--account", "a", "--state", "queued")[1].split())
    names = ", ".join(f"account {account!r} at {origin}" for account in ("b", "c", "default"))
    assert shown.endswith(f"; it has orders of {names}")


def test_an_uncertain_create_is_reported_once(here, service, fails):
    service.add_fault("videos.create", Fault.close_after_body())
    err = fails(5, *BOAT, "order-1187")
    assert err.count("it is unknown whether the service accepted") == 1
    assert err.count("closed the connection") == 1
    (line,) = here("orders", "ls")[1].splitlines()[1:]
    assert line.endswith("closed the connection without a response")
    assert "may have received the request" in here("orders", "show", "order-1187")[1]
