"""The videos: they play, have the requested length and size, and show the prompt on a gradient that moves."""

import io
from typing import Any

import av
import pytest
from attrs import evolve, frozen
from PIL import Image, ImageChops, ImageStat

from tests.sandbox.conftest import picture
from vidgen_async.sandbox.media import Film, RenderingStopped, drawable, render, size_of


@frozen
class DecodedVideo:
    """A decoded video."""

    seconds: float
    codec: str
    pixel_format: str
    frames: list[Image.Image]


def decode(video: bytes, every: int = 6) -> DecodedVideo:
    with av.open(io.BytesIO(video)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_image() for at, frame in enumerate(container.decode(video=0)) if at % every == 0]
        codec = stream.codec_context
        return DecodedVideo(container.duration / av.time_base, codec.name, codec.pix_fmt, frames)


def make_film(**changes: Any) -> Film:
    film = Film("A paper boat sails at dawn", 1, 640, 360, (), ("gen-2.0",))
    return evolve(film, **changes)


def play(film: Film, every: int = 6) -> DecodedVideo:
    return decode(render(film, lambda: False), every)


def colour_of(image: Image.Image, box: tuple[int, int, int, int]) -> tuple[float, ...]:
    return tuple(ImageStat.Stat(image.crop(box)).mean)


def differ(first: Image.Image, second: Image.Image) -> bool:
    return max(ImageStat.Stat(ImageChops.difference(first, second)).mean) > 0.3


@pytest.mark.parametrize(
    ("resolution", "ratio", "size"),
    [
        ("720p", "16:9", (1280, 720)),
        ("720p", "9:16", (720, 1280)),
        ("720p", "1:1", (720, 720)),
        ("720p", "4:3", (960, 720)),
        ("720p", "3:4", (720, 960)),
        ("768p", "16:9", (1366, 768)),
        ("768p", "3:4", (768, 1024)),
        ("auto", "16:9", (1280, 720)),
    ],
)
def test_the_size_follows_from_resolution_and_ratio_and_is_even(resolution, ratio, size):
    assert size_of(resolution, ratio) == size


@pytest.mark.parametrize("size", [(366, 640), (1366, 768)])
@pytest.mark.slow
def test_a_video_is_h264_of_exactly_the_requested_length_and_size(size):
    film = make_film(seconds=1, width=size[0], height=size[1])

    played = play(film)

    assert (played.codec, played.pixel_format, played.frames[0].size) == ("h264", "yuv420p", size)
    assert played.seconds == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("seconds", [1, 120])
def test_the_index_precedes_the_data_so_that_it_plays_while_it_loads(seconds):
    video = render(make_film(seconds=seconds, width=64, height=64), lambda: False)

    assert video[4:8] == b"ftyp"
    assert video.index(b"moov") < video.index(b"mdat")


@pytest.mark.slow
def test_equal_films_give_equal_bytes_and_other_prompts_do_not():
    one, again, other = (render(make_film(prompt=prompt), lambda: False) for prompt in ("boat", "boat", "ship"))

    assert one == again != other


#: Where the prompt is drawn, and a part of the frame without text.
PROMPT, EMPTY = (40, 100, 600, 220), (0, 20, 640, 90)


def test_a_gradient_moves_behind_the_prompt():
    frames = play(make_film()).frames

    assert differ(frames[0].crop(EMPTY), frames[-1].crop(EMPTY))
    left, right = (colour_of(frames[0], (at, 20, at + 20, 90)) for at in (0, 300))
    assert max(abs(one - other) for one, other in zip(left, right, strict=True)) > 20


def test_the_prompt_is_bright_with_a_dark_outline_in_every_frame():
    for frame in play(make_film()).frames:
        words = frame.crop(PROMPT).convert("L")
        darkest, lightest = words.getextrema()
        assert darkest < 60
        assert lightest > 200
        assert 0.02 < sum(words.histogram()[190:]) / (560 * 120) < 0.5


