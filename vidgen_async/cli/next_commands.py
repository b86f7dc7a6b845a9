"""The commands with which a person goes on, as a shell takes them: pure, from the journey."""

import shlex
from collections.abc import Sequence

from vidgen_async.cli.run_state import Journey


def command(*words: str, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A command as a shell takes it, also where an argument looks like an option."""
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join(("vidgen", *words, *options, "--", *arguments))
    return shlex.join(("vidgen", *words, *arguments, *options))


def resume_command(journey: Journey) -> str:
    """Goes on with the journey's order, which is on record."""
    order_id = str(journey.order_id)
    if journey.output is None:
        return command("orders", "resume", arguments=(order_id,), options=journey.connection)
    resume = (f"--resume={order_id}",) if order_id.startswith("-") else ("--resume", order_id)
    return command("generate", options=(*resume, "-o", journey.output, *journey.options))


def watch_command(task_ids: Sequence[str], journey: Journey) -> str:
    """Watches these tasks, and those of the record where the journey did."""
    return command("watch", arguments=task_ids, options=journey.options)


def wait_command(task_id: str, journey: Journey) -> str:
    """Waits for the task, and saves its video where one was wanted."""
    output = () if journey.output is None else ("-o", journey.output)
    return command("wait", arguments=(task_id,), options=(*output, *journey.options))
