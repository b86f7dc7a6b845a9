"""The command as a process: signals, pipes, a terminal, and missing extras."""

import json
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

from tests.signals import accept_signals
from vidgen_async.sandbox import Fault

from .conftest import BOAT, VIDGEN, environment, run_on_a_terminal


@pytest.mark.slow
def test_a_second_ctrl_c_exits_at_once_and_an_operator_decides_the_order(vidgen, here, service, works):
    service.set_speed(0)
    service.add_fault("videos.create", Fault.stall(1))
    command = vidgen(*BOAT, "--order-id", "order-1187")
    command.until("sending the order")
    task_id = service.wait_for_task()
    command.interrupt()
    command.until("waiting a few seconds")
    command.interrupt()
    with suppress(subprocess.TimeoutExpired):
        command.process.wait(3)
    service.set_speed(1000)  # now the response arrives, for a process that did not exit
    code, out, err = command.end()

    assert (code, out) == (130, "")
    assert "It is unknown whether the service accepted order order-1187" in err
    commands = [line.split("  #")[0].split() for line in err.splitlines() if line.startswith("  vidgen ")]
    assert [command[:3] for command in commands] == [
        ["vidgen", "generate", "--resume"],
        ["vidgen", "orders", "show"],
        ["vidgen", "orders", "adopt"],
        ["vidgen", "orders", "abandon"],
        ["vidgen", "orders", "resend"],
    ]

    adopt = [task_id if word == "TASK_ID" else word for word in commands[2][1:]]
    assert here(*adopt)[0] == 0
    out, err = works(*commands[0][1:])
    assert out.startswith("saved boat.mp4")
    assert len(service.creates) == 1


@pytest.mark.slow
def test_a_terminal_shows_animation_and_colours_unless_no_color_is_set(terminal, tmp_path, data_home, service):
    env = environment(service, XDG_DATA_HOME=str(data_home))
    code, colourful = run_on_a_terminal(*BOAT, env=env, cwd=tmp_path)
    assert code == 0, colourful
    assert "\x1b[?25l" in colourful
    assert colourful.rindex("\x1b[?25h") > colourful.rindex("\x1b[?25l")
    assert "\x1b[32m" in colourful
    assert "saved boat.mp4" in colourful

    _, plain = terminal(*BOAT, "--force", NO_COLOR="1")
    assert "\x1b[?25l" in plain
    assert not re.search(r"\x1b\[(?:\d;)*3\dm", plain)
    assert "saved boat.mp4" in plain

    _, dumb = terminal(*BOAT, "--force", TERM="dumb")
    assert "saved boat.mp4" in dumb
    assert re.search(r"^completed \(", dumb, re.MULTILINE), "plain lines, as in a log"
    assert "\x1b" not in dumb


