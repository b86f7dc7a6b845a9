"""Reports the progress of a transfer to the caller, but not with every chunk."""

from collections.abc import Callable
from typing import Any, TypeAlias

from vidgen_async.clock import Clock
from vidgen_async.errors import VidgenError
from vidgen_async.user_code import UserCode, describe

#: Called with the number of received bytes, and of all; None if that is unknown.
OnProgress: TypeAlias = Callable[[int, int | None], None]
#: Called with the number of sent bytes, and of all.
OnSent: TypeAlias = Callable[[int, int], None]

#: Minimum seconds between two reports, except for the last one.
_INTERVAL = 0.1


class Progress:
    """Calls ``on_progress`` at most about ten times a second."""

    def __init__(self, clock: Clock, on_progress: Callable[[int, Any], None] | None) -> None:
        self._clock = clock
        self._on_progress = on_progress
        self._reported_at: float | None = None

    def report(self, done: int, total: int | None, *, is_last: bool = False) -> None:
        if self._on_progress is None:
            return
        now = self._clock.now()
        if is_last or self._reported_at is None or now - self._reported_at >= _INTERVAL:
            self._reported_at = now
            with UserCode(is_awaited=False, passes=(Exception,)) as call:
                self._on_progress(done, total)
            if call.error is not None:
                raise VidgenError(f"on_progress raised {describe(call.error)}") from call.error
