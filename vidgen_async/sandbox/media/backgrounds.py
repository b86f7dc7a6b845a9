"""What a film shows behind its text: a picture, or shapes in colours that follow from the prompt."""

import hashlib
import io
import random
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageOps

from vidgen_async.sandbox.media.video_content import Film, Picture

#: Two colours of the ground and one of the shapes.
PALETTES: Sequence[tuple[str, str, str]] = (
    ("#263468", "#ffa678", "#ffe8be"),
    ("#102a4c", "#7ac8d6", "#f0fcf4"),
    ("#5e3a7a", "#ffb6a4", "#fff0d6"),
    ("#184e62", "#f8d692", "#fff6d4"),
    ("#16183a", "#685ca8", "#f4ecff"),
)
#: The size of a background relative to the frame, which moves over it.
ROOM = 9 / 8


def draw_background(film: Film, picture: Picture | None) -> Image.Image:
    """Return an image that is a little larger than the frame: the picture, or shapes if there is nothing to show."""
    size = round(film.width * ROOM), round(film.height * ROOM)
    image = open_picture(picture, size) if picture else None
    if image is None:
        return _shapes(size, film.prompt + (picture.label if picture else ""))
    return ImageOps.fit(image, size)


def open_picture(picture: Picture, size: tuple[int, int]) -> Image.Image | None:
    """Return the picture, upright and opaque, to be shown at ``size``; None if there is nothing to show."""
    if picture.content is None:
        return None
    try:
        with Image.open(io.BytesIO(picture.content)) as image:
            image.thumbnail((size[0] * 4, size[1] * 4), reducing_gap=2)  # before conversions, which need more memory
            ImageOps.exif_transpose(image, in_place=True)
            upright = image.convert("RGBA")
    except (OSError, ValueError, SyntaxError):  # invalid metadata in a picture that could be decoded
        return None
    return Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright).convert("RGB")


def _shapes(size: tuple[int, int], seed: str) -> Image.Image:
    """Draw discs on a gradient. They depend on the seed only."""
    rng = random.Random(hashlib.sha256(seed.encode("utf-8", "replace")).digest())  # noqa: S311 - art
    dark, light, shape = rng.choice(PALETTES)
    image = ImageOps.colorize(Image.linear_gradient("L"), dark, light).resize(size)
    draw = ImageDraw.Draw(image, "RGBA")
    for _ in range(12):
        centre, radius = (rng.uniform(0, size[0]), rng.uniform(0, size[1])), min(size) * rng.uniform(0.03, 0.3)
        draw.circle(centre, radius, fill=f"{shape}40")
    return image