def test_another_prompt_shows_another_text_and_other_colours():
    first, second = (play(make_film(prompt=prompt)).frames[0] for prompt in "XL")

    assert differ(first.crop(PROMPT).convert("L"), second.crop(PROMPT).convert("L"))
    assert differ(first.crop(EMPTY), second.crop(EMPTY))


def test_other_pictures_are_another_video_of_the_same_prompt():
    first, second = (play(make_film(pictures=(name,))).frames[0] for name in ("a.png", "b.png"))

    assert differ(first.crop(EMPTY), second.crop(EMPTY))


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("A paper boat,\n at dawn!", "A paper boat, at dawn!"),
        ("Ein Boot fährt übers Meer", "Ein Boot fahrt ubers Meer"),
        ("a\n\x07b\ud800  c", "a b c"),
        ("纸船 a boat at dawn 🚤", "a boat at dawn"),
        ("8K 纸船在黎明航行", ""),
        ("زورق ورقي", ""),
        ("🚤🌅", ""),
        (" ", ""),
    ],
)
def test_the_text_has_the_characters_that_pillow_can_draw_or_none_if_that_is_less_than_half(text, drawn):
    assert drawable(text) == drawn


@pytest.mark.slow
async def test_a_prompt_that_cannot_be_drawn_is_replaced_by_the_task_id(service, api):
    ids = [(await api.create(prompt=prompt)).json["id"] for prompt in ("纸船", "boat")]

    assert [service.tasks[task_id].film.notes[0] for task_id in ids] == [ids[0], "gen-2.0"]
    assert [service.tasks[task_id].prompt for task_id in ids] == ["纸船", "boat"]
    first, second = (play(make_film(prompt="纸船", notes=(task_id,))).frames[0] for task_id in ids)
    assert first.crop(PROMPT).convert("L").getextrema()[1] > 200
    assert differ(first.crop(PROMPT).convert("L"), second.crop(PROMPT).convert("L"))


async def test_pictures_are_named_and_never_fetched(service, api):
    image_id = (await api.upload(picture())).json["image_id"]
    (asset,) = service.assets
    fields = {"model": "sd2_480p_real", "image_ids": [image_id], "image_urls": ["https://pics.test/a.png?x=1"]}
    task_id = (await api.create(**fields)).json["id"]

    assert service.tasks[task_id].film.pictures == (asset.name, "pics.test/a.png")


def test_a_bar_at_the_bottom_grows_with_time():
    rows = [frame.convert("L").crop((0, 357, 640, 358)) for frame in play(make_film(), every=1).frames]

    lengths = [sum(row.histogram()[190:]) for row in rows]
    assert lengths == sorted(lengths)
    assert lengths[-1] > 630 > 40 > lengths[0] > 0


@pytest.mark.slow
def test_after_a_seek_the_frame_of_that_time_is_shown():
    with av.open(io.BytesIO(render(make_film(seconds=12, width=64, height=64), lambda: False))) as container:
        stream = container.streams.video[0]
        container.seek(round(11 / stream.time_base), stream=stream)
        frame = next(container.decode(video=0))

    # Players decode from the key frame before that time.
    assert 0 < frame.time <= 11


def test_a_rendering_can_be_stopped_between_two_frames():
    answers = iter([False, False, True])

    with pytest.raises(RenderingStopped):
        render(make_film(), lambda: next(answers))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(100, 100), (2, 2), (16, 64)])
@pytest.mark.parametrize(
    "prompt", ["word " * 800, "x" * 2000, "\ud800 \u7eb8\u8239", "e\u0301\u200d\ufeff\x00\x07\n\t", " "]
)
def test_any_text_fits_into_very_small_videos(size, prompt):
    film = make_film(prompt=prompt, notes=("x" * 300,) * 30, width=size[0], height=size[1])

    assert play(film).frames[0].size == size
