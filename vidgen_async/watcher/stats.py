"""What a watcher tells about itself."""

from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class WatcherStats:
    """A watcher at one moment. Times in seconds; cheap enough to read every second."""

    tasks: int
    """Watched tasks."""
    waiting: int
    """Calls of ``wait``, ``watch`` and ``as_completed`` under way; the last counts as one for all its tasks."""
    in_flight: int
    """Polls under way."""
    polls: int
    """Polls since the watcher was made, failed ones included."""
    polls_per_second: float
    """On average over the last interval (or as many as make a second), or since the first poll if that is shorter."""
    errors: Mapping[str, int]
    """How many of them failed, by the class of the error."""
    lateness_last: float
    """By how much the last poll started later than promised. Pauses that the service asked for are not counted."""
    lateness_p50: float
    """Of the last one to two intervals, at most a tenth too much; so is ``lateness_p99``."""
    lateness_p99: float
    lateness_max: float
    """Since the watcher was made."""
    interval_now: float
    """Between two polls of one task as it is now: stretched when polls fall behind."""
    paused_until: float | None
    """The clock's time at which a pause after a 429 ends; None without one."""
