"""The commands, a module for each group: their options and their help."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from vidgen_async.cli.interrupts import exit_at_interrupts


def run_action(module: str) -> Callable[[Callable[[], None]], Callable[..., int]]:
    """Make the function of the same name in this module of :mod:`vidgen_async.cli.actions` run a command, with the
    values of its options by name. The module is imported only then: help and completion need none of it."""

    def decorate(command: Callable[[], None]) -> Callable[..., int]:
        @wraps(command)
        def run(**values: Any) -> int:
            with exit_at_interrupts():
                actions = import_module(f"vidgen_async.cli.actions.{module}")
            code: int = getattr(actions, command.__name__)(**values)
            return code

        return run

    return decorate
