"""What a newcomer learns from: every command's help; and the ways in which the key cannot be given."""

import json
import subprocess

import click
import pytest

from vidgen_async.cli.app import app

from .conftest import environment


def commands(group: click.Group = app, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {path: group}
    for name, command in group.commands.items():
        found |= commands(command, (*path, name)) if isinstance(command, click.Group) else {(*path, name): command}
    return found


COMMANDS = commands()
EVERY_COMMAND = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def test_these_are_the_commands():
    assert set(map(" ".join, COMMANDS)) == {
        "", "generate", "create", "get", "wait", "watch", "download", "models", "account", "upload", "sandbox",
        "completion", "orders", "orders ls", "orders show", "orders resume", "orders resend", "orders adopt",
        "orders abandon", "orders withdraw", "orders export", "cassette", "cassette ls", "cassette show",
        "cassette diff", "cassette check", "cassette recover",
    }  # fmt: skip


@EVERY_COMMAND
def test_every_help_has_an_example_and_fits_a_terminal(here, path):
    code, out, err = here(*path, "--help")
    assert (code, err) == (0, "")
    assert any("vidgen " in line for line in out.splitlines() if line.startswith("    ") or "sandbox" in path)


@EVERY_COMMAND
def test_every_help_tells_the_exit_codes(here, path):
    if path != ("sandbox",) and "cassette" not in path:
        assert "  5    uncertain: the order may have arrived and be charged; look first\n" in here(*path, "--help")[1]


@EVERY_COMMAND
def test_no_help_is_wider_than_a_terminal_of_80_columns(here, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "80")
    wide = [line for line in here(*path, "--help")[1].splitlines() if len(line) > 80]
    assert path == ("sandbox",) or wide == []


@EVERY_COMMAND
def test_every_option_and_command_is_described(path):
    command = COMMANDS[path]
    assert command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


@EVERY_COMMAND
def test_no_summary_of_a_command_is_cut_short(here, path):
    assert "..." not in here(*path, "--help")[1].partition("Commands:")[2]


@EVERY_COMMAND
def test_no_option_takes_a_secret(path):
    names = [name for parameter in COMMANDS[path].params for name in (*parameter.opts, *parameter.secondary_opts)]
    assert not [name for name in names for word in ("key", "token", "secret", "password", "bearer") if word in name]


@EVERY_COMMAND
def test_every_command_that_asks_the_service_takes_the_same_options(path):
    options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
    if path and path[0] != "cassette" and path[-1] not in ("orders", "sandbox", "completion"):
        assert {"--base-url", "--json", "--debug"} <= options
    if "--journal" in options:
        assert "--account" in options


@pytest.mark.parametrize("argument", ["--api-key=not-for-others", "--key=not-for-others"])
def test_a_key_given_as_an_option_is_refused_without_showing_it(here, service, argument):
    code, out, err = here("account", argument)
    assert (code, out) == (2, "")
    assert "The key is never an option" in err
    assert "VIDGEN_API_KEY" in err
    assert "not-for-others" not in err
    assert service.asked("account.get") == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_for_every_shell(here, shell):
    code, out, err = here("completion", shell)
    assert (code, err) == (0, "")
    assert "_VIDGEN_COMPLETE" in out
    assert "vidgen" in out


@pytest.fixture
def completed(vidgen):
    """What bash is told to complete at the end of these words."""

    def complete(words: str, **env: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        _, out, err = vidgen(_VIDGEN_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count, **env).end()
        assert err == ""
        return [line.partition(",")[2] for line in out.splitlines() if line]

    return complete


def test_the_completion_knows_commands_and_options(completed):
    assert completed("vidgen orders a") == ["adopt", "abandon"]
    assert "--resume" in completed("vidgen generate --re")
    assert set(completed("vidgen create --ratio 1")) == {"1:1", "16:9"}


def test_the_completion_knows_the_orders_on_record_newest_first(completed, here, data_home):
    assert completed("vidgen orders show ") == []
    assert list(data_home.iterdir()) == []
    for order_id in ("order-1", "other", "order-2"):
        here("create", "x", "--model", "gen-2.0", "--order-id", order_id)
    assert completed("vidgen orders show ord") == ["order-2", "order-1"]
    assert completed("vidgen generate --resume ot") == ["other"]
    assert completed("vidgen orders show ord", VIDGEN_JOURNAL="nonsense") == []


def test_the_script_for_bash_is_one(here, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(here("completion", "bash")[1])
    ran = subprocess.run(["bash", "-n", script], env=environment(None), check=False, capture_output=True)  # noqa: S603, S607 - bash is the one of the system
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("account", "--json", "--nope"), "No such option"),
        (("get", "--json"), "Missing argument"),
        (("--json",), "No such option"),
    ],
)
def test_wrong_usage_is_an_object_where_json_is_asked_for(here, arguments, words):
    code, out, err = here(*arguments)
    assert (code, out) == (2, "")
    error = json.loads(err)["error"]
    assert (error["kind"], error["exit_code"]) == ("usage", 2)
    assert words in error["message"]
