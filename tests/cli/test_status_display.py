"""The screens for terminals, logs and programs."""

import io
import json

from rich.console import Console

from vidgen_async.cli.terminal.exit_reports import Report
from vidgen_async.cli.terminal.formatting import seconds
from vidgen_async.cli.terminal.status_display import JsonScreen, RichScreen, Screen


def on_a_terminal(width: int = 60) -> tuple[RichScreen, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, markup=False, highlight=False, emoji=False)
    return RichScreen(console=console), file


def use(screen) -> None:
    screen.print_fact("order", "order-1187")
    screen.start_step("uploading [red]hero.png")
    screen.show_state("queued")
    screen.show_state("running")
    screen.start_step("downloading")
    screen.show_received(500, 2_500_000)
    screen.show_received(2_500_000, 2_500_000)
    screen.warn("careful")
    screen.show("saved hero.mp4")
    screen.show_error(
        Report("it failed", {"vidgen wait task_1 -o 'a very long name that is longer than the screen.mp4'": ""}), 1
    )
    screen.close()


def test_without_a_terminal_each_event_is_one_plain_line(capsys):
    use(Screen())
    out, err = capsys.readouterr()
    assert out == "saved hero.mp4\n"
    assert err.splitlines() == [
        "order: order-1187",
        "uploading [red]hero.png",
        "queued (0.0 s)",
        "running (0.0 s)",
        "downloading",
        "size: 2.5 MB",
        "warning: careful",
        "error: it failed",
        "  vidgen wait task_1 -o 'a very long name that is longer than the screen.mp4'",
    ]


def test_a_terminal_shows_progress_and_facts_stay(capsys):
    screen, file = on_a_terminal()
    use(screen)
    shown = file.getvalue()
    for text in ("order-1187", "uploading [red]hero.png", "queued", "running", "2.5/2.5 MB", "careful", "it failed"):
        assert text in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is restored"
    assert capsys.readouterr().out == "saved hero.mp4\n"


def test_the_command_to_resume_is_never_wrapped():
    screen, file = on_a_terminal(width=30)
    use(screen)
    assert "a very long name that is longer than the screen.mp4'" in file.getvalue()


def test_a_live_view_is_drawn_only_when_it_changes_and_again_after_the_terminal_was_used_by_others():
    screen, file = on_a_terminal()
    shown = {"state": "queued", "left": 29.96}
    live = screen.live(lambda *_: f"{shown['state']}, {seconds(shown['left'])} left")
    drawn = []

    def refresh(**changes) -> None:
        file.seek(file.truncate(0))
        shown.update(changes)
        live.refresh()
        drawn.append(file.getvalue().replace("\x1b[2K", "").strip())

    with live:
        for changes in ({}, {}, {"left": 29.97}, {"left": 29.5}, {"state": "running"}):
            refresh(**changes)
        live.stop()
        live.start()
        refresh()
        refresh()
    assert drawn == [
        "queued, 30.0 s left", "", "", "queued, 29.5 s left", "running, 29.5 s left", "running, 29.5 s left", "",
    ]  # fmt: skip


def test_no_color_is_honoured(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    screen, file = on_a_terminal()
    screen.show_error(Report("it failed"), 1)
    assert "\x1b[31m" not in file.getvalue()
    assert "it failed" in file.getvalue()


def test_durations_are_formatted_for_people():
    assert [seconds(count) for count in (1.234, 75, 3725)] == ["1.2 s", "1 min 15 s", "1 h 02 min"]


def test_with_json_every_line_is_an_object(capsys):
    use(JsonScreen())
    out, err = capsys.readouterr()
    assert out == ""
    assert [json.loads(line) for line in err.splitlines()] == [
        {"order": "order-1187"},
        {"state": "queued"},
        {"state": "running"},
        {"warning": "careful"},
        {
            "error": {
                "kind": "error",
                "message": "it failed",
                "exit_code": 1,
                "commands": ["vidgen wait task_1 -o 'a very long name that is longer than the screen.mp4'"],
            }
        },
    ]


def test_documents_are_one_ascii_line_each(capsys):
    JsonScreen().show("models", {"name": "früh"}, {"n": 2})
    out = capsys.readouterr().out
    assert out.isascii()
    assert [json.loads(line) for line in out.splitlines()] == [{"name": "früh"}, {"n": 2}]
