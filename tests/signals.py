"""Signals that tests send, however the suite itself was started: in the background and under nohup some are ignored."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def accept_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Processes that are started meanwhile do not inherit that these are ignored. This one may send them to itself:
    where nothing handles one, it does nothing."""
    before = {number: signal.signal(number, _do_nothing) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt(which: signal.Signals = signal.SIGINT) -> None:
    """Send this process a signal, as Ctrl-C does."""
    os.kill(os.getpid(), which)


def _do_nothing(*_: object) -> None:
    """A handler, which a new program does not inherit: there the signal has its usual effect."""