@pytest.mark.slow
def test_ctrl_c_during_imports_is_exit_code_130_and_one_line(tmp_path):
    loads = """
        import os, signal, sys
        class Interrupts:
            def find_spec(self, name, path, target=None):
                if name == 'rich.table':
                    try: os.kill(os.getpid(), signal.SIGINT)
                    except KeyboardInterrupt: raise RuntimeError('as raised by the creation of a class')
        sys.meta_path.insert(0, Interrupts())
        from vidgen_async.cli import main
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(loads), "account"]
    with accept_signals(signal.SIGINT):
        ran = subprocess.run(  # noqa: S603 - our own command
            command, env=environment(None), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50
        )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "error: interrupted\n")


#: What takes most of the time of a command's start.
HEAVY = {
    "aiohttp", "asyncio", "cattrs", "logging", "platformdirs", "rich.console", "sqlite3", "ssl",
    "vidgen_async.cassette", "vidgen_async.cli.actions", "vidgen_async.client", "vidgen_async.orders",
    "vidgen_async.service", "vidgen_async.transports", "vidgen_async.watcher",
}  # fmt: skip


@pytest.mark.slow
def test_help_the_version_and_completion_import_nothing_that_commands_need(tmp_path):
    runs = """
        import json, os, sys
        from vidgen_async.cli import main
        words = ["vidgen cre", "vidgen create --", "vidgen orders ls --state ", "vidgen create x --ratio 1"]
        arguments = [["--version"], ["--help"], ["create", "--help"], ["orders", "--help"], ["cassette", "check", "-h"]]
        for one in [*arguments, *words]:
            if isinstance(one, str):
                sys.argv = ["vidgen"]
                number = str(one.count(" "))
                os.environ |= {"_VIDGEN_COMPLETE": "bash_complete", "COMP_WORDS": one, "COMP_CWORD": number}
            else:
                sys.argv = ["vidgen", *one]
            try:
                main()
            except SystemExit as end:
                assert end.code == 0, one
        print(json.dumps(sorted(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(runs)]
    ran = subprocess.run(  # noqa: S603 - our own command
        command, env=environment(None), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=50
    )
    *shown, modules = ran.stdout.splitlines()
    assert {"plain,create", "plain,--prompt-file", "plain,uncertain", "plain,16:9"} <= set(shown)
    assert HEAVY & set(json.loads(modules)) == set()


#: Runs ``vidgen`` once for each of the JSON lists of arguments, each time without one module.
WITHOUT = """
    import json, os, signal, sys
    from vidgen_async.cli import main
    for module, *arguments in json.loads(sys.argv[1]):
        if module not in ("click", "rich"):
            import aiohttp.web, vidgen_async.cli.app  # once, for all runs
        print(end=f"== {module}, {arguments[0]}: ", file=sys.stderr, flush=True)
        pid = os.fork()
        if pid == 0:
            signal.alarm(40)  # ends a hanging process
            sys.modules[module] = None
            sys.argv = ["vidgen", *arguments]
            main()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(f"=> {code}", file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_a_missing_extra_is_named_in_one_sentence(tmp_path):
    base = [["click", "--version"], ["rich", "account"]]
    needing_pillow = [["PIL", "generate", "x", "--sandbox", "-o", "a.mp4"], ["PIL", "sandbox"]]
    command = [sys.executable, "-c", textwrap.dedent(WITHOUT), json.dumps([*base, *needing_pillow])]
    ran = subprocess.run(  # noqa: S603 - our own command
        command, env=environment(None), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=50
    )
    assert ran.stdout == ""
    without_click, without_rich, *without_sandbox = ran.stderr.split("== ")[1:]
    for (module, argument), shown in zip(base, (without_click, without_rich), strict=True):
        report = f'error: vidgen needs {module}, which is not installed.\nhint: pip install "vidgen-async[cli]"'
        assert shown == f"{module}, {argument}: {report}\n=> 2\n"
    assert len(without_sandbox) == 2
    for shown in without_sandbox:
        sentence, code, end = shown.split("\n")
        assert "pip install 'vidgen-async[sandbox]'" in sentence
        assert (code, end) == ("=> 2", "")


@pytest.mark.slow
def test_a_closed_output_pipe_is_reported_in_one_line(vidgen, here, service):
    service.set_speed(0)
    created = here("create", "x", "--model", "gen-2.0")[1].strip()
    command = vidgen("watch", created, "--poll-interval", "0.05")
    command.process.stdout.close()
    err = command.process.stderr.read()
    assert command.process.wait(20) == 1
    assert err == "error: the output pipe was closed by its reader.\n"


@pytest.mark.slow
def test_text_that_the_locale_cannot_represent_is_refused_and_the_locale_is_named(service, tmp_path):
    env = environment(service, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LANG="C")
    ran = [
        subprocess.run(  # noqa: S603 - our own command
            [*VIDGEN, "create", prompt, "--model", "gen-2.0", "--journal", "memory:"],
            env=env, cwd=tmp_path, check=False, capture_output=True, text=True, input="Лодка",
        )
        for prompt in ("Лодка", "-")
    ]  # fmt: skip
    advice = "set LC_ALL to the locale of the text, such as C.UTF-8"
    why = f"it is not ASCII text, which the locale (LANG=C) requires; {advice}."
    assert [one.returncode for one in ran] == [2, 2]
    assert [one.stderr.splitlines()[0] for one in ran] == [
        f"error: invalid value for '[PROMPT]': {why}",
        f"error: cannot read the prompt from stdin: {why}",
    ]
    assert service.creates == []
