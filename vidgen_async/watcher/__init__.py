"""Waiting for very many tasks with one scheduler: no coroutine, timer or worker per watched task.

Nothing here can create a task; a poll is one GET. When to look is decided in :mod:`vidgen_async.schedule`, what a
failed look means in :mod:`vidgen_async.watcher.faults`.
"""

from vidgen_async.watcher.core import Watcher
from vidgen_async.watcher.listeners import Outcome
from vidgen_async.watcher.stats import WatcherStats

__all__ = ["Outcome", "Watcher", "WatcherStats"]
