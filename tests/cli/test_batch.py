"""``vidgen batch``: its check, runs that are repeated, its views, and how it is stopped."""

import csv
import io
import json
import re
import shlex
import shutil
import signal
import sys

import pytest
from rich.console import Console

from tests.signals import accept_signals
from vidgen_async.batch.directory import lock_directory
from vidgen_async.cli.batch_run import EXIT_CODES, BatchProgress
from vidgen_async.cli.run_state import Exit
from vidgen_async.sandbox import Fault
from vidgen_async.types import BatchOutcome

from .conftest import ROOT, Stream, text_of

RUN = ("batch", "jobs.csv", "-o", "videos", "--poll-interval", "0.05")
#: A task of gen-2.0 costs 20 points.
TWO = ("--max-points", "40", "--price", "points")
PYTHON = shlex.quote(sys.executable)


@pytest.fixture
def write(tmp_path):
    """Writes a manifest with one row for each prompt: a, b, c …"""

    def write(*prompts: str) -> str:
        rows = [f"{chr(ord('a') + number)},gen-2.0,{prompt},5\n" for number, prompt in enumerate(prompts)]
        text = f"order_id,model,prompt,duration\n{''.join(rows)}"
        (tmp_path / "jobs.csv").write_text(text)
        return text

    return write


def saved(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "videos").glob("*"))


def test_problems_are_listed_with_their_lines_and_nothing_is_sent(here, service, write):
    write(*["A boat"] * 3, *[""] * 22)
    for more in ((), ("--check",)):
        code, _, err = here(*RUN, *more)
        problems = [line for line in err.splitlines() if line.startswith("problem: line ")]
        assert (code, len(problems)) == (2, 20)
        assert problems[0].startswith("problem: line 5: prompt")
        assert "error: nothing was sent: 22 problems in 25 rows; 20 are shown, --json shows all.\n" in err
    code, out, err = here(*RUN, "--json")
    *problems, error = map(json.loads, err.splitlines())
    assert (code, out, len(problems), error["error"]["kind"]) == (2, "", 22, "invalid_request")
    assert service.creates == []


def test_a_check_shows_what_the_rows_are_and_what_the_new_ones_cost(here, service, write):
    write("A boat")
    assert here(*RUN)[0] == 0
    write("A boat", "The sea", "A tree")
    code, out, _ = here(*RUN, "--check", "--price", "points")
    facts = dict(line.split(":") for line in out.replace(" ", "").splitlines())
    assert (code, facts) == (
        0,
        {"rows": "3", "completed": "1", "new": "2", "toorder,gen-2.0": "2,40points", "price": "40points"},
    )
    document = json.loads(here(*RUN, "--check", "--price", "points", "--json")[1])
    assert document["states"] == {"completed": 1, "new": 2}
    assert (document["points"], document["points_by_model"], document["budget"]) == (40, {"gen-2.0": 40}, None)
    assert "price" not in here(*RUN, "--check")[1]
    code, out, err = here(*RUN, "--check", "--price", "credits")
    assert (code, out) == (2, "")
    assert "error: --price: no model has a price 'credits'; the numbers of the models: memberPoints, points" in err
    assert len(service.creates) == 1


def test_a_check_says_whether_the_budget_suffices_and_what_the_price_leaves_out(here, service, write):
    write("A boat")
    assert here(*RUN)[0] == 0
    write("A boat", "The sea", "A tree", "A dog")
    for limit, text in ((80, ""), (50, ": 30 too few")):
        code, out, _ = here(*RUN, "--check", "--max-points", str(limit), "--price", "points")
        [budget] = [line.partition(":")[2].strip() for line in out.splitlines() if line.startswith("budget")]
        assert (code, budget) == (0, f"{limit} points: 20 spent, 0 reserved, {limit - 20} free{text}")
    document = json.loads(here(*RUN, "--check", *TWO, "--json")[1])
    assert (document["points"], document["budget"]["free"]) == (60, 20)
    write("A boat", "The sea", "", "A dog")
    code, out, _ = here(*RUN, "--check", "--price", "points")
    facts = dict(line.split(":") for line in out.replace(" ", "").splitlines())
    assert (code, facts["rows"], facts["completed"], facts["new"], facts["faulty"]) == (2, "4", "1", "2", "1")
    assert facts["price"] == "40points,withoutthefaultyrows"


