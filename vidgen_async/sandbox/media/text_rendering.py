"""Draws the text of a film: fonts, line breaks and positions."""

from contextlib import suppress
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from vidgen_async.sandbox.media.video_content import Film

ACCENT = (255, 190, 92)
GROUND = (6, 9, 20, 180)
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
#: Typographic characters that the bundled font does not have.
_PLAIN = str.maketrans("\u2010\u2011\u2012\u2013\u2014\u2018\u2019\u201c\u201d\u201e", '-----\'\'"""')


def caption(film: Film, notes: tuple[str, ...]) -> Image.Image:
    """Draw the prompt as large as it fits, with the notes below it, on a dark ground as wide as the frame."""
    margin, small, short = margin_of(film), note_size(film), min(film.width, film.height)
    text = printable(film.prompt[:LONGEST]) or "..."
    for size in (short // 16, short // 22, short // 30, short // 40):
        letters = font(size, is_ascii=text.isascii())
        lines, most = wrap(text, film.width - 2 * margin, letters), int(film.height * 0.36 / (size * LINE_HEIGHT))
        if len(lines) <= most:
            break
    else:
        lines = [*lines[: most - 1], f"{lines[most - 1][:-3]}..."]
    text_height = round(len(lines) * size * LINE_HEIGHT)
    image = Image.new("RGBA", (film.width, margin + text_height + 3 * small + margin), GROUND)
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        draw.text((margin, margin + row * size * LINE_HEIGHT), line, font=letters)
    note = printable(" | ".join(notes))
    letters = font(small, is_ascii=note.isascii())
    room = film.width - 2 * margin - 8 * small  # the time is drawn to the right of it
    while len(note) > 3 and letters.getlength(note) > room:
        note = f"{note[:-4]}..."
    draw.text((margin, image.height - margin - 2 * small), note, font=letters)
    return image


def draw_progress(frame: Image.Image, film: Film, second: int, share: float) -> None:
    """Draw ``0:03 / 0:08`` above a bar of which ``share`` is filled."""
    margin, small, draw = margin_of(film), note_size(film), ImageDraw.Draw(frame)
    right, top = film.width - margin, film.height - margin
    text = f"{second // 60}:{second % 60:02} / {film.seconds // 60}:{film.seconds % 60:02}"
    draw.text((right, top - 2 * small), text, font=font(small), anchor="ra")
    draw.rectangle((margin, top - small // 4, right, top), fill=(92, 98, 118))
    draw.rectangle((margin, top - small // 4, margin + (right - margin) * share, top), fill=ACCENT)


def margin_of(film: Film) -> int:
    return min(film.width, film.height) // 18


def note_size(film: Film) -> int:
    return max(12, min(film.width, film.height) // 38)


def printable(text: str) -> str:
    """Return the text as one line, with plain quotes and dashes, and without control characters and surrogates."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text.translate(_PLAIN)).split())


@lru_cache(maxsize=64)
def font(size: int, *, is_ascii: bool = True) -> ImageFont.FreeTypeFont:
    """Return the bundled font, which has little more than ASCII, or an installed font with more, if any."""
    for name in () if is_ascii else WIDER_FONTS:
        with suppress(OSError):
            return ImageFont.truetype(name, size)
    found = ImageFont.load_default(size)
    if not isinstance(found, ImageFont.FreeTypeFont):
        raise TypeError("this Pillow was built without FreeType, which the sandbox needs to draw its videos")
    return found


def wrap(text: str, width: float, letters: ImageFont.FreeTypeFont) -> list[str]:
    """Return lines no wider than ``width``. A wider word is broken anywhere."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if letters.getlength(longer) <= width:
            lines[-1] = longer
            continue
        lines.append("")
        for letter in word:
            if letters.getlength(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return [line for line in lines if line]
