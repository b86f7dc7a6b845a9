"""A sandbox whose clock is stopped, for tests of programs in processes of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from attrs import frozen

from vidgen_async.sandbox import ReceivedCreate, ReceivedRequest, Sandbox

#: Seconds for anything that happens in seconds, also on a busy machine.
LIMIT = 60.0


@frozen
class Service:
    """A sandbox whose clock is stopped until the test advances it, and what it has received."""

    sandbox: Sandbox
    _received: asyncio.Event

    async def until(self, is_true: Callable[[ReceivedRequest], bool]) -> ReceivedRequest:
        """The first request of which this is true, as soon as it is."""
        async with asyncio.timeout(LIMIT):
            while True:
                self._received.clear()
                for request in self.sandbox.requests:
                    if is_true(request):
                        return request
                await self._received.wait()

    async def until_create(self) -> ReceivedRequest:
        """The first create, when its headers have arrived."""
        return await self.until(lambda request: request.op == "videos.create")

    @property
    def creates(self) -> Sequence[ReceivedCreate]:
        """The POSTs of all creates, whatever the answer."""
        return self.sandbox.creates


@asynccontextmanager
async def stopped_sandbox() -> AsyncIterator[Service]:
    received = asyncio.Event()
    async with Sandbox(speed=0, on_request=lambda _: received.set()) as sandbox:
        yield Service(sandbox, received)
