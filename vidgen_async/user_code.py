"""What code that is not the SDK's own raises: hooks, key functions, transports, journals, listeners, log handlers …

It affects the call that ran this code, and no other one. Only a KeyboardInterrupt, a SystemExit and the cancellation
of the task that runs the code propagate: a GeneratorExit, or a CancelledError without a cancellation of that task,
is an error like any other.
"""

import asyncio
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Self

#: They end the program, whatever raises them.
EXITS = (KeyboardInterrupt, SystemExit)


def current_task() -> "asyncio.Task[Any] | None":
    """The running task; None in a callback, or without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def must_propagate(error: BaseException, caller: "asyncio.Task[Any] | None") -> bool:
    """Return whether an exception of user code must propagate; ``caller``: the task of the block, if that awaits."""
    if isinstance(error, asyncio.CancelledError):
        return caller is not None and caller.cancelling() > 0
    if isinstance(error, GeneratorExit):
        # A coroutine that no task runs any more is closed, by the garbage collector for example: not in its task.
        return caller is not None and current_task() is not caller
    return isinstance(error, EXITS)


class UserCode:
    """A block that calls user code. ``error`` is what it raised, unless that must propagate, or is in ``passes``."""

    __slots__ = ("_caller", "_passes", "error")

    def __init__(self, *, is_awaited: bool = True, passes: tuple[type[Exception], ...] = ()) -> None:
        self._caller = current_task() if is_awaited else None
        self._passes = passes
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if error is None or isinstance(error, self._passes) or must_propagate(error, self._caller):
            return False
        self.error = error
        return True


def describe(error: BaseException | None) -> str:
    """The class of an exception and where it was raised; not its text, in which a secret may be."""
    if error is None:
        return "nothing"
    name = type(error).__name__
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return f"{name} ({Path(places[-1][0]).name}, line {places[-1][1]})" if places else name
