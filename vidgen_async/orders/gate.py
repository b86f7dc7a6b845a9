"""The gate of one send: no byte passes before the attempt is on record."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from vidgen_async.types.limits import Turn
from vidgen_async.types.orders import Attempt, Order


class HeldBackError(Exception):
    """Raised in the gate: this send must not go on. No byte has left."""


class Opening:
    """Writes the attempt, and lets the bytes go only if that was granted.

    The writing has a worker of its own, so that a send that is cut off in the gate still learns whether it happened.
    """

    def __init__(
        self, begin: Callable[[], Awaitable[Attempt | Order | Turn]], on_begin: Iterable[Callable[[], None]]
    ) -> None:
        self._begin = begin
        self._on_begin = on_begin
        self._writer: asyncio.Future[Attempt | Order | Turn] | None = None

    @property
    def is_begun(self) -> bool:
        return self._writer is not None

    async def gate(self) -> None:
        await self._begin_with(self._begin)

    async def force(self, begin: Callable[[], Awaitable[Attempt | Order | Turn]]) -> None:
        """Write the attempt of a send that did not wait for the gate."""
        with suppress(HeldBackError):
            await self._begin_with(begin)

    async def _begin_with(self, begin: Callable[[], Awaitable[Attempt | Order | Turn]]) -> None:
        self._writer = asyncio.ensure_future(begin())
        if not isinstance(await asyncio.shield(self._writer), Attempt):
            raise HeldBackError
        for listener in self._on_begin:
            listener()

    async def result(self) -> Attempt | Order | Turn | None:
        """What the journal said; None when it was never asked."""
        return None if self._writer is None else await asyncio.shield(self._writer)

    async def finished(self) -> None:
        """Wait for the writer's end, whatever it was."""
        if self._writer is not None:
            await asyncio.wait({self._writer})


class Once:
    """Calls a function at most once."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()
