"""``vidgen get``, ``wait``, ``watch`` and ``download``: existing tasks."""

import json
import re
import shlex
import zlib
from functools import partial

import pytest

from tests.media.mp4_files import FTYP, fragment, fragment_movie
from tests.signals import interrupt
from vidgen_async.sandbox import Fault
from vidgen_async.types import VideoTask

from .conftest import text_of

pytestmark = pytest.mark.slow

FAST = ("--poll-interval", "0.05")


@pytest.fixture
def order(service, works):
    """Orders a video and returns its task id."""

    def create(prompt: str = "A paper boat", *arguments: str) -> str:
        out = works("create", prompt, "--model", "gen-2.0", "--no-validate", *arguments)[0]
        return out.strip()

    return create


def test_a_task_as_json_is_one_document_with_its_url(here, service, order):
    task_id = order()
    here("wait", task_id, *FAST)
    code, out, err = here("get", task_id, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["task_id"], document["status"], document["points"]) == (task_id, "completed", 20)
    assert document["video_url"] == f"{service.base_url}/videos/{task_id}/content"
    assert document.keys() == {"task_id", "advice"} | VideoTask(id=task_id).to_dict().keys()


def test_a_wait_as_json_has_the_path_of_the_video(order, tmp_path, works):
    task_id = order()
    out, err = works("wait", task_id, "-o", "boat.mp4", "--json", *FAST)
    document = json.loads(out)
    assert (document["task_id"], document["status"], document["path"]) == (task_id, "completed", "boat.mp4")
    assert document["bytes"] == (tmp_path / "boat.mp4").stat().st_size
    assert all(json.loads(line) for line in err.splitlines())


def test_several_tasks_are_saved_into_a_directory_and_failures_are_reported(here, order, tmp_path):
    good, bad = order(), order("x [fail: too dark]")
    (tmp_path / "films").mkdir()
    code, out, err = here("wait", good, bad, good, "-o", "films", *FAST)
    assert code == 1
    assert [file.name for file in (tmp_path / "films").iterdir()] == [f"{good}.mp4"]
    assert f"saved films/{good}.mp4" in out
    assert f"{bad}: too dark; check the refund" in out
    assert "1 of 2 tasks did not complete" in err


def test_several_tasks_as_json_are_one_per_line(here, order):
    good, bad = order(), order("x [fail: too dark]")
    code, out, _ = here("wait", good, bad, "--json", *FAST)
    documents = {document["task_id"]: document for document in map(json.loads, out.splitlines())}
    assert code == 1
    assert documents[good]["status"] == "completed"
    assert documents[bad]["error"]["kind"] == "task_failed"


def test_several_tasks_that_fail_alike_have_their_common_exit_code(here, service, order):
    service.set_speed(0)
    first, second = order(), order()
    code, _, err = here("wait", first, second, "--timeout", "0.2", *FAST)
    assert code == 6
    assert "2 of 2 tasks did not complete" in err


def test_a_missing_directory_for_several_tasks_is_exit_code_2_before_the_wait(service, order, fails):
    first, second = order(), order()
    err = fails(2, "wait", first, second, "-o", "missing", *FAST)
    assert "missing" in err
    assert service.count_requests("videos.get") == 0


def test_a_directory_with_a_slash_is_created_and_gets_the_videos(here, order, tmp_path):
    first, second = order(), order()
    assert here("wait", first, second, "-o", "out/", *FAST)[0] == 0
    for number, command in enumerate((("wait", *FAST), ("download",))):
        code, out, err = here(command[0], first, *command[1:], "-o", f"films-{number}/")
        assert (code, out.startswith(f"saved films-{number}/{first}.mp4 (")) == (0, True), err
    assert here("download", second, "-o", "films-0")[0] == 0  # it exists
    saved = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.mp4"))
    names = sorted((first, second))
    assert saved == sorted(
        [*(f"{folder}/{name}.mp4" for folder in ("films-0", "out") for name in names), f"films-1/{first}.mp4"]
    )


def test_a_directory_that_cannot_be_created_is_exit_code_2_before_anything_is_requested(
    service, order, tmp_path, fails
):
    first, second = order(), order()
    (tmp_path / "file").touch()
    for output, why in {"missing/out/": "No such file or directory", "file/": "File exists"}.items():
        for tasks in ((first,), (first, second)):
            err = fails(2, "wait", *tasks, "-o", output, *FAST)
            assert f"cannot create the directory {output}: {why}" in err
    assert service.count_requests("videos.get") == 0


