"""``vidgen sandbox``."""

from typing import Any

import click

from vidgen_async.cli.command_runner import run_command
from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.service_connection import sandbox_class
from vidgen_async.cli.terminal.standard_streams import drop_lost_output
from vidgen_async.cli.terminal.status_display import make_screen


def run_sandbox(
    accounts: tuple[tuple[str, int], ...], faults: tuple[str, ...], *, is_json: bool, is_debug: bool, **options: Any
) -> int:
    named = dict(accounts)
    if len(named) < len(accounts):
        raise click.BadParameter("the same account name is given twice", param_hint="--account")
    drop_lost_output()
    screen, run_state = make_screen(is_debug=is_debug, is_json=is_json), RunState()

    async def work() -> None:
        sandbox_class()  # names the extra if it is missing
        from vidgen_async.cli.sandbox_runner import serve  # noqa: PLC0415 - it needs the extra

        await serve({**options, "accounts": named}, faults, run_state, screen, is_json=is_json)

    return run_command(work(), run_state, screen, is_debug=is_debug)
