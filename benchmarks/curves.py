"""Figures that are drawn: a number for the table, and the points behind it."""

from attrs import frozen

from benchmarks.results import Figure


@frozen
class Curve(Figure):
    """A figure with its points."""

    points: tuple[tuple[float, float], ...] = ()
