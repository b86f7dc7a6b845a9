"""``VIDGEN_LOG``: log records on standard error, for programs that do not configure logging."""

import logging
import os
import sys
import warnings
from typing import TextIO

_LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class EnvironmentHandler(logging.StreamHandler[TextIO]):
    """Writes the records that no handler of the program receives, whenever that was configured."""

    def emit(self, record: logging.LogRecord) -> None:
        if not self._is_handled(record):
            self.stream = sys.stderr  # as it is now: tests and terminals replace it
            super().emit(record)

    def _is_handled(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(not isinstance(one, EnvironmentHandler | logging.NullHandler) for one in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def follow_environment() -> None:
    """Set the level of the SDK's loggers to that of VIDGEN_LOG, and show their records, if it is set. A value that is
    no level is warned about."""
    value = os.environ.get("VIDGEN_LOG", "").strip()
    if not value:
        return
    level = _LEVELS.get(value.lower())
    if level is None:
        message = f"VIDGEN_LOG must be info or debug: {value[:40]!r} is ignored"
        warnings.warn(message, UserWarning, stacklevel=3)
        return
    logger = logging.getLogger("vidgen_async")
    logger.setLevel(level)
    if not any(isinstance(handler, EnvironmentHandler) for handler in logger.handlers):
        handler = EnvironmentHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
