"""The help of every command, completion, and the refusal of a key as an option."""

import io
import json
import shlex
import subprocess

import click
import pytest

from vidgen_async.cli.app import app

from .conftest import VIDGEN, Stream, environment


def commands(group: click.Group = app, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {path: group}
    for name, command in group.commands.items():
        found |= commands(command, (*path, name)) if isinstance(command, click.Group) else {(*path, name): command}
    return found


COMMANDS = commands()


def test_these_are_the_commands():
    assert set(map(" ".join, COMMANDS)) == {
        "", "generate", "batch", "create", "get", "wait", "watch", "download", "models", "account", "spend", "upload",
        "sandbox", "completion", "orders", "orders ls", "orders show", "orders resume", "orders resend", "orders adopt",
        "orders abandon", "orders withdraw", "orders export", "cassette", "cassette check",
        "cassette recover", "mcp", "journal", "journal schema",
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


@pytest.mark.parametrize(
    ("words", "same_as"),
    [
        ((), ("--help",)),
        (("help",), ("--help",)),
        (("help", "help"), ("--help",)),
        (("help", "orders", "ls"), ("orders", "ls", "--help")),
        (("help", "create"), ("create", "--help")),
        (("version",), ("--version",)),
        (("-V",), ("--version",)),
        *(((path, *more), (path, "--help")) for path in ("orders", "cassette", "journal") for more in ((), ("help",))),
        (("orders", "help", "show"), ("orders", "show", "--help")),
    ],
)
def test_help_and_the_version_are_printed_as_text_however_they_are_asked_for(here, words, same_as):
    code, out, err = here(*same_as)
    assert (code, err) == (0, "")
    assert here(*words) == (code, out, err)
    assert len(out.splitlines()) > 10 or out.startswith("vidgen ")


def test_the_help_of_an_unknown_command_is_wrong_usage(fails):
    for words in (("help", "fly"), ("help", "orders", "fly")):
        err = fails(2, *words)
        assert "no such command 'fly'" in err


@pytest.mark.parametrize(
    ("arguments", "proposal"),
    [
        (("create", "x", "--order", "o-1"), "--order-id"),
        (("account", "--dry-run"), "no such option"),
        (("--debug", "account"), "options follow the command: vidgen COMMAND --debug"),
        (("orders", "--state", "uncertain", "ls"), "options follow the command: vidgen orders COMMAND --state"),
    ],
)
def test_an_unknown_option_is_refused_with_a_similar_one_or_its_place(service, arguments, proposal, fails):
    err = fails(2, *arguments)
    assert proposal in err
    assert service.creates == []


def test_the_help_names_the_commands_without_json(helps):
    without = {
        " ".join(path)
        for path, command in COMMANDS.items()
        if not isinstance(command, click.Group) and not any("--json" in one.opts for one in command.params)
    }
    assert without == {"completion", "journal schema"}
    assert "Every command accepts --json, except those that print a script (completion, journal schema)" in " ".join(
        helps[()].split()
    )


def test_the_exit_codes_are_listed_once_and_those_of_cassettes_apart(helps):
    line = "  5    uncertain: the order may have arrived and be charged; check first\n"
    assert {path for path, out in helps.items() if line in out} == {()}
    assert {path for path, out in helps.items() if "Exit codes:" in out} == {(), ("cassette",)}


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


def test_a_key_given_as_an_option_is_refused_without_showing_it(service, fails):
    given = "--api-key=not-for-others", "--key=not-for-others", "--apikey=not-for-others"
    for arguments in (*(("account", one) for one in given), (given[0], "account")):
        err = fails(2, *arguments)
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
        stdin, stdout, stderr = io.StringIO("typed later"), Stream({}), Stream({})
        count = str(len(words.split(" ")) - 1)
        with monkeypatch.context() as patch:
            variables = {"_VIDGEN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
            for name, value in {**variables, **env}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run_here(stdin=stdin, stdout=stdout, stderr=stderr)
        assert (ended.value.code, stderr.text, stdin.tell()) == (0, "", 0)
        return [line.partition(",")[2] for line in stdout.text.splitlines() if line]

    return complete


def test_completion_offers_commands_and_options(completed):
    assert completed("vidgen orders a") == ["adopt", "abandon"]
    assert "--resume" in completed("vidgen generate --re")
    assert completed("vidgen watch - --sh") == ["--shard"]
    assert set(completed("vidgen create --ratio 1")) == {"1:1", "16:9"}


def test_completion_offers_the_stored_orders_newest_first(completed, here, data_home):
    assert completed("vidgen orders show ") == []
    assert list(data_home.iterdir()) == []
    for order_id in ("order-1", "other", "order-2"):
        here("create", "x", "--model", "gen-2.0", "--order-id", order_id)
    assert completed("vidgen orders show ord") == ["order-2", "order-1"]
    assert completed("vidgen generate --resume ot") == ["other"]
    assert completed("vidgen orders show ord", VIDGEN_JOURNAL="nonsense") == []


#: An order id may come from a user of the application. These would run a command, be expanded, or be cut.
HOSTILE_IDS = (
    "o-$(touch${IFS}made)", "o`touch made`", "o;touch made;", "o&touch made", "o>made", "o it's \"x\"", "o\\n", "o-*",
    "o{a,b}", "o,comma,", "o~", "o!x", "o#x", "лодка 1",
)  # fmt: skip
PLAIN_IDS = ("o:colon", "o-1.a_b/c", "лодка")

#: Completes the words.
PRESS_TAB = """
source completion.bash
COMP_WORDS=(vidgen orders show "") COMP_CWORD=3
_vidgen_completion ./vidgen
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.slow
def test_completion_offers_no_order_id_that_a_shell_would_change_or_run(here, service, data_home, tmp_path):
    for order_id in (*HOSTILE_IDS, *PLAIN_IDS, "--yes", "~root", "=ls"):
        assert here("create", "x", "--model", "gen-2.0", "--no-validate", f"--order-id={order_id}")[0] == 0
    (tmp_path / "vidgen").write_text(f'#!/bin/sh\nexec {shlex.join(VIDGEN)} "$@"\n')
    (tmp_path / "vidgen").chmod(0o700)
    (tmp_path / "completion.bash").write_text(here("completion", "bash")[1])
    (tmp_path / "o-file").touch()
    env = environment(service, XDG_DATA_HOME=str(data_home), LC_ALL="C.UTF-8")
    ran = subprocess.run(  # noqa: S603 - it completes our own command
        ["bash", "-c", PRESS_TAB],  # noqa: S607 - bash is the one of the system
        env=env, cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stderr == ""
    assert sorted(ran.stdout.splitlines()) == sorted(PLAIN_IDS)
    assert not (tmp_path / "made").exists()


def test_the_fish_script_does_not_cut_a_word_at_a_comma(here):
    assert '(string split --max 1 "," $completion)' in here("completion", "fish")[1]


def test_wrong_usage_with_json_is_an_object(fails):
    for arguments, words in {
        ("account", "--json", "--nope"): "No such option",
        ("get", "--json"): "Missing argument",
        ("--json",): "No such option",
    }.items():
        err = fails(2, *arguments)
        error = json.loads(err)["error"]
        assert (error["kind"], error["exit_code"]) == ("usage", 2)
        assert words in error["message"]
