"""``vidgen get``, ``wait``, ``watch`` and ``download``: tasks that were ordered already."""

import json
import re
from functools import partial

import pytest

from tests.signals import interrupt
from vidgen_async.cli.commands.tasks import file_name
from vidgen_async.sandbox import Fault

from .conftest import text_of

FAST = ("--poll-interval", "0.05")


@pytest.fixture
def order(here, service):
    """Orders a video and gives its task id."""

    def create(prompt: str = "A paper boat", *arguments: str) -> str:
        code, out, err = here("create", prompt, "--model", "gen-2.0", "--no-validate", *arguments)
        assert code == 0, err
        return out.strip()

    return create


def test_a_task_as_json_is_one_document_with_its_address(here, service, order):
    task_id = order()
    here("wait", task_id, *FAST)
    code, out, err = here("get", task_id, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["task_id"], document["status"], document["points"]) == (task_id, "completed", 20)
    assert document["video_url"] == f"{service.base_url}/videos/{task_id}/content"


def test_a_task_that_is_not_there_is_code_1(here):
    for command in (("get", "nope"), ("wait", "nope", *FAST), ("download", "nope", "-o", "x.mp4")):
        code, out, err = here(*command)
        assert (code, out) == (1, ""), command
        assert "404" in err
        error = json.loads(here(*command, "--json")[2].splitlines()[-1])["error"]
        assert (error["kind"], error["exit_code"]) == ("not_found", 1)


def test_a_wait_as_json_tells_where_the_video_is(here, order, tmp_path):
    task_id = order()
    code, out, err = here("wait", task_id, "-o", "boat.mp4", "--json", *FAST)
    assert code == 0, err
    document = json.loads(out)
    assert (document["task_id"], document["status"], document["path"]) == (task_id, "completed", "boat.mp4")
    assert document["bytes"] == (tmp_path / "boat.mp4").stat().st_size
    assert all(json.loads(line) for line in err.splitlines())


def test_several_tasks_are_saved_into_a_folder_and_those_that_fail_are_told(here, order, tmp_path):
    good, bad = order(), order("x [fail: too dark]")
    (tmp_path / "films").mkdir()
    code, out, err = here("wait", good, bad, good, "-o", "films", *FAST)
    assert code == 1
    assert [file.name for file in (tmp_path / "films").iterdir()] == [f"{good}.mp4"]
    assert f"saved films/{good}.mp4" in out
    assert f"{bad}: too dark; check the refund" in out
    assert "1 of 2 tasks did not end well" in err


def test_several_tasks_as_json_are_a_line_each(here, order):
    good, bad = order(), order("x [fail: too dark]")
    code, out, _ = here("wait", good, bad, "--json", *FAST)
    documents = {document["task_id"]: document for document in map(json.loads, out.splitlines())}
    assert code == 1
    assert documents[good]["status"] == "completed"
    assert documents[bad]["error"]["kind"] == "task_failed"


def test_of_several_tasks_that_end_alike_the_code_is_theirs(here, service, order):
    service.set_speed(0)
    first, second = order(), order()
    code, _, err = here("wait", first, second, "--timeout", "0.2", *FAST)
    assert code == 6
    assert "2 of 2 tasks did not end well" in err


def test_several_tasks_into_a_folder_that_is_missing_are_code_2_before_the_wait(here, service, order):
    first, second = order(), order()
    code, out, err = here("wait", first, second, "-o", "missing", *FAST)
    assert (code, out) == (2, "")
    assert "missing" in err
    assert service.asked("videos.get") == 0


def test_an_id_cannot_lead_out_of_the_folder():
    names = {"task_1-a.b": "task_1-a.b", "../../x": "_.._x", "a/b": "a_b", "..": "_"}
    assert {task_id: file_name(task_id) for task_id in names} == names


