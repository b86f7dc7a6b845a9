"""How the watching itself goes: its rates, what holds it up, what is left. Pure; the time is handed in."""

from collections import deque
from collections.abc import Mapping

from attrs import frozen

from vidgen_async.watcher import WatcherStats

#: Ends and errors are counted over the last minute; a rate of less than some seconds would say nothing.
_MINUTE = 60.0
_LEAST = 5.0
#: What is left is told once so many tasks have ended in the last minutes, while nothing is held up.
_ENOUGH_ENDED = 20
_LONGEST = 300.0
#: Polls that start so many seconds late are worth a word, or a tenth of the interval where that is more.
_LATE = 1.0


@frozen(kw_only=True)
class Vitals:
    """The watching at one moment. Times in seconds; None: not known, or nothing to tell."""

    interval: float
    """Between two polls of one task."""
    usual_interval: float
    """The same when nothing holds polls up."""
    polls_per_second: float = 0.0
    ended_per_minute: float | None = None
    left: float | None = None
    """Until all tasks are over, as things go."""
    late: float | None = None
    """By how much polls are late."""
    paused: float | None = None
    """How long nothing is polled, for a 429."""
    errors: Mapping[str, int] = {}
    """How many polls failed, by the class of the error."""
    errors_lately: int = 0
    """How many of them in the last minute."""


@frozen
class _Sample:
    at: float
    over: int
    errors: int


class Pulse:
    """Makes vitals of what a watcher tells about itself. ``usual_interval``: as it is when nothing holds polls up."""

    def __init__(self, usual_interval: float) -> None:
        self._usual_interval = usual_interval
        self._samples: deque[_Sample] = deque(maxlen=int(_LONGEST) + 1)

    def take(self, now: float, stats: WatcherStats, over: int, going: int) -> Vitals:
        """The vitals at ``now`` by the watcher's clock, with so many tasks over and so many still going."""
        current = _Sample(now, over, sum(stats.errors.values()))
        if not self._samples or now - self._samples[-1].at >= 1.0:
            self._samples.append(current)
        minute = self._back(now, _MINUTE)
        lasted = now - minute.at
        paused = None if stats.paused_until is None else max(stats.paused_until - now, 0.0)
        is_stretched = stats.interval_now > self._usual_interval * 1.1
        is_late = is_stretched or stats.lateness_p99 > max(_LATE, self._usual_interval / 10)
        return Vitals(
            polls_per_second=stats.polls_per_second,
            ended_per_minute=(over - minute.over) / lasted * 60 if lasted >= _LEAST else None,
            left=None if paused else self._left(current, going),
            interval=stats.interval_now,
            usual_interval=self._usual_interval,
            late=stats.lateness_p99 if is_late else None,
            paused=paused,
            errors=stats.errors,
            errors_lately=current.errors - minute.errors,
        )

    def _left(self, current: _Sample, going: int) -> float | None:
        first = self._back(current.at, _LONGEST)
        ended, seconds = current.over - first.over, current.at - first.at
        if not going or ended < _ENOUGH_ENDED or seconds < min(_MINUTE, self._usual_interval):
            return None
        return going * seconds / ended

    def _back(self, now: float, seconds: float) -> _Sample:
        """The oldest sample of the last ``seconds``."""
        return next((sample for sample in self._samples if now - sample.at <= seconds), self._samples[-1])
