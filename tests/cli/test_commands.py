"""The commands against the sandbox, in this process: output, saved files and exit codes."""

import os
import re

import av
import pytest

import vidgen_async
import vidgen_async.cli.service_connection
from vidgen_async.cli import main
from vidgen_async.sandbox import media
from vidgen_async.sandbox.media import render

from .conftest import PICTURE

BOAT = ("generate", "A paper boat", "--model", "gen-2.0", "--duration", "5", "--poll-interval", "0.05")


@pytest.mark.slow
def test_a_prompt_and_an_image_become_a_video_in_the_sandbox(monkeypatch, tmp_path, works):
    monkeypatch.setattr(media, "find_renderer", lambda: render)
    monkeypatch.setattr(vidgen_async.cli.service_connection, "SANDBOX_TIMES", (0.0, 0.1))
    monkeypatch.delenv("VIDGEN_API_KEY")
    monkeypatch.delenv("VIDGEN_BASE_URL")
    out, err = works("generate", "A paper boat", "--image", PICTURE, "--sandbox", "-o", "boat.mp4")
    with av.open(str(tmp_path / "boat.mp4")) as film:
        assert film.duration / av.time_base == pytest.approx(5, abs=0.2)
        assert film.streams.video[0].codec_context.height == 768
    assert out.startswith("saved boat.mp4 (")
    assert out.endswith("15 sandbox points, nothing is charged)\n")
    assert "no key is used and nothing is charged" in err.splitlines()[0]
    assert "model: vendorh3" in err


def test_a_video_is_created_once_and_its_cost_is_shown(service, tmp_path, works):
    out, err = works(*BOAT, "--order-id", "order-1187", "-o", "boat.mp4")
    assert "order: order-1187" in err
    assert out.startswith("saved boat.mp4 (")
    assert "20 points" in out
    assert (tmp_path / "boat.mp4").stat().st_size > 10_000
    assert len(service.creates) == 1


def test_a_task_can_be_shown_awaited_and_saved_later(here, service, tmp_path, fails, works):
    err = works(*BOAT, "-o", "boat.mp4")[1]
    task_id = service.creates[0].task_id

    out = works("get", task_id)[0]
    assert f"task:    {task_id}\nstate:   completed\nmodel:   gen-2.0\npoints:  20\n" in out
    assert f"video:   {service.base_url}/videos/{task_id}/content\n" in out

    assert here("wait", task_id)[:2] == (0, f"{task_id}: completed, 20 points\n")

    (tmp_path / "link.mp4").symlink_to(tmp_path / "nowhere.mp4")
    for name in ("boat.mp4", "link.mp4"):
        err = fails(2, "wait", task_id, "-o", name)
        assert f"the file {name} already exists; --force replaces it" in err

    out = works("wait", task_id, "-o", "boat.mp4", "--force")[0]
    assert out.startswith("saved boat.mp4")
    assert len(service.creates) == 1


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "is blank"),
        ("'not-the-right-key'", "has quotes around it"),
        ("YOUR_API_KEY", "is a placeholder"),
        ("not-the-right-...", "is shortened"),
        ("not-the\nright-key", "has control characters"),
    ],
)
def test_a_value_that_is_no_key_is_one_paragraph_and_exit_code_2(service, key, problem, monkeypatch, fails):
    monkeypatch.setenv("VIDGEN_API_KEY", key)
    for command in (("models",), ("account",), ("get", "x"), ("watch", "--journal"), BOAT):
        err = fails(2, *command, *(("-o", "boat.mp4") if command == BOAT else ()))
        (line,) = err.splitlines()
        assert line.startswith(f"error: VIDGEN_API_KEY {problem}")
        assert "right-key" not in err
    assert service.creates == []


def test_a_missing_setting_is_named(here, monkeypatch, fails):
    monkeypatch.delenv("VIDGEN_BASE_URL")
    assert "set VIDGEN_BASE_URL or use --base-url" in here("generate", "x", "-o", "a.mp4")[2]
    monkeypatch.delenv("VIDGEN_API_KEY")
    err = fails(2, "generate", "x", "-o", "a.mp4")
    assert "set the variable VIDGEN_API_KEY, or try generate with --sandbox, which needs none" in err


def test_no_text_in_another_encoding_than_that_of_the_locale_is_sent_or_stored(
    here, service, data_home, monkeypatch, fails
):
    monkeypatch.setenv("LC_ALL", "C")
    text = os.fsdecode("Лодка".encode("cp1251"))  # as Python reads arguments
    boat = ("create", "x", "--model", "gen-2.0")
    for arguments in (
        ("create", text, "--model", "gen-2.0"),
        *((*boat, option, text) for option in ("--model", "--mode", "--order-id", "--account", "--image-id")),
        (*boat, "--field", f'style="{text}"'),
        (*boat, "--image", f"http://h.test/{text}.png"),
        ("upload", f"http://h.test/{text}.png"),
        ("models", text),
        ("get", text),
        ("wait", "task_1", text),
        ("download", text, "-o", "a.mp4"),
        ("orders", "show", text),
        ("orders", "adopt", "order-1", text),
        ("orders", "abandon", "order-1", "--reason", text),
        ("orders", "abandon", "order-1", "--reason", "x", "--by", text),
    ):
        err = fails(2, *arguments)
        assert "which the locale (LC_ALL=C) requires" in err, arguments
    code, _, err = here("watch", "-", stdin=text)
    assert (code, "which the locale (LC_ALL=C) requires" in err) == (2, True)
    assert service.creates == []
    assert list(data_home.iterdir()) == []


def test_a_path_in_any_encoding_is_used(tmp_path, works):
    name = os.fsdecode(b"\xcb\xee\xe4")
    (tmp_path / f"{name}.txt").write_text("A paper boat")
    works(*BOAT[:1], "--prompt-file", f"{name}.txt", *BOAT[2:], "-o", f"{name}.mp4")
    assert (tmp_path / f"{name}.mp4").stat().st_size > 10_000


def test_the_debug_option_shows_the_traceback(fails):
    err = fails(1, "get", "no-such-task", "--debug")
    assert "Traceback (most recent call last)" in err
    assert "error: videos.get: 404" in err


def test_the_debug_option_shows_each_request_and_no_records_of_other_libraries(here, monkeypatch):
    monkeypatch.setenv("VIDGEN_LOG", "info")  # for programs
    code, _, err = here("account", "--debug")
    assert code == 0
    assert re.search(r"vidgen_async\.service\.request_records: GET \S*/account: 200 after ", err)
    assert "asyncio" not in err
    assert here("account")[2] == ""


def test_the_version_is_that_of_the_package(here):
    assert here("--version")[:2] == (0, f"vidgen {vidgen_async.__version__}\n")


def test_the_entry_point_exits_with_the_exit_code(here, monkeypatch):
    monkeypatch.setattr("vidgen_async.cli.app.run_app", lambda: 5)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5
