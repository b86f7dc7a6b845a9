"""Waiting for very many tasks with one scheduler: no coroutine, timer or worker per watched task.

Nothing here can create a task; a poll is one GET. When to look is decided in :mod:`vidgen_async.watcher.schedule`, what
a failed look means in :mod:`vidgen_async.watcher.poll_rules`.
"""

from vidgen_async.watcher.listeners import Outcome
from vidgen_async.watcher.stats import WatcherStats
from vidgen_async.watcher.watcher import ONE_DAY, Watcher

__all__ = ["ONE_DAY", "Outcome", "Watcher", "WatcherStats"]
