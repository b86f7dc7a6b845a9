"""The sandbox's own time."""

import asyncio
import time
from contextlib import suppress


class SandboxClock:
    """Wall seconds of the sandbox: real time times ``speed``, plus what was skipped with :meth:`advance`.

    Every lifetime in the sandbox is computed from it when somebody asks; nothing in it runs on a timer. With speed 0
    time stands still until it is advanced.
    """

    def __init__(self, speed: float = 1.0, *, start: float | None = None) -> None:
        if speed < 0:
            raise ValueError(f"speed must be 0 or more, not {speed!r}")
        self._speed = speed
        self._base = time.time() if start is None else start
        self._since = time.monotonic()
        self._jump = asyncio.Event()

    def now(self) -> float:
        """Seconds since 1970, as the sandbox sees them."""
        return self._base + (time.monotonic() - self._since) * self._speed

    @property
    def speed(self) -> float:
        """Sandbox seconds in one real second; may be set at any time."""
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        self._base, self._since = self.now(), time.monotonic()
        self._speed = value
        self._wake()

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once. Call it in the thread of the sandbox's event loop."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds!r}")
        self._base += seconds
        self._wake()

    async def sleep(self, seconds: float) -> None:
        """Return when ``seconds`` of the sandbox have passed."""
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left / self._speed if self._speed else None):
                    await self._jump.wait()

    def _wake(self) -> None:
        self._jump.set()
        self._jump = asyncio.Event()
