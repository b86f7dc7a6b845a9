"""Makes the small videos of the package again: ``python -m tests.sandbox.make_placeholders``. Needs the extra video.

The same releases of PyAV and Pillow give the same bytes.
"""

from fractions import Fraction
from pathlib import Path

import av

from vidgen_async.sandbox.media import placeholder_video
from vidgen_async.sandbox.media.placeholder_video import COMMENT, file_name
from vidgen_async.sandbox.media.renderer import FPS, _frames
from vidgen_async.sandbox.media.video_content import RATIOS, Film, size_of

FOLDER = Path(placeholder_video.__file__).with_name("placeholders")
PROMPT = "A placeholder of the sandbox"


def make(folder: Path) -> None:
    """Write one file for each aspect ratio: one second, small pictures, the best compression."""
    for ratio in RATIOS:
        film = Film(PROMPT, 1, *size_of("240p", ratio))
        with av.open(str(folder / file_name(ratio)), "w", options={"movflags": "+faststart"}) as container:
            container.metadata["comment"] = COMMENT.decode()
            stream = container.add_stream("libx264", rate=FPS, options={"preset": "veryslow", "crf": "30"})
            stream.width, stream.height, stream.pix_fmt = film.width, film.height, "yuv420p"
            stream.codec_context.thread_count = 1
            for number, frame in enumerate(_frames(film)):
                frame.pts, frame.time_base = number, Fraction(1, FPS)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))


if __name__ == "__main__":
    make(FOLDER)
