"""From a command's options to its run: a screen, a client, an event loop."""

import time
from collections.abc import Callable, Coroutine
from typing import Any

from vidgen_async.cli.command_runner import run
from vidgen_async.cli.operations import Errand
from vidgen_async.cli.run_state import Journey, Stage
from vidgen_async.cli.service_connection import Access, Settings, opened
from vidgen_async.cli.terminal.standard_streams import drop_lost_output
from vidgen_async.cli.terminal.status_display import make_screen
from vidgen_async.client.videos import OnUpdate


def start(
    settings: Settings,
    journey: Journey,
    do: Callable[[Errand], Coroutine[Any, Any, None]],
    *,
    orders: Access = Access.NONE,
    on_update: OnUpdate | None = None,
    only_prints: bool = False,
) -> int:
    """Run the work with a client that is open as long as it takes; the exit code. ``on_update`` is the client's.

    Work that ``only_prints`` ends where stdout cannot be written to; any other goes on, and its result counts.
    """
    if not only_prints:
        drop_lost_output()
    screen = make_screen(is_debug=settings.is_debug, is_json=settings.is_json)
    journey.connection = settings.connection
    begun_at = time.monotonic()

    async def work() -> None:
        async with opened(settings, journey, screen, orders=orders, on_update=on_update) as client:
            await do(Errand(client=client, journey=journey, screen=screen, timeout=settings.timeout, begun_at=begun_at))

    return run(work, journey, screen, is_debug=settings.is_debug)


def look(settings: Settings, do: Callable[[Errand], Coroutine[Any, Any, None]]) -> int:
    """Run work that only asks the service for something: nothing is ordered, and nothing kept on the disk."""

    async def work(errand: Errand) -> None:
        errand.journey.stage = Stage.LOOK
        await do(errand)

    return start(settings, Journey(), work, only_prints=True)
