"""A whole terminal to draw on, which is as it was when that is over."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.control import Control
from rich.text import Text

if TYPE_CHECKING:
    from rich.segment import Segment


class Canvas:
    """The alternate screen of a terminal, from ``with`` on until its end or :meth:`close`. Only lines that changed are
    sent, all at one go: nothing flickers."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: list[list[Segment]] = []
        self._size = console.size
        self._is_open = False

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as they are now."""
        return self._console.size

    def __enter__(self) -> Self:
        self._is_open = True
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines from the top, and nothing below."""
        if not self._is_open:
            return
        size = self._console.size
        options = self._console.options.update_dimensions(size.width, size.height)
        made = self._console.render_lines(Group(*lines), options, pad=True)
        known = self._shown if size == self._size else []
        with self._console:  # one write for all
            for y, line in enumerate(made):
                if y >= len(known) or line != known[y]:
                    self._console.update_screen_lines([line], 0, y)
            self._console.control(Control.home())  # where what is typed meanwhile does least harm
        self._shown, self._size = made, size

    def close(self) -> None:
        """Give the terminal back; twice is fine."""
        if self._is_open:
            self._is_open = False
            self._console.show_cursor(True)
            self._console.set_alt_screen(False)
