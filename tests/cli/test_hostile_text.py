"""No text of the service can control the terminal: escape sequences, controls, bidi marks and added lines."""

import json
import re
import sqlite3
from contextlib import closing

import click
import pytest
from attrs import evolve
from rich.console import Console

from tests.cassette.sample_cassettes import document, look, save, save_part
from vidgen_async.cassette import Failure, RecordedRequest
from vidgen_async.cli.commands.orders import orders
from vidgen_async.cli.options import order_ids
from vidgen_async.cli.terminal.status_display import RichScreen, Screen
from vidgen_async.sandbox import Fault

from .conftest import PICTURE, Stream

#: CSI, OSC 8, CSI in 8 bits, BEL, carriage return, backspace, bidi, zero width, another line.
HOSTILE = "a\x1b[2Jb\x1b]8;;http://h/\x1b\\c\x9b2Jd\x07e\rf\bg\u202eh\u200bi\nINJECTED"
FAST = ("--poll-interval", "0.05")
#: What rich sends: styles, the cursor, and the progress line.
OWN_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[\?1049[lh]|\x1b\[H|\r?(\x1b\[2K|\x1b\[1A)+")

MODEL = {"code": HOSTILE, "name": HOSTILE, "enabled": True, "maintenance": False, "durations": [5], HOSTILE: HOSTILE}
CATALOG = {"models": [MODEL, {**MODEL, "code": "gen-2.0", "resolutions": [HOSTILE], f"2{HOSTILE}": {HOSTILE: HOSTILE}}]}
FAILED = {"id": "task_1", "status": "failed", "model": HOSTILE, "failure_reason": HOSTILE, "video_url": HOSTILE}
UNKNOWN = {"id": "task_1", "status": HOSTILE, "model": HOSTILE, "provider": HOSTILE, "upstream_task_id": HOSTILE}
ASSET = {"id": HOSTILE, "image_id": HOSTILE, "url": f"/api/{HOSTILE}", "mime": HOSTILE, "name": HOSTILE}
ERROR = {"error": {"code": HOSTILE, "message": HOSTILE, HOSTILE: HOSTILE}, "request_id": HOSTILE}
SCENES = {
    "models.list": (CATALOG, ("models",), ("models", "gen-2.0"), ("models", "no-such"), ("create", "x")),
    "account.get": ({"balance": 5, HOSTILE: HOSTILE, "owner": {HOSTILE: HOSTILE}}, ("account",)),
    "files.create": (ASSET, ("upload", PICTURE), ("upload", PICTURE, "--url")),
    "videos.create": (
        {"id": HOSTILE, "task_id": HOSTILE},
        ("create", "x", "--model", "gen-2.0", "--order-id", "order-1"),
        ("orders", "show", "order-1", "--with-request"),
        ("orders", "ls"),
        ("orders", "export"),
        ("orders", "export", "--format", "csv"),
    ),
    "videos.get": (
        FAILED,
        ("get", "task_1"),
        ("wait", "task_1", *FAST),
        ("wait", "task_1", "task_2", *FAST, "--timeout", "0.3"),
        ("watch", "task_1", *FAST),
        ("download", "task_1", "-o", "x.mp4"),
    ),
}


def check(shown: str, line: tuple[str, ...], *, is_terminal: bool = True) -> None:
    """Only rich's own sequences and its spaces are there; no text is at the beginning of a line, unless it was
    wrapped."""
    rest = OWN_SEQUENCES.sub("", shown).replace("\xa0", " ")
    assert [char for char in rest if not (char.isprintable() or char == "\n")] == [], line
    assert is_terminal or not any(text.strip().startswith("INJECTED") for text in rest.splitlines()), line


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--debug",), ("--json",)])
def test_responses_are_cleaned_in_a_pipe(here, service, flags):
    for op, (answer, *lines) in SCENES.items():
        service.add_fault(op, Fault.rewrite(body=json.dumps(answer).encode()), times=None)
        for line in lines:
            given = [] if line[-1] == "csv" and flags == ("--json",) else flags
            _, out, err = here(*line, *given)
            assert out or err
            check(out, line, is_terminal=False)
            check(err, line, is_terminal="Traceback" in err)


@pytest.mark.slow
@pytest.mark.parametrize("width", [200, 60, 30])
def test_responses_are_cleaned_on_a_terminal(terminal, service, width):
    for op, (answer, *lines) in SCENES.items():
        service.add_fault(op, Fault.rewrite(body=json.dumps(answer).encode()), times=None)
        for line in lines:
            check(terminal(*line, width=width)[1], line)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--debug",)])
def test_unknown_states_are_cleaned(here, terminal, service, flags):
    service.add_fault("videos.get", Fault.rewrite(body=json.dumps(UNKNOWN).encode()), times=None)
    for line in (("get", "task_1"), ("wait", "task_1", *FAST), ("watch", "task_1", *FAST)):
        timeout = () if line[0] == "get" else ("--timeout", "0.3")
        for shown in (*here(*line, *timeout, *flags)[1:], terminal(*line, *timeout, *flags)[1]):
            check(shown, line)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--debug",)])
def test_errors_of_the_service_are_cleaned(here, terminal, service, flags):
    headers = {"X-Request-Id": "r\x9b2Jr"}
    for op, (_, *lines) in SCENES.items():
        service.add_fault(op, Fault.rewrite(status=400, body=json.dumps(ERROR).encode(), headers=headers), times=None)
        for line in lines:
            for shown in (*here(*line, *flags)[1:], terminal(*line, *flags)[1]):
                check(shown, line)


def test_names_of_columns_are_cleaned(here, service):
    service.add_fault("models.list", Fault.rewrite(body=json.dumps(CATALOG).encode()))
    head = here("models")[1].splitlines()[0]
    assert "a�[2Jb�]8;;http://h/�\\c�2Jd�e f�g�h�i INJECTED" in head


def test_arguments_are_cleaned_where_they_are_wrong(here, terminal):
    for line in (("get",), ("upload", HOSTILE), (HOSTILE,), ("models", f"--{HOSTILE}"), ("get", "x", f"--{HOSTILE}=1")):
        check(here(*line)[2], line)
        check(terminal(*line)[1], line)


def test_cassettes_are_cleaned(vidgen_cassette, on_a_terminal, tmp_path):
    request = RecordedRequest("GET", f"https://service.test/openapi/v1/{HOSTILE}")
    failure = Failure(HOSTILE, "maybe_sent", "wait", HOSTILE)
    body = {"json": {HOSTILE: "Bearer 0123456789abcdef0123456789abcdef"}}
    recorded = (evolve(look(1, request=request), op=HOSTILE), look(2, failure=failure), look(3, request=request))
    save_part(tmp_path / "one.json.part", document(*recorded), unfinished=1)
    save(tmp_path / "leak.json", document(look(1, body=body)))
    for line in (("recover", "one.json.part"), ("check", "leak.json")):
        code, out, err = vidgen_cassette(*line)
        assert (code, err) == (1, "")
        assert "INJECTED" in out
        check(out, line, is_terminal=False)
        check(on_a_terminal("cassette", *line)[1], line)


def test_log_records_are_cleaned(capsys):
    shown = Stream({}, is_terminal=True)
    for screen in (Screen(), RichScreen(console=Console(file=shown, highlight=False, markup=False))):
        screen.print_fact(HOSTILE, HOSTILE)
        screen.warn(HOSTILE)
        screen.start_step(HOSTILE)
        screen.show_state(HOSTILE)
        screen.close()
    check(capsys.readouterr().err, ("plain",), is_terminal=False)
    check(shown.text, ("terminal",))


def test_a_shell_is_offered_no_id_that_it_cannot_insert(here, data_home, service):
    for order_id in ("order-1", "order-2"):
        assert here("create", "x", "--model", "gen-2.0", "--order-id", order_id)[0] == 0
    with closing(sqlite3.connect(data_home / "vidgen" / "orders.db")) as journal, journal:
        journal.execute("UPDATE orders SET order_id = ? WHERE order_id = 'order-2'", ("order-2\x1b[2J",))
    assert order_ids(click.Context(orders), click.Argument(["order_id"]), "order") == ["order-1"]
