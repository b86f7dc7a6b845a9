"""Calls the caller's ``on_progress``."""

import inspect
import logging
from collections.abc import Callable
from typing import ParamSpec

from vidgen_async.events import contain_hook

logger = logging.getLogger(__name__)

P = ParamSpec("P")


def contained(on_progress: Callable[P, object] | None) -> Callable[P, None]:
    """Return a function that calls ``on_progress``, if there is one. An exception that it raises is logged, and it is
    not called again: it must not interrupt a paid create, and may be called very often.

    Raises:
        TypeError: It is async.
    """
    refuse_async(on_progress)
    hook = on_progress

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal hook
        if hook is None:
            return
        called, hook = hook, None
        with contain_hook(logger, "on_progress"):
            called(*args, **kwargs)
            hook = called

    return call


def refuse_async(on_progress: Callable[..., object] | None) -> None:
    """Raise TypeError for an async function: nothing would await its calls."""
    called = getattr(on_progress, "__call__", None)  # noqa: B004 - that of an object may be async
    if inspect.iscoroutinefunction(on_progress) or inspect.iscoroutinefunction(called):
        message = "on_progress must not be async: its calls are not awaited"
        raise TypeError(message)
