"""An exception of telemetry must not affect a request."""

import logging
from types import TracebackType

from vidgen_async.events import Event
from vidgen_async.user_code import current_task, must_propagate

logger = logging.getLogger(__name__)


class Guard:
    """A block that suppresses exceptions; the first one is logged."""

    __slots__ = ("_has_logged",)

    def __init__(self) -> None:
        self._has_logged = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if error is None or must_propagate(error, current_task()):
            return False
        if not self._has_logged:
            self._has_logged = True
            Event.TELEMETRY_FAILED.log(logger, error=type(error).__name__)
        return True
