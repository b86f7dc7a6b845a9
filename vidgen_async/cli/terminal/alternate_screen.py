"""A whole terminal to draw on, which is as it was when that is over."""

import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.control import Control
from rich.text import Text

if TYPE_CHECKING:
    from rich.segment import Segment


class Canvas:
    """The alternate screen of a terminal, from ``with`` on until its end or :meth:`close`. Only lines that changed are
    sent, all at one go: nothing flickers. While the program is suspended (Ctrl-Z) the terminal is as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: list[list[Segment]] = []
        self._size = console.size
        self._is_open = False
        self._is_drawing = False
        self._is_asked_to_stop = False
        self._is_suspendable = False

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as they are now."""
        return self._console.size

    def __enter__(self) -> Self:
        self._is_open = True
        self._take()
        if hasattr(signal, "SIGTSTP") and threading.current_thread() is threading.main_thread():
            self._is_suspendable = signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
        if self._is_suspendable:
            signal.signal(signal.SIGTSTP, self._asked_to_stop)
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
        self._is_drawing = True
        with self._console:  # one write for all
            for y, line in enumerate(made):
                if y >= len(known) or line != known[y]:
                    self._console.update_screen_lines([line], 0, y)
            self._console.control(Control.home())  # where what is typed meanwhile does least harm
        self._shown, self._size = made, size
        self._is_drawing = False
        if self._is_asked_to_stop:
            self._suspend()

    def close(self) -> None:
        """Give the terminal back; twice is fine."""
        if self._is_open:
            self._is_open = False
            self._give_back()
            if self._is_suspendable:
                signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _take(self) -> None:
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _give_back(self) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._is_asked_to_stop = True
        if not self._is_drawing:  # else what is written now would come after the rest of the picture
            self._suspend()

    def _suspend(self) -> None:
        self._is_asked_to_stop = False
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Here the program stands still until somebody lets it go on.
        signal.signal(signal.SIGTSTP, self._asked_to_stop)
        self._shown = []
        self._take()
