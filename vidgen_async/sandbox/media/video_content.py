"""What a task's video shows, as a value: equal films give the same bytes."""

import re

from attrs import frozen

#: Width to height (2.4).
RATIOS = {"9:16": (9, 16), "1:1": (1, 1), "3:4": (3, 4), "4:3": (4, 3), "16:9": (16, 9)}
DEFAULT_RATIO = "16:9"


@frozen
class Picture:
    """A reference image: its encoded bytes, or None for an image on another host, which is never fetched."""

    label: str
    content: bytes | None = None


@frozen(cache_hash=True)
class Film:
    """Everything that determines a video. ``notes`` is small text below the prompt."""

    prompt: str
    seconds: int
    width: int
    height: int
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()


def size_of(resolution: str, ratio: str) -> tuple[int, int]:
    """Return width and height in pixels, both even. The number in a resolution is the shorter side; auto is 720p."""
    number = re.match(r"\d+", resolution)
    short = int(number[0]) if number else 720
    across, down = RATIOS[ratio]
    unit = short / min(across, down)
    return 2 * round(across * unit / 2), 2 * round(down * unit / 2)