def test_a_run_with_a_price_that_no_model_has_orders_nothing_and_without_the_catalog_it_still_saves(
    here, service, write, tmp_path
):
    write("A boat")
    assert here(*RUN)[0] == 0
    (tmp_path / "videos" / "a.mp4").unlink()
    write("A boat", "The sea")
    code, _, err = here(*RUN, "--max-points", "40", "--price", "credits")
    assert (code, len(service.creates), "no model has a price 'credits'" in err) == (2, 1, True)
    service.add_fault("models.list", Fault.status(503), times=None)
    assert here(*RUN, *TWO, "--retry-for", "0")[0] == 3
    assert saved(tmp_path) == ["a.mp4"]


@pytest.mark.parametrize("ignored", [("--report", "r.csv"), ("--on-saved", "true")])
def test_a_check_refuses_options_that_it_would_ignore(here, service, write, ignored):
    write("A boat")
    code, _, err = here(*RUN, "--check", *ignored)
    assert (code, "--check saves nothing: leave out --report and --on-saved." in err) == (2, True)


def test_a_run_saves_the_videos_and_a_second_one_sends_nothing(here, service, write, tmp_path):
    write("A boat", "The sea")
    code, out, err = here(*RUN, "--report", "report.csv")
    assert code == 0
    assert sorted(out.splitlines()) == ["a saved videos/a.mp4 (20 points)", "b saved videos/b.mp4 (20 points)"]
    assert "saved: 2 of 2\n" in err
    rows = csv.DictReader((tmp_path / "report.csv").read_text().splitlines())
    assert [row["state"] for row in rows] == ["saved"] * 2
    (tmp_path / "videos" / "b.mp4").unlink()
    code, out, err = here(*RUN, "--json")
    outcomes = {row["order_id"]: (row["state"], row["reason"]) for row in map(json.loads, out.splitlines())}
    assert (code, outcomes) == (0, {"a": ("saved", ""), "b": ("saved", "file missing")})
    assert json.loads(err.splitlines()[-1]) == {"saved": 2}
    assert (len(service.creates), saved(tmp_path)) == (2, ["a.mp4", "b.mp4"])


def test_the_manifest_may_be_the_standard_input(run_here, in_service, write, tmp_path):
    stdin, out, err = io.TextIOWrapper(io.BytesIO(write("A boat").encode())), Stream({}), Stream({})
    assert run_here("batch", "-", *RUN[2:], stdin=stdin, stdout=out, stderr=err) == 0, err.text
    assert saved(tmp_path) == ["a.mp4"]


def test_what_fails_is_an_exit_code_and_the_commands_for_it(here, service, write):
    write("A boat", "The sea", "A tree")
    service.add_fault("videos.create", Fault.status(503))
    service.add_fault("videos.create", Fault.status(400))
    code, out, err = here(*RUN, "--account", "b")
    states = sorted(line.split()[1] for line in out.splitlines())
    assert (code, states) == (5, ["rejected", "saved", "uncertain"])
    order = next(line.split()[0] for line in out.splitlines() if " uncertain " in line)
    *_, error, hint, command = err.splitlines()
    assert error == "error: 2 of 3 videos were not saved."
    assert hint.startswith("hint: 1 rejected with 400: a corrected row needs a new order_id")
    assert "1 uncertain: decide first. For each uncertain order" in hint
    assert "orders." not in out.replace("orders.db", "")
    assert "budget: none in this run: --max-points sets one\n" in err
    assert command == f"  vidgen orders show {order} --account b"
    assert here(*shlex.split(command)[1:])[0] == 0
    assert here(*RUN, "--account", "b")[0] == 5
    assert here("orders", "abandon", order, "--reason", "x", "--account", "b")[0] == 0
    assert here(*RUN, "--account", "b")[0] == 1
    assert len(service.creates) == 3


