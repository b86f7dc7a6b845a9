"""The help of every command, completion, and the refusal of a key as an option."""

import io
import json
import subprocess

import click
import pytest

from vidgen_async.cli.app import app
from vidgen_async.cli.terminal.exit_codes import EXIT_CODES

from .conftest import ROOT, Stream, environment


def commands(group: click.Group = app, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {path: group}
    for name, command in group.commands.items():
        found |= commands(command, (*path, name)) if isinstance(command, click.Group) else {(*path, name): command}
    return found


COMMANDS = commands()


def test_these_are_the_commands():
    assert set(map(" ".join, COMMANDS)) == {
        "", "generate", "create", "get", "wait", "watch", "download", "models", "account", "upload", "sandbox",
        "completion", "orders", "orders ls", "orders show", "orders resume", "orders resend", "orders adopt",
        "orders abandon", "orders withdraw", "orders export", "cassette", "cassette check",
        "cassette recover", "journal", "journal schema",
    }  # fmt: skip


@pytest.fixture
def helps(here) -> dict[tuple[str, ...], str]:
    """The help of every command."""
    shown = {path: here(*path, "--help") for path in COMMANDS}
    assert [path for path, (code, _, err) in shown.items() if (code, err) != (0, "")] == []
    return {path: out for path, (_, out, _) in shown.items()}


def test_every_help_has_an_example(helps):
    def has_example(path: tuple[str, ...], out: str) -> bool:
        return any("vidgen " in line for line in out.splitlines() if line.startswith("    ") or "sandbox" in path)

    assert [path for path, out in helps.items() if not has_example(path, out)] == []


def test_the_exit_codes_are_listed_once_and_those_of_cassettes_apart(helps):
    line = "  5    uncertain: the order may have arrived and be charged; check first\n"
    assert {path for path, out in helps.items() if line in out} == {()}
    assert {path for path, out in helps.items() if "Exit codes:" in out} == {(), ("cassette",)}


def test_the_documentation_lists_the_same_exit_codes():
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text("utf-8")
    assert [code for code, meaning in EXIT_CODES if f"| {code} | {meaning} |\n" not in page] == []


@pytest.mark.parametrize("width", [60, 80])
def test_no_help_is_wider_than_a_terminal_and_nothing_is_cut_short(monkeypatch, request, width):
    monkeypatch.setenv("COLUMNS", str(width))
    helps = request.getfixturevalue("helps")
    lines = [(path, line) for path, out in helps.items() for line in out.splitlines() if "Usage:" not in line]
    assert [found for found in lines if len(found[1]) > width or found[1].endswith("...")] == []


def test_every_option_and_command_is_described():
    assert [path for path, command in COMMANDS.items() if not command.help] == []
    options = [
        (path, parameter)
        for path, command in COMMANDS.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
    ]
    assert [(path, option.name) for path, option in options if not option.help] == []


def test_no_option_takes_a_secret():
    names = [
        (path, name)
        for path, command in COMMANDS.items()
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
    secret = ("key", "token", "secret", "password", "bearer")
    assert [(path, name) for path, name in names if any(word in name for word in secret)] == []


def test_every_command_that_connects_to_the_service_has_the_same_options():
    for path, command in COMMANDS.items():
        options = {option for parameter in command.params for option in parameter.opts}
        if path and path[0] not in ("cassette", "journal") and path[-1] not in ("orders", "sandbox", "completion"):
            assert {"--base-url", "--json", "--debug"} <= options, path
        assert "--account" in options or "--journal" not in options, path


def test_a_key_given_as_an_option_is_refused_without_showing_it(here, service):
    for argument in ("--api-key=not-for-others", "--key=not-for-others"):
        code, out, err = here("account", argument)
        assert (code, out) == (2, "")
        assert "the key cannot be passed as an option" in err
        assert "VIDGEN_API_KEY" in err
        assert "not-for-others" not in err
    assert service.count_requests("account.get") == 0


def test_every_shell_has_a_completion_script(here):
    for shell in ("bash", "zsh", "fish"):
        code, out, err = here("completion", shell)
        assert (code, err) == (0, "")
        assert "_VIDGEN_COMPLETE" in out
        assert "vidgen" in out


@pytest.fixture
def completed(run_here, in_service, monkeypatch):
    """Returns the completions of bash at the end of these words."""

    def complete(words: str, **env: str) -> list[str]:
        stdout, stderr = Stream({}), Stream({})
        count = str(len(words.split(" ")) - 1)
        with monkeypatch.context() as patch:
            variables = {"_VIDGEN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
            for name, value in {**variables, **env}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run_here(stdin=io.StringIO(), stdout=stdout, stderr=stderr)
        assert (ended.value.code, stderr.text) == (0, "")
        return [line.partition(",")[2] for line in stdout.text.splitlines() if line]

    return complete


def test_completion_offers_commands_and_options(completed):
    assert completed("vidgen orders a") == ["adopt", "abandon"]
    assert "--resume" in completed("vidgen generate --re")
    assert set(completed("vidgen create --ratio 1")) == {"1:1", "16:9"}


def test_completion_offers_the_stored_orders_newest_first(completed, here, data_home):
    assert completed("vidgen orders show ") == []
    assert list(data_home.iterdir()) == []
    for order_id in ("order-1", "other", "order-2"):
        here("create", "x", "--model", "gen-2.0", "--order-id", order_id)
    assert completed("vidgen orders show ord") == ["order-2", "order-1"]
    assert completed("vidgen generate --resume ot") == ["other"]
    assert completed("vidgen orders show ord", VIDGEN_JOURNAL="nonsense") == []


def test_the_bash_script_is_valid(here, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(here("completion", "bash")[1])
    ran = subprocess.run(["bash", "-n", script], env=environment(None), check=False, capture_output=True)  # noqa: S603, S607 - bash is the one of the system
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_wrong_usage_with_json_is_an_object(here):
    for arguments, words in {
        ("account", "--json", "--nope"): "No such option",
        ("get", "--json"): "Missing argument",
        ("--json",): "No such option",
    }.items():
        code, out, err = here(*arguments)
        assert (code, out) == (2, "")
        error = json.loads(err)["error"]
        assert (error["kind"], error["exit_code"]) == ("usage", 2)
        assert words in error["message"]
