"""The moving backgrounds: a pan over a picture, a picture on a card, or hills under a sky."""

import hashlib
import io
import math
import random
from collections.abc import Sequence
from typing import Protocol

from attrs import frozen
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from vidgen_async.sandbox.media.text_rendering import drawable, even, font, note_size, printable
from vidgen_async.sandbox.media.video_content import Film, Picture
from vidgen_async.sandbox.media.yuv_planes import Overlay, Planes

Colour = tuple[int, int, int]

#: Upper sky, horizon, sun, and the hills from the far to the near.
PALETTES: Sequence[tuple[Colour, ...]] = (
    ((38, 52, 104), (255, 166, 120), (255, 232, 190), (126, 84, 128), (74, 58, 104), (32, 32, 66)),
    ((16, 42, 76), (122, 200, 214), (240, 252, 244), (62, 128, 146), (34, 88, 110), (14, 44, 64)),
    ((94, 58, 122), (255, 182, 164), (255, 240, 214), (168, 96, 134), (108, 66, 112), (52, 34, 70)),
    ((24, 78, 98), (248, 214, 146), (255, 246, 212), (98, 146, 112), (52, 102, 88), (22, 58, 58)),
    ((22, 24, 58), (104, 92, 168), (244, 236, 255), (62, 62, 122), (40, 42, 92), (18, 20, 50)),
)
#: A picture whose aspect ratio differs from the frame's by more than this factor is shown on a card.
NEAR_ENOUGH = 1.7
#: Pixels of an opened picture per shown pixel, along each side.
OVERSAMPLING = 4


class Scene(Protocol):
    """A moving background; ``frame`` counts from the start of the scene."""

    def at(self, frame: int) -> Planes: ...


