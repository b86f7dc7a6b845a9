"""For how long one pass of the event loop takes, whatever else the machine does."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Passes:
    """The passes of the event loop in a block: how many, and the longest one's CPU time in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0

    @asynccontextmanager
    async def measured(self) -> AsyncIterator["Passes"]:
        """Without the garbage collector, whose full passes take as long as there are objects."""
        loop = asyncio.get_running_loop()
        is_over = False
        cpu = 0.0

        def note() -> None:
            nonlocal cpu
            now = time.thread_time()
            self.longest = max(self.longest, now - cpu)
            self.count += 1
            cpu = now
            if not is_over:
                loop.call_soon(note)

        gc.collect()
        gc.disable()
        try:
            cpu = time.thread_time()
            loop.call_soon(note)
            yield self
            await asyncio.sleep(0)
        finally:
            is_over = True
            gc.enable()
        await asyncio.sleep(0)


async def until(is_so: Callable[[], bool]) -> None:
    """Pass after pass of the event loop."""
    while not is_so():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)
