"""Windows over what arrived, and lines through what was measured."""

import math
from collections.abc import Mapping, Sequence

from attrs import frozen

#: Arrivals are counted in buckets of so many seconds; windows move in such steps.
BUCKET = 0.1
#: A window of one second is so many buckets.
WIDTH = 10


@frozen
class Rate:
    """Arrivals over a stretch of time: their mean per second, and the fullest window of one second."""

    mean: float
    peak: int
    peak_at: float
    """When that window begins, in seconds from the beginning of the stretch."""
    window: float = WIDTH * BUCKET
    """Its length in seconds; a shorter stretch has no window of one second."""

    @property
    def ratio(self) -> float:
        return self.peak / (self.mean * self.window) if self.mean else math.nan


def buckets(counts: Mapping[int, int], begins_at: float, seconds: float) -> list[int]:
    """The counts of a stretch of time, from the bucket in which it begins. ``counts`` has each by its number, which is
    a time over BUCKET."""
    first = math.floor(round(begins_at / BUCKET, 3))
    return [counts.get(first + place, 0) for place in range(max(round(seconds / BUCKET), 0))]


def windows(in_buckets: Sequence[int], width: int = WIDTH) -> list[int]:
    """The sum of each ``width`` neighbours, moved by one at a time; one sum when there are fewer."""
    total = sum(in_buckets[:width])
    sums = [total]
    for place in range(width, len(in_buckets)):
        total += in_buckets[place] - in_buckets[place - width]
        sums.append(total)
    return sums


def rate(in_buckets: Sequence[int]) -> Rate:
    """The mean is all that arrived over the seconds of all buckets, empty ones included."""
    sums = windows(in_buckets)
    peak = max(sums)
    mean = sum(in_buckets) / (len(in_buckets) * BUCKET)
    return Rate(mean, peak, sums.index(peak) * BUCKET, min(len(in_buckets), WIDTH) * BUCKET)


@frozen
class Line:
    """``value = a + b * x``, fitted by least squares; ``explained`` is R², 1 when all points lie on it."""

    a: float
    b: float
    explained: float

    def at(self, x: float) -> float:
        return self.a + self.b * x


def fit(points: Sequence[tuple[float, float]]) -> Line:
    """The line through two points or more, not all with one x."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    a = mean_y - slope * mean_x
    total = sum((y - mean_y) ** 2 for _, y in points)
    left = sum((y - a - slope * x) ** 2 for x, y in points)
    return Line(a, slope, 1.0 - left / total if total else 1.0)


def fit_log(points: Sequence[tuple[float, float]]) -> Line:
    """The line through the values over the base-2 logarithms of their sizes."""
    return fit([(math.log2(size), value) for size, value in points])


def growth(points: Sequence[tuple[float, float]]) -> float:
    """The exponent k of a cost that grows like size**k: 0 for a constant, 1 for a cost that grows with the size."""
    return fit([(math.log(size), math.log(value)) for size, value in points]).b