def test_failed_videos_are_ordered_again_on_request_only(here, service, write):
    write("A boat [fail: too dark]", "The sea")
    for count, has_orders in ((2, True), (2, False)):
        code, out, err = here(*RUN)
        assert (code, len(service.creates)) == (1, count)
        assert "failed: 1 of 2, such as a: " in err
        assert "too dark" in out
        assert err.splitlines()[-1] == "hint: 1 failed: add --retry-failed."
        assert ("budget: none in this run" in err) is has_orders
    code, out, err = here(*RUN, "--retry-failed")
    assert code == 1
    assert len(service.creates) == 3
    assert "(20 points) earlier: 1 failed, 20 points, may be refunded\n" in out


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (("saved",), Exit.OK),
        (("saved", "not_sent"), Exit.NOT_SENT),
        (("not_sent", "not_saved"), Exit.DOWNLOAD),
        (("not_saved", "rejected"), Exit.REFUSED),
        (("rejected", "failed"), Exit.FAILED),
        (("failed", "abandoned", "uncertain", "running", "withdrawn"), Exit.UNCERTAIN),
    ],
)
def test_the_exit_code_is_that_of_the_gravest_state(states, code):
    progress = make_progress(*states)
    assert progress.code is code
    assert set(states) <= set(EXIT_CODES)
    progress.command_failures.append("videos/a.mp4: exit code 1")
    assert progress.code is (code or Exit.FAILED)


def make_progress(*states: str) -> BatchProgress:
    progress = BatchProgress(2 * len(states), 0.0)
    for line, state in enumerate(states, 1):
        outcome = BatchOutcome(order_id=f"order-{line}", line=line, state=state, reason="new", failure="too dark")
        progress.record(outcome)
    return progress


def test_over_the_budget_nothing_more_is_ordered_and_what_was_ordered_is_saved(here, service, write, tmp_path):
    write("A boat", "The sea", "A tree")
    code, out, err = here(*RUN, *TWO)
    assert (code, len(service.creates), len(saved(tmp_path))) == (3, 2, 2)
    assert "of the budget of 40 points" in out
    assert "budget: 40 points: 40 spent, 0 reserved, 0 free\n" in err
    hint = "1 over the budget. Raise --max-points or VIDGEN_BUDGET to at least {}."
    assert err.splitlines()[-1] == f"hint: {hint.format(60)}"
    write("A boat", "The sea", "A tree", "A dog")
    _, _, err = here(*RUN, *TWO)
    assert err.splitlines()[-1] == f"hint: {hint.format(80).replace('1', '2', 1)}"
    write("A boat", "The sea", "A tree")
    assert here(*RUN, "--max-points", "60", "--price", "points")[0] == 0
    assert len(service.creates) == 3


def test_a_command_runs_once_for_each_saved_video_without_the_key(here, service, write, tmp_path):
    write("A boat", "The sea")
    program = (
        "import os, sys; path = sys.argv[1]; assert 'VIDGEN_API_KEY' not in os.environ and 'PATH' in os.environ; "
        "open(path + '.log', 'x').close(); print('uploaded'); sys.exit(3 * path.endswith('b.mp4'))"
    )
    on_saved = ("--on-saved", f"{PYTHON} -c {shlex.quote(program)}")
    for code, failures in ((1, ["on-saved: videos/b.mp4: exit code 3: uploaded"]), (0, [])):
        ended, out, err = here(*RUN, *on_saved)
        assert (ended, [line for line in err.splitlines() if line.startswith("on-saved")]) == (code, failures), err
        assert len(out.splitlines()) == 2
    assert saved(tmp_path) == ["a.mp4", "a.mp4.log", "b.mp4", "b.mp4.log"]


@pytest.mark.parametrize("command", ["", "   ", "'", "no-such-command-of-vidgen x"])
def test_a_command_that_cannot_be_run_is_refused_before_anything_is_sent(here, service, write, command):
    write("A boat")
    code, _, err = here(*RUN, "--on-saved", command)
    assert (code, service.creates) == (2, [])
    assert "'--on-saved'" in err


