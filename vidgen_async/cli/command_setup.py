"""Run a command with what its options describe: a screen, a client and an event loop."""

import time
from collections.abc import Callable, Coroutine
from typing import Any

from vidgen_async.cli.command_runner import run_command
from vidgen_async.cli.operations import CommandRun
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.service_connection import Access, Settings, open_client
from vidgen_async.cli.terminal.standard_streams import drop_lost_output
from vidgen_async.cli.terminal.status_display import make_screen
from vidgen_async.client.videos import OnUpdate


def run_with_client(
    settings: Settings,
    run_state: RunState,
    work: Callable[[CommandRun], Coroutine[Any, Any, None]],
    *,
    orders: Access = Access.NONE,
    on_update: OnUpdate | None = None,
    only_prints: bool = False,
) -> int:
    """Run the work with an open client and return the exit code.

    Args:
        settings: The connection options of the command.
        run_state: The state of the run.
        work: The work.
        orders: What the work does with the journal.
        on_update: The client's ``on_update``.
        only_prints: The work fails if stdout cannot be written; any other work continues, and its result counts.
    """
    if not only_prints:
        drop_lost_output()
    screen = make_screen(is_debug=settings.is_debug, is_json=settings.is_json)
    run_state.connection = settings.connection
    started_at = time.monotonic()

    async def run() -> None:
        async with open_client(settings, run_state, screen, orders=orders, on_update=on_update) as client:
            await work(
                CommandRun(
                    client=client, state=run_state, screen=screen, timeout=settings.timeout, started_at=started_at
                )
            )

    return run_command(run, run_state, screen, is_debug=settings.is_debug)


def run_query(settings: Settings, work: Callable[[CommandRun], Coroutine[Any, Any, None]]) -> int:
    """Run work that only reads from the service: it orders nothing and stores nothing on the disk."""

    async def query(run: CommandRun) -> None:
        run.state.stage = Stage.QUERY
        await work(run)

    return run_with_client(settings, RunState(), query, only_prints=True)
