"""The sandbox's own time."""

import asyncio
import math
import time
from contextlib import suppress

from attrs import frozen


@frozen
class Pace:
    """How time runs: ``base`` seconds at the real moment ``since`` (monotonic), and ``speed`` from then on."""

    base: float
    since: float
    speed: float

    def now(self) -> float:
        return self.base + (time.monotonic() - self.since) * self.speed


class SandboxClock:
    """Wall seconds of the sandbox: real time times ``speed``, plus what was skipped with :meth:`advance`.

    Every lifetime in the sandbox is computed from it when somebody asks; nothing in it runs on a timer. With speed 0
    time stands still until it is advanced. Any thread may read it; only the thread of the sandbox's event loop may
    change it, because that wakes those who sleep there.
    """

    def __init__(self, speed: float = 1.0, *, start: float | None = None) -> None:
        self._pace = Pace(time.time() if start is None else start, time.monotonic(), _checked(speed))
        self._jump = asyncio.Event()

    def now(self) -> float:
        """Seconds since 1970, as the sandbox sees them."""
        return self._pace.now()

    @property
    def speed(self) -> float:
        """Sandbox seconds in one real second, 0 or more; set it in the thread of the sandbox's event loop."""
        return self._pace.speed

    @speed.setter
    def speed(self, value: float) -> None:
        self._go_on(self.now(), _checked(value))

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once. Call it in the thread of the sandbox's event loop."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"time does not run backwards, and does not end: {seconds!r}")
        self._go_on(self.now() + seconds, self.speed)

    def start_at(self, now: float) -> None:
        """Go on from another time, earlier or later: for a state that was kept."""
        self._go_on(now, self.speed)

    async def sleep(self, seconds: float) -> None:
        """Return when ``seconds`` of the sandbox have passed."""
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left / self.speed if self.speed else None):
                    await self._jump.wait()

    def _go_on(self, now: float, speed: float) -> None:
        self._pace = Pace(now, time.monotonic(), speed)
        self._jump.set()
        self._jump = asyncio.Event()


def _checked(speed: float) -> float:
    if not 0 <= speed < math.inf:
        raise ValueError(f"speed must be 0 or more, and finite, not {speed!r}")
    return speed