def test_a_terminal_of_80_columns_shows_a_live_view_and_then_the_sums(terminal, service, write):
    write("A boat", "The sea [fail]")
    handlers = []
    note = {" of 2 rows": lambda: handlers.append(signal.getsignal(signal.SIGTSTP))}
    with accept_signals(signal.SIGTSTP):
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        code, screen = terminal(*RUN, *TWO, width=80, when=note)
    assert signal.SIG_DFL not in handlers  # a suspended process restores the terminal
    lines = text_of(screen)
    assert code == 1
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("2 of 2 rows ━") for line in lines)
    assert any(line.startswith("budget: 40 points: ") for line in lines)
    assert "saved    1 of 2" in lines
    assert any(line.startswith("failed   1 of 2, such as b: ") for line in lines)


def view(progress: BatchProgress, *, running: int, now: float) -> list[str]:
    console = Console(file=io.StringIO(), width=40)
    console.print(progress.view(running, now))
    return console.file.getvalue().splitlines()


def test_the_live_view_counts_the_rows_and_estimates_the_time_left_by_the_rate_of_the_run():
    bar, *lines = view(make_progress("saved", "saved", "uncertain", "not_sent"), running=3, now=60.0)
    assert bar.startswith("4 of 8 rows ━")
    assert lines == ["2 saved · 3 running · 1 uncertain · 1 n…", "4 rows/min · about 1 min 00 s left"]


def test_the_time_left_is_that_of_the_submission_limit_and_of_earlier_tasks():
    progress = BatchProgress(1000, 0.0, task_seconds=300.0)
    assert view(progress, running=0, now=0.0)[-1] == ""
    assert view(progress, running=10, now=6.0)[-1] == "0 rows/min · about 14 min 54 s left"
    assert view(progress, running=990, now=600.0)[-1] == "0 rows/min · about 5 min 06 s left"
    assert view(progress, running=1000, now=756.0)[-1] == "0 rows/min · about 2 min 24 s left"
    assert view(progress, running=1000, now=900.0)[-1] == "1,000 running"  # nothing is known
    progress.record(BatchOutcome(order_id="a", line=1, state="saved", reason="new"))
    assert view(progress, running=999, now=1000.0)[-1] == "0.06 rows/min · about 277 h 30 min left"


@pytest.mark.slow
@pytest.mark.parametrize(("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_creates_and_the_command_and_the_same_command_continues(
    vidgen, here, service, write, tmp_path, which, code
):
    write("A boat", "The sea")
    service.set_speed(0.1)
    service.add_fault("videos.create", Fault.stall(0.05), times=2)  # half a second
    command = vidgen(*RUN, "--report", "report.jsonl")
    for _ in range(2):
        service.wait_for_task()
    command.interrupt(which)
    command.until("nothing more is ordered")
    ended, out, err = command.end()
    assert (ended, sorted(out.splitlines())) == (code, ["a running", "b running"])
    assert "Tasks that were ordered continue, and are charged.\nhint: the same command again continues" in err
    assert len((tmp_path / "report.jsonl").read_text().splitlines()) == 2
    service.set_speed(1000)
    assert here(*RUN)[0] == 0
    assert (len(service.creates), saved(tmp_path)) == (2, ["a.mp4", "b.mp4"])


def test_a_directory_that_another_batch_uses_is_exit_code_2(here, service, write, tmp_path):
    write("A boat")
    with lock_directory(tmp_path / "videos"):
        code, _, err = here(*RUN)
    assert (code, service.creates) == (2, [])
    assert "another batch is saving videos in 'videos'" in err


def test_the_command_of_the_readme_needs_no_key_and_its_sandbox_forgets_the_orders(here, monkeypatch, tmp_path):
    monkeypatch.delenv("VIDGEN_API_KEY")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    readme = (ROOT / "README.md").read_text("utf-8").replace("\\\n", "")  # lines that are continued
    [command] = re.findall(r"^.venv/bin/vidgen (batch .*)$", readme, re.MULTILINE)
    assert here(*command.split())[0] == 0
    assert saved(tmp_path) == ["boat-1.mp4", "boat-2.mp4", "boat-3.mp4"]
    assert here(*command.split())[0] == 2
