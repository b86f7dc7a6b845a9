"""Waiting for very many tasks with one scheduler: no coroutine, timer or worker per watched task.

Nothing here can create a task; a poll is one GET. :mod:`vidgen_async.watcher.schedule` decides when to poll, and
:mod:`vidgen_async.watcher.poll_rules` what a failed poll means.
"""

from vidgen_async.watcher.listeners import Outcome
from vidgen_async.watcher.stats import WatcherStats
from vidgen_async.watcher.watcher import Watcher

__all__ = ["Outcome", "Watcher", "WatcherStats"]
