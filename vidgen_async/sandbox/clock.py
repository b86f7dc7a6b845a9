"""The clock of a sandbox."""

import asyncio
import math
import time
from contextlib import suppress


class SandboxClock:
    """The sandbox's time: real time multiplied by ``speed``, plus the seconds passed to :meth:`advance`.

    States and expiry times are computed from the clock on each request; the sandbox has no timers. At speed 0 time
    only passes with :meth:`advance`. Any thread may read the clock. Only the thread of the sandbox's event loop may
    change it, because a change wakes the coroutines that sleep on it.
    """

    def __init__(self, speed: float = 1.0, *, start: float | None = None) -> None:
        # The time at a monotonic time, and the speed since then.
        self._pace = (time.time() if start is None else start, time.monotonic(), _check_speed(speed))
        self._changed = asyncio.Event()

    def now(self) -> float:
        """Return the sandbox's time in seconds since 1970."""
        base, since, speed = self._pace
        return base + (time.monotonic() - since) * speed

    @property
    def speed(self) -> float:
        """Sandbox seconds per real second, 0 or more. Set it in the thread of the sandbox's event loop."""
        return self._pace[2]

    @speed.setter
    def speed(self, value: float) -> None:
        self._set(self.now(), _check_speed(value))

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``. Call it in the thread of the sandbox's event loop."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be 0 or more, and finite, not {seconds!r}")
        self._set(self.now() + seconds, self.speed)

    def start_at(self, now: float) -> None:
        """Continue from another time, earlier or later: for a stored state."""
        self._set(now, self.speed)

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` of the sandbox's time."""
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left / self.speed if self.speed else None):
                    await self._changed.wait()

    def _set(self, now: float, speed: float) -> None:
        self._pace = (now, time.monotonic(), speed)
        self._changed.set()
        self._changed = asyncio.Event()


def _check_speed(speed: float) -> float:
    if not 0 <= speed < math.inf:
        raise ValueError(f"speed must be 0 or more, and finite, not {speed!r}")
    return speed
