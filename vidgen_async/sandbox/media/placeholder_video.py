"""The small videos that the package brings, one for each aspect ratio, for where PyAV is not installed.

``python -m tests.sandbox.make_placeholders`` makes them.
"""

import hashlib
import math
from functools import cache
from importlib.resources import files

from vidgen_async.sandbox.media.video_content import RATIOS, Film

#: The comment in the metadata of each file, which is replaced by one of the same length.
COMMENT = b"0" * 64


def placeholder(film: Film) -> bytes:
    """Return the small video whose aspect ratio is closest to that of the film.

    Its comment is a digest of the film, so that different films have different bytes, as when rendered.
    """
    shape = film.width / film.height
    ratio = min(RATIOS, key=lambda name: abs(math.log(shape * RATIOS[name][1] / RATIOS[name][0])))
    facts = (film.prompt, film.seconds, film.width, film.height, film.notes, [each.label for each in film.pictures])
    digest = hashlib.sha256(repr(facts).encode("utf-8", "backslashreplace"))
    for picture in film.pictures:
        digest.update(picture.content or b"")
    return _read(ratio).replace(COMMENT, digest.hexdigest().encode())


def file_name(ratio: str) -> str:
    """Return the name of the file of an aspect ratio."""
    return f"{ratio.replace(':', 'x')}.mp4"


@cache
def _read(ratio: str) -> bytes:
    return files("vidgen_async.sandbox.media").joinpath("placeholders", file_name(ratio)).read_bytes()
