"""A client is usable in one process, on one event loop, until it is closed."""

import asyncio
import os

from vidgen_async.errors import ClientStateError

#: How to use a client in code without an event loop.
PAGE = "docs/how-to/without-an-event-loop.md"


class Lifetime:
    """Bound to the first event loop that uses it."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def check(self) -> None:
        """Raise ClientStateError, with advice, unless the client may be used here and now."""
        problem = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            message = f"there is no running event loop here; {PAGE} shows how to use a client in such code"
            raise ClientStateError(message) from None
        if self.is_closed:
            problem = "the client is closed; make a new one (or keep it open longer)"
        elif os.getpid() != self._process:
            problem = "the client was made before this process was forked; make one in the child, after the fork"
        elif self._loop is not None and self._loop is not loop:
            problem = (
                "the client is in use on another event loop; make one client for each loop (each asyncio.run is a new "
                f"loop). In code without an event loop, run one loop in a thread: {PAGE}"
            )
        if problem:
            raise ClientStateError(problem)
        self._loop = loop