def test_a_watch_shows_a_line_for_each_change_until_all_are_over(here, service, order):
    good, bad = order(), order("x [fail: too dark]")
    code, out, err = here("watch", good, bad, *FAST)
    assert code == 1
    assert re.search(rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ {good} completed 20 points$", out, re.MULTILINE)
    assert re.search(rf" {bad} failed too dark$", out, re.MULTILINE)
    assert "1 of 2 tasks did not complete" in err
    assert len(service.creates) == 2


def test_a_watch_as_json_is_a_line_for_each_change_without_addresses(here, order):
    task_id = order()
    code, out, err = here("watch", task_id, "--json", *FAST)
    assert (code, err) == (0, "")
    last = json.loads(out.splitlines()[-1])
    assert (last["task_id"], last["status"], last["points"]) == (task_id, "completed", 20)
    assert "seen_at" in last
    assert "video_url" not in last


def test_a_watch_reads_ids_from_stdin(here, order):
    first, second = order(), order()
    code, out, _ = here("watch", "-", *FAST, stdin=f"{first}\n{second}\n")
    assert code == 0
    assert {line.split()[1] for line in out.splitlines()} == {first, second}


def test_a_watch_of_the_orders_on_record_names_them(here, service, order):
    task_id = order("A boat", "--order-id", "order-1187")
    service.play("videos.create", Fault.status(402))
    here("create", "x", "--model", "gen-2.0", "--order-id", "refused")
    code, out, _ = here("watch", "--journal", *FAST)
    assert code == 0
    assert out.splitlines()[-1].endswith(f"{task_id} completed 20 points (order order-1187)")
    assert "refused" not in out
    again = here("watch", "--journal", *FAST)[1]  # to look takes nothing away; only the time of the look is another one
    assert again.splitlines()[-1].split(" ", 1)[1] == out.splitlines()[-1].split(" ", 1)[1]
    assert here("wait", task_id)[0] == 0


def test_a_watch_of_no_orders_is_over_at_once(here):
    code, out, err = here("watch", "--journal")
    assert (code, out) == (0, "")
    assert "no order on record is left whose task was not seen to end" in err


def test_a_watch_of_no_ids_says_so(here):
    code, out, err = here("watch", "-", stdin="")
    assert (code, out) == (0, "")
    assert "no ids were read from stdin" in err


def test_a_watch_refuses_what_is_no_task_before_it_shows_anything(here):
    code, out, err = here("watch", "task-1", "..")
    assert (code, out) == (2, "")
    assert "a task id must be text" in err
    assert "2 tasks" not in err


def test_a_watch_of_nothing_is_wrong_usage(here):
    code, _, err = here("watch")
    assert code == 2
    assert "--journal" in err


def test_a_watch_that_takes_too_long_is_code_6(here, service, order):
    service.set_speed(0)
    task_id = order()
    code, out, _ = here("watch", task_id, "--timeout", "0.2", *FAST)
    assert code == 6
    assert f"{task_id} queued" in out
    assert "wait timeout" in out


def test_a_watch_of_another_record_is_asked_for_by_where_it_is(here, order, tmp_path):
    task_id = order("A boat", "--journal", "sqlite:///other.db")
    code, out, err = here("watch", "--journal", "sqlite:///other.db", *FAST)
    assert code == 0, err
    assert f"{task_id} completed" in out
    assert "no order on record is left whose task was not seen to end" in here("watch", "--journal", *FAST)[2]


def test_an_id_in_the_place_of_a_record_is_wrong_usage_that_says_where_ids_go(here, service, order):
    task_id = order()
    code, out, err = here("watch", "--journal", task_id, *FAST)
    assert (code, out) == (2, "")
    assert "give the ids of tasks before it" in " ".join(err.split())
    assert here("watch", task_id, "--journal", *FAST)[0] == 0


@pytest.mark.slow
def test_on_a_terminal_a_watch_is_a_live_view_and_a_summary(terminal, service, order):
    for width in (80, 120):
        service.set_speed(0)
        good, bad = order(), order("x [fail: too dark]")
        code, shown = terminal("watch", good, bad, *FAST, width=width, when={"2 queued": partial(service.set_speed, 9)})
        assert code == 1
        before, view, after = re.split(r"\x1b\[\?1049[hl]", shown)
        assert before == ""
        assert all(task_id in view for task_id in (good, bad))
        lines = text_of(after)
        assert max(map(len, lines)) <= width
        assert f"{bad}  failed  too dark" in lines
        assert any(line.startswith("2 tasks: 1 completed, 1 failed; watched for ") for line in lines)
        assert "vidgen: 1 of 2 tasks did not complete." in lines
        assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is given back"


def test_an_interrupted_watch_says_what_goes_on_and_how_to_watch_it_again(here, service, order):
    service.set_speed(0)
    first, second = order(), order()
    code, _, err = here("watch", first, second, "--poll-interval", "0.05", when={f"{second} queued": interrupt})
    assert code == 130
    assert "The 2 tasks were not seen to end; an interruption does not stop them. To go on watching:" in err
    assert f"vidgen watch {first} {second} --poll-interval 0.05" in err


def test_a_download_saves_the_video_of_a_completed_task(here, order, tmp_path):
    task_id = order()
    here("wait", task_id, *FAST)
    code, out, err = here("download", task_id, "-o", "boat.mp4")
    assert code == 0, err
    assert out.startswith("saved boat.mp4")

    code, _, err = here("download", task_id, "-o", "boat.mp4")
    assert code == 2
    assert "--force replaces it" in err
    assert here("download", task_id, "-o", "boat.mp4", "--force", "--json")[0] == 0


def test_a_download_of_a_task_that_is_not_completed_is_code_1_and_says_how_to_wait(here, service, order, tmp_path):
    service.set_speed(0)
    task_id = order()
    code, out, err = here("download", task_id, "-o", "boat.mp4")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == f"  vidgen wait {task_id} -o boat.mp4"
    assert list(tmp_path.iterdir()) == []


def test_a_page_instead_of_a_video_is_code_7(here, service, order):
    task_id = order()
    here("wait", task_id, *FAST)
    service.play("videos.content", Fault.html(200), times=None)
    code, _, err = here("download", task_id, "-o", "boat.mp4", "--json")
    assert code == 7
    assert json.loads(err.splitlines()[-1])["error"]["kind"] == "not_video"
