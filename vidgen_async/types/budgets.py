"""The points that creates may cost, and what they have cost."""

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from attrs import field, frozen

from vidgen_async.types.limits import DAY, MOST_POINTS, SpendingLimit
from vidgen_async.types.resources import CatalogModel, VideoRequest
from vidgen_async.types.serialization import Serializable

Price: TypeAlias = str | Callable[[CatalogModel, VideoRequest], float | None]
"""The name of a number in a catalog entry, such as ``points`` (section 2.1 does not state the names); or a function of
the entry and the request that returns the points of a task, or None if it does not know."""

SpendKey: TypeAlias = Literal["day", "model", "state"]
"""What the rows of a bill are."""

#: Seconds. Ten years.
_LONGEST_WINDOW = 3653 * DAY
_TEXT = re.compile(r"(\d{1,13})(?:/(\d{1,9})([smhd]))?", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY}


@frozen(kw_only=True)
class Budget:
    """The points that the creates of an account may cost: ``Client(budget=Budget(points=500, window=86400,
    price="points"))``.

    What a create may cost is reserved in the journal, in the commit that precedes its first byte, so that the budget
    holds for all processes that share the journal. Counted are creates that were sent in the window, unless it is
    certain that they cost nothing: for the points of the task where the service has stated them, else for what was
    reserved. Failed tasks count for their points: whether they are refunded is in the service's ledger alone (7.2).

    Raises:
        ConfigurationError: A value is not valid; it is raised where the client is made.
    """

    points: int
    """The limit."""
    price: Price = field(repr=lambda price: repr(price) if isinstance(price, str) else "…")
    window: float | None = None
    """Seconds; the limit applies to any period of this length, to the minute. None: to all creates of the journal."""
    unknown: int | None = None
    """The points that a create counts for whose price is unknown, such as those of an earlier release. None: such a
    create is refused, and so is every other one while there are such creates in the window."""

    @classmethod
    def parse(cls, text: str, *, price: Price) -> "Budget":
        """Return the budget that a text such as ``500`` or ``500/24h`` states; units are s, m, h and d.

        Raises:
            ValueError: It states none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"a budget is a number of points, such as 500, or 500/24h: {text!r}")
        window = None if found[2] is None else float(found[2]) * _UNITS[found[3]]
        return cls(points=int(found[1]), price=price, window=window)

    def find_problem(self) -> str | None:
        """Return what is wrong with the values; None if nothing is."""
        for name, value, may_be_none in (("points", self.points, False), ("unknown", self.unknown, True)):
            is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_POINTS
            if not is_number and not (may_be_none and value is None):
                return f"Budget.{name} must be a whole number of points from 0: {value!r}"
        if not callable(self.price) and (not isinstance(self.price, str) or not self.price):
            return f"Budget.price must be the name of a number in a catalog entry, or a function: {self.price!r}"
        window = self.window
        is_number = isinstance(window, int | float) and not isinstance(window, bool)
        if window is not None and not (is_number and 0 < window <= _LONGEST_WINDOW):
            return f"Budget.window must be a number of seconds above 0, at most ten years, or None: {window!r}"
        return None

    @property
    def limit(self) -> SpendingLimit:
        """The limit, as journals apply it."""
        return SpendingLimit(points=self.points, window=self.window, unknown=self.unknown)

    def estimate(self, entry: CatalogModel, request: VideoRequest) -> int | None:
        """Return the points that a task of the request may cost, rounded up; None if that is unknown.

        Raises:
            ValueError: The function returned something else than points.
        """
        found: object = entry.extra.get(self.price) if isinstance(self.price, str) else self.price(entry, request)
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= MOST_POINTS:
            return math.ceil(found)
        if found is None or isinstance(self.price, str):
            return None
        raise ValueError(f"the price function returned {type(found).__name__}, which is no number of points from 0")


@frozen(kw_only=True)
class BudgetState(Serializable):
    """A budget, and what counts towards it now."""

    limit: int
    window: float | None
    spent: int
    """Points that the service has stated."""
    reserved: int
    """Points that were estimated, of creates whose points the service has not stated."""
    unknown: int
    """Number of creates whose points are unknown."""
    free: int | None
    """Points that are left; below 0 if more was charged than was estimated. None: there are unknown creates, which the
    budget does not allow."""
    room_at: datetime | None
    """If nothing is free: when a create of one point is allowed again; None if that is never by itself."""


@frozen(kw_only=True)
class SpendRow(Serializable):
    """What the creates of a day, of a model or in a state have cost."""

    key: str
    videos: int
    """Number of tasks."""
    spent: int
    """Points that the service has stated. Whether a failed task was refunded is in the service's ledger alone (7.2)."""
    estimated: int
    """Points that a budget has reserved, of tasks whose points the service has not stated."""
    unknown: int
    """Number of creates whose points are neither stated nor estimated: the sum is at least the two numbers above."""
    uncertain: int
    """Number of creates of which it is unknown whether they are charged; their points are in the numbers above."""

    @property
    def points(self) -> str:
        """The sum for a person: ``1,240``, or ``≥ 1,240`` if it misses something."""
        return f"{'≥ ' if self.unknown else ''}{self.spent + self.estimated:,}"
