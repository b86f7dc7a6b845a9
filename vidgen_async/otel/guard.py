"""Telemetry that raises must not touch what it tells of: an answer to a create, a poll."""

import logging
from types import TracebackType

from vidgen_async.events import Event, report

logger = logging.getLogger(__name__)


class Guard:
    """A block whose exceptions end there; the first one is logged."""

    __slots__ = ("_has_told",)

    def __init__(self) -> None:
        self._has_told = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        if not self._has_told:
            self._has_told = True
            message = "telemetry raised %(error)s; the requests go on without it, and this is said once"
            report(logger, logging.WARNING, Event.TELEMETRY_BROKE, message, error=type(error).__name__)
        return True
