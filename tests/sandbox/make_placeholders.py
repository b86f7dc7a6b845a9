"""Makes the small videos of the package again: ``python -m tests.sandbox.make_placeholders``. Needs the extra video.

The same releases of PyAV and Pillow give the same bytes.
"""

from pathlib import Path

import av

from vidgen_async.sandbox import media
from vidgen_async.sandbox.media import COMMENT, RATIOS, Film, encode, file_name, size_of

FOLDER = Path(media.__file__).with_name("placeholders")
PROMPT = "A placeholder of the sandbox"


def make(folder: Path) -> None:
    """Write one file for each aspect ratio: one second, small pictures, the best compression."""
    for ratio in RATIOS:
        film = Film(PROMPT, 1, *size_of("240p", ratio))
        with av.open(str(folder / file_name(ratio)), "w", options={"movflags": "+faststart"}) as container:
            container.metadata["comment"] = COMMENT.decode()
            encode(film, container, lambda: False, preset="veryslow", crf="30")


if __name__ == "__main__":
    make(FOLDER)
