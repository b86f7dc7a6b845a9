"""The shell commands that resume a run: pure, from its state."""

import shlex
from collections.abc import Sequence

from vidgen_async.cli.run_state import RunState


def command(*words: str, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A quoted shell command; arguments may begin with a dash."""
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join(("vidgen", *words, *options, "--", *arguments))
    return shlex.join(("vidgen", *words, *arguments, *options))


def resume_command(run_state: RunState) -> str:
    """The command that resumes the run's order, which the journal has."""
    order_id = str(run_state.order_id)
    if run_state.output is None:
        return command("orders", "resume", arguments=(order_id,), options=run_state.connection)
    resume = (f"--resume={order_id}",) if order_id.startswith("-") else ("--resume", order_id)
    return command("generate", options=(*resume, "-o", run_state.output, *run_state.options))


def watch_command(task_ids: Sequence[str], run_state: RunState) -> str:
    """The command that watches these tasks, and those of the journal if the run did."""
    return command("watch", arguments=task_ids, options=run_state.options)


def wait_command(task_id: str, run_state: RunState) -> str:
    """The command that waits for the task, and saves its video if the run would have."""
    output = () if run_state.output is None else ("-o", run_state.output)
    return command("wait", arguments=(task_id,), options=(*output, *run_state.options))
