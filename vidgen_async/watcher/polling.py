"""How a listener wants its tasks to be polled: with which API key, and how often."""

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from attrs import frozen

from vidgen_async.types.resources import VideoTask


class Poll(Protocol):
    """One GET for a task id: returns the task and a mark of the response. If the response has the mark that is passed,
    it returns None for the task. If the task is not needed and is not terminal, it may return its state instead.

    Polls that are sent with the same API key and headers are equal, so that waits share them.
    """

    def __call__(
        self, task_id: str, mark: int | None, *, is_task_needed: bool
    ) -> Awaitable[tuple[VideoTask | str | None, int | None]]: ...


@frozen
class Polling:
    """How a listener wants its tasks to be polled; None is the watcher's own way."""

    poll: Poll | None = None
    interval: float | None = None


#: A task id, and the poll of it, unless that is the watcher's own.
TaskKey: TypeAlias = str | tuple[Poll, str]


def key_of(task_id: str, poll: Poll | None) -> TaskKey:
    """Return the key of a task. What one API key may see of it is separate from what another one may see."""
    return task_id if poll is None else (poll, task_id)
