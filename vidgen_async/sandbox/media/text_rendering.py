"""Draws the text of a film: fonts, line breaks and positions."""

import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from vidgen_async.sandbox.media.video_content import Film

WHITE = (255, 255, 255, 255)
ACCENT = (255, 190, 92)
LINE_HEIGHT = 1.3
#: Characters of a prompt that are shown.
LONGEST = 1500
#: Fonts with more scripts than the bundled one; the first that is installed is used.
WIDER_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "PingFang.ttc",
    "msyh.ttc",
    "wqy-zenhei.ttc",
    "Arial Unicode.ttf",
    "DejaVuSans.ttf",
)
_PLAIN = {"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'"} | {
    "\u201a": ",",
    "\u201c": '"',
    "\u201d": '"',
    "\u201e": '"',
    "\u2026": "...",
    "\u00df": "ss",
    "\u00e6": "ae",
}


def caption(film: Film) -> Image.Image:
    """Draw the prompt as large as it fits, with the notes below it, on a dark gradient as wide as the frame."""
    margin = margin_of(film)
    width, small = film.width - 2 * margin, note_size(film)
    size, lines = _fit(film, width)
    text_height = round(len(lines) * size * LINE_HEIGHT)
    height = even(text_height + round(3.4 * small) + margin + min(film.height // 5, 3 * margin))
    image = _shade(film.width, height)
    top = height - margin - round(3.4 * small) - text_height
    for row, line in enumerate(lines):
        _write(image, (margin, top + row * size * LINE_HEIGHT), line, _font_for(line, size))
    notes = "   ·   ".join(printable(note) for note in film.notes)
    _write(image, (margin, height - margin - round(2.6 * small)), notes, font(small), opacity=190)
    return image


def time_code(film: Film, second: int) -> Image.Image:
    """Draw ``0:03 / 0:08``, right-aligned in an image of constant size."""
    letters = font(note_size(film))
    image = Image.new("RGBA", (even(round(letters.getlength("00:00 / 00:00"))), even(round(letters.size * 1.5))))
    text = f"{second // 60}:{second % 60:02} / {film.seconds // 60}:{film.seconds % 60:02}"
    ImageDraw.Draw(image).text((image.width, 0), text, font=letters, fill=(*WHITE[:3], 215), anchor="ra")
    return image


def badge(film: Film, text: str) -> Image.Image:
    """Draw a word on a small dark background with round ends."""
    letters = font(note_size(film))
    size = (even(round(letters.getlength(text) + 2.2 * letters.size)), even(round(letters.size * 2.1)))
    image = Image.new("RGBA", size)
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((0, 0, size[0] - 1, size[1] - 1), size[1] // 2, fill=(10, 14, 26, 150))
    draw.text((size[0] / 2, size[1] / 2), text, font=letters, fill=(*WHITE[:3], 225), anchor="mm")
    return image


def margin_of(film: Film) -> int:
    """Return the width of the margin at the edges of the frame."""
    return even(min(film.width, film.height) // 18)


def note_size(film: Film) -> int:
    """Return the size of the small text."""
    return max(12, min(film.width, film.height) // 38)


def even(number: int) -> int:
    """Return the number, or the next one if it is odd."""
    return number + number % 2


def printable(text: str) -> str:
    """Return the text as one line, without control characters and lone surrogates."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def drawable(text: str) -> str:
    """Return the text with characters that no font has replaced by plain ones (a for ä) where possible."""
    return "".join(letter if _has(font(20), letter) else _plain(letter) for letter in text)


@lru_cache(maxsize=64)
def font(size: int, *, wide: bool = False) -> ImageFont.FreeTypeFont:
    """Return the bundled font, which has little more than ASCII; ``wide``: an installed font with more, if any."""
    for name in WIDER_FONTS if wide else ():
        with suppress(OSError):
            return ImageFont.truetype(name, size)
    found = ImageFont.load_default(size)
    if not isinstance(found, ImageFont.FreeTypeFont):
        raise TypeError("this Pillow was built without FreeType, which the sandbox needs to draw its videos")
    return found


def wrap(text: str, width: float, size: int) -> list[str]:
    """Return lines no wider than ``width``. A wider word is broken anywhere."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        letters = _font_for(longer, size)
        if letters.getlength(longer) <= width:
            lines[-1] = longer
        elif letters.getlength(word) <= width:
            lines.append(word)
        else:
            pieces = list(_break_word(word, width, letters))
            lines += pieces if lines[-1] else [lines.pop() + pieces[0], *pieces[1:]]
    return lines


def _fit(film: Film, width: float) -> tuple[int, list[str]]:
    """Return the largest font size at which the prompt fits, and its lines, cut off if no size fits."""
    text, short = drawable(printable(film.prompt[:LONGEST])) or "…", min(film.width, film.height)
    room = film.height * 0.36
    for size in range(short // 16, short // 42, -2):
        lines = wrap(text, width, size)
        if len(lines) * size * LINE_HEIGHT <= (room if size < short // 26 else room / 2):
            return size, lines
    shown = lines[: max(1, int(room / (size * LINE_HEIGHT)))]
    return size, [*shown[:-1], f"{shown[-1][:-2]} …"]


def _break_word(word: str, width: float, letters: ImageFont.FreeTypeFont) -> Iterator[str]:
    start = 0
    for end in range(1, len(word) + 1):
        if end - start > 1 and letters.getlength(word[start:end]) > width:
            yield word[start : end - 1]
            start = end - 1
    yield word[start:]


def _font_for(text: str, size: int) -> ImageFont.FreeTypeFont:
    return font(size, wide=not all(_has(font(20), letter) for letter in set(text)))


@lru_cache(maxsize=4096)
def _has(letters: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Return whether the font has a character, which otherwise looks like one that does not exist."""
    if letter.isspace():
        return True
    drawn, missing = letters.getmask(letter), letters.getmask("\U0010ffff")
    return drawn.size != missing.size or bytes(drawn) != bytes(missing)


def _plain(letter: str) -> str:
    if _has(font(20, wide=True), letter):
        return letter
    plain = _PLAIN.get(letter) or unicodedata.normalize("NFKD", letter)[0]
    return plain if plain != letter and all(_has(font(20), each) for each in plain) else letter


def _shade(width: int, height: int) -> Image.Image:
    column = Image.new("L", (1, height))
    for row in range(height):
        share = min(1.0, row / (height * 0.55))
        column.putpixel((0, row), round(196 * share * share * (3 - 2 * share)))
    image = Image.new("RGBA", (width, height), (6, 9, 20, 0))
    image.putalpha(column.resize((width, height)))
    return image


def _write(
    image: Image.Image, at: tuple[float, float], text: str, letters: ImageFont.FreeTypeFont, *, opacity: int = 255
) -> None:
    """Write white text with a soft shadow onto the image."""
    layer = Image.new("RGBA", image.size)
    draw = ImageDraw.Draw(layer)
    draw.text((at[0] + 1, at[1] + 2), text, font=letters, fill=(0, 0, 0, 120))
    draw.text(at, text, font=letters, fill=(*WHITE[:3], opacity))
    image.alpha_composite(layer)