def test_an_interrupted_wait_for_several_tasks_shows_how_to_resume_those_that_remain(here, service, order, fails):
    first = order()
    here("wait", first, *FAST)
    service.set_speed(0)
    second = order()
    arguments = ("wait", first, second, "-o", "out/", *FAST)
    code, _, err = here(*arguments, when={f"saved out/{first}.mp4": interrupt})
    assert code == 130
    assert "1 of 2 tasks may still be running" in err
    assert err.endswith(f"hint: to resume the wait:\n  vidgen wait {second} -o out/ --poll-interval 0.05\n")


def test_a_watch_prints_a_line_for_each_change_until_all_are_finished(here, service, order):
    good, bad = order(), order("x [fail: too dark]")
    code, out, err = here("watch", good, bad, *FAST)
    assert code == 1
    assert re.search(rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ {good} completed 20 points$", out, re.MULTILINE)
    assert re.search(rf" {bad} failed too dark; check the refund in the credit ledger$", out, re.MULTILINE)
    assert "1 of 2 tasks did not complete" in err
    assert len(service.creates) == 2


def test_a_watch_as_json_prints_the_document_of_the_task_for_each_change(here, service, order):
    task_id = order()
    code, out, err = here("watch", task_id, "--json", *FAST)
    assert (code, err) == (0, "")
    last = json.loads(out.splitlines()[-1])
    assert (last["task_id"], last["status"], last["points"]) == (task_id, "completed", 20)
    assert "seen_at" in last
    assert last["video_url"] == f"{service.base_url}/videos/{task_id}/content"


def test_a_watch_reads_ids_from_stdin(order, works):
    first, second = order(), order()
    out = works("watch", "-", *FAST, stdin=f"{first}\n{second}\n")[0]
    assert {line.split()[1] for line in out.splitlines()} == {first, second}


def test_a_watch_of_the_journal_names_the_orders(here, service, order, works):
    task_id = order("A boat", "--order-id", "order-1187")
    service.add_fault("videos.create", Fault.status(402))
    here("create", "x", "--model", "gen-2.0", "--order-id", "refused")
    out = works("watch", "--journal", *FAST)[0]
    assert out.splitlines()[-1].endswith(f"{task_id} completed 20 points (order order-1187)")
    assert "refused" not in out
    again = here("watch", "--journal", *FAST)[1]  # a watch records nothing; only the time differs
    assert again.splitlines()[-1].split(" ", 1)[1] == out.splitlines()[-1].split(" ", 1)[1]
    assert here("wait", task_id)[0] == 0


def test_a_watch_of_a_share_of_the_journal_has_only_its_tasks(here, order):
    task_id = order()
    share = zlib.crc32(task_id.encode()) % 3
    code, out, _ = here("watch", "--journal", "--shard", f"{share}/3", *FAST)
    assert (code, task_id in out) == (0, True)
    assert "the journal has no unfinished tasks" in here("watch", "--journal", "--shard", f"{(share + 1) % 3}/3")[2]


def test_a_watch_of_nothing_ends_at_once(here):
    for argument, words in (("--journal", "the journal has no unfinished tasks"), ("-", "stdin has no task ids")):
        code, out, err = here("watch", argument)
        assert (code, out, words in err) == (0, "", True), argument


def test_a_watch_reads_the_given_journal(here, order, tmp_path, works):
    task_id = order("A boat", "--journal", "sqlite:///other.db")
    out = works("watch", "--journal", "sqlite:///other.db", *FAST)[0]
    assert f"{task_id} completed" in out
    assert "the journal has no unfinished tasks" in here("watch", "--journal", *FAST)[2]


def test_on_a_terminal_a_watch_is_a_live_view_and_a_summary(terminal, service, order):
    for width in (80, 120):
        service.set_speed(0)
        good, bad = order(), order("x [fail: too dark]")
        code, shown = terminal("watch", good, bad, *FAST, width=width, when={"2 queued": partial(service.set_speed, 9)})
        assert code == 1
        view, _, after = shown.rpartition("\x1b[?25h")
        assert all(task_id in view for task_id in (good, bad))
        lines = text_of(after)
        assert max(map(len, lines)) <= width
        assert any(line.startswith(f"{bad}  failed  too dark; check the refund") for line in lines)
        assert any(line.startswith("2 tasks: 1 completed, 1 failed; watched for ") for line in lines)
        assert "error: 1 of 2 tasks did not complete." in lines
        assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is restored"


def test_a_download_saves_the_video_of_a_completed_task(here, order, tmp_path, fails, works):
    task_id = order()
    here("wait", task_id, *FAST)
    out, err = works("download", task_id, "-o", "boat.mp4")
    assert out.startswith("saved boat.mp4")

    err = fails(2, "download", task_id, "-o", "boat.mp4")
    assert "--force replaces it" in err
    assert here("download", task_id, "-o", "boat.mp4", "--force", "--json")[0] == 0


LEDGER = "check the refund in the credit ledger"


def test_every_view_of_a_failed_task_points_to_the_credit_ledger(here, terminal, order):
    task_id = order("x [fail: too dark]", "--order-id", "order-1187")
    for command in (
        ("get", task_id),
        ("wait", task_id, *FAST),
        ("wait", task_id, order(), *FAST),
        ("watch", task_id, *FAST),
        ("download", task_id, "-o", "boat.mp4"),
        ("generate", "--resume", "order-1187", "-o", "boat.mp4", *FAST),
        ("orders", "show", "order-1187"),
    ):
        for flags in ((), ("--json",)):
            code, out, err = here(*command, *flags)
            assert code == (0 if command[0] in ("get", "orders") else 1)
            assert f"too dark; {LEDGER}" in out + err or f'"advice": "{LEDGER}"' in out, (command, flags)
        assert LEDGER in " ".join(" ".join(text_of(terminal(*command)[1])).split()), command


def test_a_failed_task_without_a_reason_points_to_the_ledger_and_other_tasks_do_not(here, service, order):
    task_id = order()
    here("wait", task_id, *FAST)
    assert LEDGER not in here("get", task_id)[1]
    assert json.loads(here("get", task_id, "--json")[1])["advice"] is None
    service.add_fault("videos.get", Fault.rewrite(body=json.dumps({"id": task_id, "status": "failed"}).encode()))
    assert f"failure: no failure reason was given; {LEDGER}" in here("get", task_id)[1]


def test_a_video_that_cannot_be_verified_is_saved_by_the_proposed_command(here, service, order, tmp_path, fails):
    film = FTYP + fragment_movie() + fragment(b"a sample")  # without an index of its fragments
    head = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nConnection: close\r\n\r\n"
    service.add_fault("videos.content", Fault.not_http(head + film), times=None)
    task_id, other = order("x", "--order-id", "order-1187"), order()
    (tmp_path / "films").mkdir()
    for command, file in (
        (("wait", task_id, "-o", "a b.mp4", *FAST), "a b.mp4"),
        (("download", task_id, "-o", "c.mp4"), "c.mp4"),
        (("generate", "--resume", "order-1187", "-o", "d.mp4", *FAST), "d.mp4"),
    ):
        err = fails(7, *command)
        assert "hint: to save it anyway:" in err
        assert "accept_unverified" not in err
        proposed = shlex.split(err.splitlines()[-1])
        assert proposed == ["vidgen", "download", task_id, "-o", file, "--accept-unverified"]
        assert here(*proposed[1:])[0] == 0
        assert (tmp_path / file).read_bytes() == film
    code, out, _ = here("wait", task_id, other, "-o", "films", *FAST, "--force")
    assert code == 7
    assert f"To save it anyway: vidgen download {other} -o films/{other}.mp4 --force --accept-unverified" in out


@pytest.mark.parametrize(
    "command",
    [("get",), ("wait", *FAST), ("wait", *FAST, "-o", "out/"), ("watch", *FAST), ("download", "-o", "out/")],
)
def test_an_order_id_of_the_journal_names_its_task(here, service, order, tmp_path, command):
    task_id, other = order("A boat", "--order-id", "order-1187"), order()
    here("wait", task_id, *FAST)
    code, out, err = here(*command, "order-1187")
    assert (code, task_id in out + err) == (0, True), err
    assert list(tmp_path.rglob("*.mp4")) == ([tmp_path / "out" / f"{task_id}.mp4"] if "-o" in command else [])
    if command[0] in ("wait", "watch"):
        more = [word.replace("out/", "more/") for word in command]
        code, out, err = here(*more, other, "order-1187", task_id)
        assert (code, task_id in out, other in out) == (0, True, True), err
        assert len(list(tmp_path.rglob("more/*.mp4"))) == (2 if "-o" in command else 0)


@pytest.mark.parametrize("options", [(), ("--journal", "sqlite:///orders.db")])
def test_an_interrupted_watch_of_an_order_id_shows_how_to_resume_it(here, service, order, options):
    service.set_speed(0)
    task_id = order("A boat", "--order-id", "order-1187", *options)
    code, _, err = here("watch", "order-1187", *options, *FAST, when={"queued": interrupt})
    proposed = shlex.split(err.splitlines()[-1])
    assert (code, proposed[:2]) == (130, ["vidgen", "watch"])
    assert (task_id in proposed) is (not options)
    service.set_speed(1000)
    assert task_id in here(*proposed[1:])[1]


def test_an_order_id_is_looked_up_for_its_account_and_in_the_named_journal(here, order, tmp_path):
    task_id = order("A boat", "--order-id", "mine", "--account", "shop", "--journal", "sqlite:///orders.db")
    named = ("--account", "shop", "--journal", "sqlite:///orders.db")
    assert here("get", "mine", *named)[1].startswith(f"task:    {task_id}\n")
    for options in ((), named[:2], named[2:]):
        code, _, err = here("get", "mine", *options)
        assert (code, "404" in err) == (1, True), err


def test_an_id_that_is_an_order_and_a_task_is_refused_with_both_named(here, service, order, fails):
    foreign = order()
    task_id = order("Another boat", "--order-id", foreign)
    for command in (("get",), ("wait", *FAST), ("wait", "task_1", *FAST), ("watch",), ("download", "-o", "a.mp4")):
        err = fails(2, *command, foreign)
        assert (
            f"'{foreign}' is an order in the journal, with the task '{task_id}', and also a task of the service" in err
        )
    assert here("get", task_id)[1].startswith(f"task:    {task_id}\n")
    assert here("get", foreign, "--journal", "memory:")[1].startswith(f"task:    {foreign}\n")


def test_an_order_that_adopted_the_task_with_its_own_id_is_not_ambiguous(here, service, order):
    task_id = order()
    service.add_fault("videos.create", Fault.close_after_body())
    create = ("create", "A paper boat", "--model", "gen-2.0", "--no-validate", "--order-id", task_id)
    assert here(*create, "--journal", "sqlite:///b")[0] == 5
    assert here("orders", "adopt", task_id, task_id, "--journal", "sqlite:///b")[0] == 0
    assert here("get", task_id, "--journal", "sqlite:///b")[0] == 0


def test_an_order_without_a_task_is_refused_with_what_to_do(here, service, fails):
    create = ("create", "x", "--model", "gen-2.0", "--no-validate", "--order-id")
    service.add_fault("videos.create", Fault.close_after_body())
    assert here(*create, "unclear")[0] == 5
    service.add_fault("videos.create", Fault.status(402))
    assert here(*create, "refused")[0] == 4
    for command in (
        ("get",),
        ("wait", *FAST, "-o", "a.mp4"),
        ("wait", "task_1", *FAST),
        ("watch",),
        ("download", "-o", "a.mp4"),
    ):
        err = fails(5, *command, "unclear")
        assert "it is unknown whether the service accepted order 'unclear'" in err
        assert "  vidgen orders adopt unclear TASK_ID\n" in err
        err = fails(2, *command, "refused")
        assert "order 'refused' cannot be used in place of its task: it is rejected" in err
        resume = "vidgen generate --resume refused -o a.mp4" if "-o" in command else "vidgen orders resume refused"
        assert f"hint: to send the order:\n  {resume}" in err
    assert len(service.creates) == 2


@pytest.mark.parametrize("kept", [0, 100], ids=["no database", "a damaged one"])
def test_a_task_is_read_without_a_journal_that_cannot_be_read(here, order, data_home, monkeypatch, kept):
    task_id = order()
    stored = data_home / "vidgen" / "orders.db"
    stored.write_bytes(stored.read_bytes()[:kept] + b"no journal" * 1000)
    for where in ("", "postgresql://h.test:1/x?port=nonsense", "sqlite:///missing/orders.db"):
        monkeypatch.setenv("VIDGEN_JOURNAL", where)
        code, out, err = here("get", task_id)
        assert (code, out.startswith(f"task:    {task_id}\n")) == (0, True), err
        assert ("warning: no order ids are looked up, only task ids: " in err) is ("missing" not in where)
    assert here("get", task_id, "--journal", "sqlite:///missing/orders.db")[0] == 2
