"""The report as a page for the browser: a card for each row, with its video."""

import io
import os
import tempfile
from base64 import b64encode
from collections import Counter
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.batch.outcomes import BatchOutcome, earlier_text
from vidgen_async.user_code import UserCode

_ENCODING = "utf-8", "backslashreplace"
#: Pixels of the longer side of a poster, and the bytes of a page after which videos have none.
_POSTER_SIDE = 320
_MOST_WITH_POSTERS = 20_000_000


def make_poster(path: Path) -> bytes:
    """The first frame of a video as a JPEG; empty without the extra ``video``, or if it cannot be decoded."""
    image = io.BytesIO()
    with UserCode(is_awaited=False):
        import av  # noqa: PLC0415 - an extra

        # Any other format may name further files, which would be opened.
        with path.open("rb") as file, av.open(file, "r", format="mp4") as container:
            frame = next(container.decode(video=0))
            scale = min(1, _POSTER_SIDE / max(frame.width, frame.height))
            width, height = (max(1, round(scale * side)) for side in (frame.width, frame.height))
            picture = frame.to_image(width=width, height=height)  # type: ignore[no-untyped-call] # PyAV has no types
            picture.save(image, "JPEG", quality=60)
    return image.getvalue()


class Page:
    """The cards are in a temporary file until the page is written, since the sums are above them."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._cards = tempfile.TemporaryFile()  # noqa: SIM115 - closed by write
        self._places: list[tuple[int, int, int]] = []
        """The line of each row, and where its card begins and ends in the file."""
        self._states: Counter[str] = Counter()
        self._points: Counter[str] = Counter()

    def add(self, outcome: BatchOutcome, poster: bytes) -> None:
        self._states[outcome.state] += 1
        self._points[outcome.points_basis] += 1 if outcome.points is None else outcome.points
        self._points["charged, may be refunded"] += outcome.earlier_points
        start = self._cards.tell()
        self._cards.write(self._card(outcome, poster).encode(*_ENCODING))
        self._places.append((outcome.line, start, self._cards.tell()))

    def write(self, file: AtomicFile) -> None:
        """Write the page, with the cards in the sequence of their lines."""
        sums = [f"{self._points[basis]:,} points {basis}" for basis in ("charged", "charged, may be refunded")]
        unknown = self._points["unknown"]
        texts = {
            "title": f"{self._path.stem}: {sum(self._states.values()):,} videos",
            "states": " · ".join(f"{count:,} {_words(state)}" for state, count in sorted(self._states.items())),
            "points": " · ".join([*sums, f"{unknown:,} videos with unknown points"][: 3 if unknown else 2]),
        }
        template = files("vidgen_async.batch").joinpath("page.html").read_text("utf-8")
        head, tail = template.split("$cards")
        file.write(Template(head).substitute({name: escape(text) for name, text in texts.items()}).encode(*_ENCODING))
        with self._cards as cards:
            for _, start, end in sorted(self._places):
                cards.seek(start)
                file.write(cards.read(end - start))
        file.write(tail.encode())

    def _card(self, outcome: BatchOutcome, poster: bytes) -> str:
        points = "unknown points" if outcome.points_basis == "unknown" else ""
        points = points if outcome.points is None else f"{outcome.points:,} points"
        facts = [points, earlier_text(outcome), outcome.task_id or "", f"line {outcome.line}"]
        video = ""
        if outcome.path is not None:
            has_poster = poster and self._cards.tell() < _MOST_WITH_POSTERS
            frame = f' poster="data:image/jpeg;base64,{b64encode(poster).decode()}"' if has_poster else ""
            link = escape(self._link(outcome.path))
            video = f'<video controls preload="none" loading="lazy"{frame} src="{link}"></video>'
        return (
            f'<article class="{outcome.state}">{video}<h2>{escape(outcome.order_id)}</h2>'
            f"<p>{escape(outcome.prompt)}</p>"
            f"<p><b>{_words(outcome.state)}</b> {escape(outcome.failure)}</p>"
            f"<p>{escape(' · '.join(filter(None, facts)))}</p></article>\n"
        )

    def _link(self, path: Path) -> str:
        try:
            return quote(os.fsencode(os.path.relpath(path, self._path.parent).replace(os.sep, "/")), safe="/")
        except ValueError:  # another drive of Windows
            return path.absolute().as_uri()


def _words(state: str) -> str:
    return state.replace("_", " ")
