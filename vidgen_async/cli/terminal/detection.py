"""Whether output goes to a terminal that can move the cursor."""

import os
import sys


def stdout_is_terminal() -> bool:
    return sys.stdout.isatty() and _supports_cursor()


def stderr_is_terminal() -> bool:
    return sys.stderr.isatty() and _supports_cursor()


def _supports_cursor() -> bool:
    return os.environ.get("TERM") not in ("dumb", "unknown")
