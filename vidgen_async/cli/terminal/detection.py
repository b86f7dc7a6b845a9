"""Whether somebody looks at what is printed, on a terminal on which things can move."""

import os
import sys


def stdout_is_terminal() -> bool:
    return sys.stdout.isatty() and _can_move()


def stderr_is_terminal() -> bool:
    return sys.stderr.isatty() and _can_move()


def _can_move() -> bool:
    return os.environ.get("TERM") not in ("dumb", "unknown")