@frozen(eq=False)
class Pan:
    """A pan over an image that is larger than the frame, by one pixel per frame, which looks smooth in every player. In
    the other direction more is cut off at the top, because the text covers the lower part of the frame."""

    image: Planes
    film: Film
    backwards: bool = False

    def at(self, frame: int) -> Planes:
        spare = self.image.size[0] - self.film.width, self.image.size[1] - self.film.height
        along = _long_side(self.film)
        moved = swing(frame, spare[along])
        moved = spare[along] - moved if self.backwards else moved
        left, top = (moved, spare[1] * 2 // 3) if along == 0 else (spare[0] // 2, moved)
        return self.image.window(left, top, self.film.width, self.film.height)


@frozen(eq=False)
class Card:
    """An image that moves slowly in front of another scene, in the part of the frame without text."""

    behind: Scene
    card: Overlay
    film: Film
    drift: int

    def at(self, frame: int) -> Planes:
        planes = self.behind.at(frame)
        left = (self.film.width - self.card.size[0] + self.drift) // 2 - swing(frame, self.drift)
        self.card.put(planes, left, (round(self.film.height * 0.66) - self.card.size[1]) // 2)
        return planes


@frozen(eq=False)
class Hills:
    """A still sky with hills that move in front of it; nearer hills move faster."""

    sky: Planes
    layers: tuple[Overlay, ...]
    film: Film

    def at(self, frame: int) -> Planes:
        planes = self.sky.window(0, 0, self.film.width, self.film.height)
        for speed, layer in enumerate(self.layers, 1):
            left = -swing(frame * speed, layer.size[0] - self.film.width)
            layer.put(planes, left, self.film.height - layer.size[1])
        return planes


def swing(frame: int, span: int) -> int:
    """Return the position of something that moves to and fro between 0 and ``span``, one step per frame."""
    if span <= 0:
        return 0
    at = frame % (2 * span)
    return at if at <= span else 2 * span - at


def scene_for(picture: Picture, film: Film, frames: int, *, backwards: bool) -> Scene:
    """Return the scene that shows ``picture`` for this many frames."""
    image = open_picture(picture, (film.width, film.height))
    if image is None:
        return Card(
            hills(film, frames, picture.label), Overlay.of(_name_card(picture.label, film)), film, film.width // 8
        )
    shape = (image.width / image.height) / (film.width / film.height)
    if 1 / NEAR_ENOUGH <= shape <= NEAR_ENOUGH:
        return Pan(Planes.of(_cover(image, film, frames)), film, backwards)
    behind = Pan(Planes.of(_cover(_blur(image), film, frames)), film, backwards)
    return Card(behind, Overlay.of(_picture_card(image, film)), film, film.width // 12)


def open_picture(picture: Picture, size: tuple[int, int]) -> Image.Image | None:
    """Return the picture, upright and opaque; None if there is nothing to show.

    It is reduced during or right after decoding to the size that is needed to show it well at ``size``.
    """
    if picture.content is None:
        return None
    room = size[0] * size[1] * OVERSAMPLING**2
    try:
        with Image.open(io.BytesIO(picture.content)) as source:
            share = min(1.0, math.sqrt(room / (source.width * source.height)))
            source.draft(None, (math.ceil(source.width * share), math.ceil(source.height * share)))
            ImageOps.exif_transpose(source, in_place=True)
            upright = _shrink(source, room).convert("RGBA")
    except (OSError, ValueError, SyntaxError, Warning):  # invalid metadata in a picture that could be decoded
        return None
    return Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright).convert("RGB")


def _shrink(image: Image.Image, room: int) -> Image.Image:
    """Return the image with at most about ``room`` pixels."""
    factor = math.ceil(math.sqrt(image.width * image.height / room))
    if factor <= 1:
        return image
    if image.mode not in ("L", "LA", "RGB", "RGBA"):
        image = image.convert("L" if image.mode == "1" else "RGBA")
    return image.reduce(factor)


def hills(film: Film, frames: int, seed: str = "") -> Hills:
    """Return a landscape whose colours and shapes depend on the prompt and the seed only."""
    rng = random.Random(hashlib.sha256(f"{film.prompt}{seed}".encode("utf-8", "replace")).digest())  # noqa: S311 - art
    upper, horizon, sun, *grounds = rng.choice(PALETTES)
    layers = []
    for nearness, colour in enumerate(grounds, 1):
        spare = min(frames * nearness, film.width)
        height = even(round(film.height * (0.58 - 0.12 * nearness)))
        layers.append(Overlay.of(_ridge((even(film.width + spare), height), colour, film, rng)))
    return Hills(Planes.of(_sky(film, upper, horizon, sun, rng)), tuple(layers), film)


def _sky(film: Film, upper: Colour, horizon: Colour, sun: Colour, rng: random.Random) -> Image.Image:
    column = Image.linear_gradient("L").crop((0, 0, 1, 150)).resize((1, film.height))
    sky = ImageOps.colorize(column, upper, horizon, whitepoint=120).resize((film.width, film.height))
    short = min(film.width, film.height)
    centre = (film.width * rng.uniform(0.25, 0.75), film.height * 0.34)
    for step in range(4):
        _disc(sky, centre, short * (0.36 - 0.07 * step), sun, 26)
    _disc(sky, centre, short * 0.1, sun, 255)
    return sky


def _disc(image: Image.Image, centre: tuple[float, float], radius: float, colour: Colour, strength: int) -> None:
    size = int(radius * 2)
    mask = Image.new("L", (size * 2, size * 2))
    ImageDraw.Draw(mask).ellipse((2, 2, size * 2 - 2, size * 2 - 2), fill=strength)
    smooth = mask.resize((size, size), Image.Resampling.LANCZOS)
    image.paste(colour, (int(centre[0] - radius), int(centre[1] - radius)), smooth)


def _ridge(size: tuple[int, int], colour: Colour, film: Film, rng: random.Random) -> Image.Image:
    """Draw one line of hills; its upper edge is a sum of waves, drawn at twice the size for smooth edges."""
    width, height = size
    waves = [
        (rng.uniform(0.5, 1.6) * (octave + 1), rng.uniform(0, math.tau), 0.16 / (octave + 1)) for octave in range(3)
    ]
    edge = []
    for across in range(0, 2 * width + 8, 8):
        phase = across / (2 * film.width) * math.tau
        rise = sum(strength * math.sin(phase * often + shift) for often, shift, strength in waves)
        edge.append((across, 2 * height * (0.3 - rise)))
    mask = Image.new("L", (2 * width, 2 * height))
    ImageDraw.Draw(mask).polygon([*edge, (2 * width, 2 * height), (0, 2 * height)], fill=255)
    image = Image.new("RGBA", size, colour)
    image.putalpha(mask.resize(size, Image.Resampling.BOX))
    return image


def _blur(image: Image.Image) -> Image.Image:
    """Return the image small, out of focus and darker, so that no detail is recognisable."""
    small = ImageOps.contain(image, (96, 96)).filter(ImageFilter.GaussianBlur(4))
    return small.point(lambda value: value * 0.55)


def _long_side(film: Film) -> int:
    """Return 0 if the frame is wide, 1 if it is tall."""
    return 0 if film.width >= film.height else 1


def _cover(image: Image.Image, film: Film, frames: int) -> Image.Image:
    """Return the image scaled to the frame plus the distance of the pan along the frame's longer side."""
    size = [film.width, film.height]
    along = _long_side(film)
    size[along] += min(max(frames, size[along] // 12), size[along] // 4)
    scale = max(size[0] / image.width, size[1] / image.height)
    scaled = (even(math.ceil(image.width * scale)), even(math.ceil(image.height * scale)))
    return image.resize(scaled, Image.Resampling.BICUBIC, reducing_gap=2)


def _picture_card(image: Image.Image, film: Film) -> Image.Image:
    shown = ImageOps.contain(image, (round(film.width * 0.8), round(film.height * 0.5)), Image.Resampling.LANCZOS)
    border = max(4, min(film.width, film.height) // 110)
    return _add_shadow(ImageOps.expand(shown, border, (250, 248, 242)), border)


def _name_card(label: str, film: Film) -> Image.Image:
    """Draw a card for a picture on another host: an outline, and its address."""
    size = note_size(film)
    text = drawable(printable(label))
    text = text if len(text) <= 44 else f"{text[:20]} … {text[-20:]}"
    text_width = font(size).getlength(text)
    card = Image.new("RGB", (even(round(max(text_width + 4 * size, 13 * size))), even(8 * size)), (250, 248, 242))
    draw, middle = ImageDraw.Draw(card), card.width / 2
    ink = (70, 78, 104)
    box = (middle - 2.6 * size, 1.3 * size, middle + 2.6 * size, 4.9 * size)
    draw.rounded_rectangle(box, size // 3, outline=ink, width=max(2, size // 8))
    draw.polygon([(box[0] + size * x, box[3] - size * y) for x, y in ((0.5, 0.5), (1.9, 2.2), (3.2, 0.5))], fill=ink)
    draw.polygon([(box[0] + size * x, box[3] - size * y) for x, y in ((2.7, 0.5), (3.6, 1.5), (4.7, 0.5))], fill=ink)
    draw.ellipse((box[2] - 1.7 * size, box[1] + 0.6 * size, box[2] - 0.8 * size, box[1] + 1.5 * size), fill=ink)
    draw.text((middle, 6.3 * size), text, font=font(size), fill=ink, anchor="mm")
    return _add_shadow(card, size // 2)


def _add_shadow(card: Image.Image, corner: int) -> Image.Image:
    """Return the card with round corners and a soft shadow."""
    spread = even(max(12, min(card.size) // 14))
    size = (even(card.width + 2 * spread), even(card.height + 2 * spread))
    box = (spread, spread, spread + card.width - 1, spread + card.height - 1)
    shadow = Image.new("L", size)
    ImageDraw.Draw(shadow).rounded_rectangle(box, corner, fill=150)
    image = Image.new("RGBA", size)
    image.putalpha(shadow.filter(ImageFilter.GaussianBlur(spread / 2.5)))
    mask = Image.new("L", card.size)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, card.width - 1, card.height - 1), corner, fill=255)
    image.paste(card, (spread, spread), mask)
    return image
