"""Ctrl-C while modules are imported."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def exit_at_interrupts() -> Iterator[None]:
    """Exit at Ctrl-C while modules are imported: an import could turn KeyboardInterrupt into another exception."""

    def exit_now(*_: object) -> None:
        with suppress(OSError):
            os.write(2, b"vidgen: interrupted\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, or handled by an application
        yield
        return
    signal.signal(signal.SIGINT, exit_now)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
