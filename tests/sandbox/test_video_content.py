"""The videos: they play, have the requested length and size, and show the prompt and moving pictures."""

import io
from typing import Any

import av
import pytest
from attrs import evolve, frozen
from PIL import Image, ImageChops, ImageStat

from tests.sandbox.conftest import picture
from vidgen_async.sandbox.media.backgrounds import open_picture
from vidgen_async.sandbox.media.renderer import RenderingStopped, render
from vidgen_async.sandbox.media.text_rendering import drawable, font, printable, wrap
from vidgen_async.sandbox.media.video_content import Film, Picture, size_of


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


@pytest.mark.slow
async def test_a_task_without_a_duration_has_the_first_duration_of_its_model(service, api):
    task_id = (await api.create(ratio="3:4")).json["id"]
    service.clock.advance(4)

    played = decode((await api.get(f"/videos/{task_id}/content")).body)

    assert played.frames[0].size == (720, 960)
    assert played.seconds == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("size", [(366, 640), (1366, 768)])
@pytest.mark.slow
def test_a_video_is_h264_of_exactly_the_requested_length_and_size(size):
    film = make_film(seconds=1, width=size[0], height=size[1])

    played = play(film)

    assert (played.codec, played.pixel_format, played.frames[0].size) == ("h264", "yuv420p", size)
    assert played.seconds == pytest.approx(1, abs=0.1)


def test_the_index_precedes_the_data_so_that_it_plays_while_it_loads():
    video = render(make_film(), lambda: False)

    assert video[4:8] == b"ftyp"
    assert video.index(b"moov") < video.index(b"mdat")


@pytest.mark.slow
def test_equal_films_give_equal_bytes_and_other_prompts_do_not():
    one, again, other = (render(make_film(prompt=prompt), lambda: False) for prompt in ("boat", "boat", "ship"))

    assert one == again != other


def test_without_pictures_the_video_shows_a_moving_landscape():
    frames = play(make_film()).frames

    assert differ(frames[0].crop((0, 0, 640, 240)), frames[-1].crop((0, 0, 640, 240)))


def test_the_prompt_is_white_on_a_dark_ground_in_every_frame():
    for frame in play(make_film(pictures=(Picture("white", picture("white", (640, 360))),))).frames:
        words = frame.crop((20, 250, 400, 300)).convert("L")
        darkest, lightest = words.getextrema()
        assert darkest < 110
        assert lightest > 215
        assert 0.02 < sum(words.histogram()[200:]) / (380 * 50) < 0.5


def test_another_prompt_shows_another_text():
    first, second = (
        play(make_film(prompt=prompt, pictures=(Picture("p", picture("gray")),))).frames[0] for prompt in "XL"
    )

    assert differ(first.crop((20, 250, 120, 300)), second.crop((20, 250, 120, 300)))


def test_a_picture_with_the_ratio_of_the_frame_fills_it_and_moves():
    image = Image.linear_gradient("L").rotate(90).resize((640, 360))
    red = Image.merge("RGB", (image, Image.new("L", image.size, 20), Image.new("L", image.size, 30)))
    file = io.BytesIO()
    red.save(file, "PNG")

    frames = play(make_film(pictures=(Picture("p", file.getvalue()),))).frames

    assert differ(frames[0], frames[-1])
    left, right = (colour_of(frames[0], (at, 100, at + 20, 160)) for at in (40, 560))
    assert abs(left[0] - right[0]) > 100
    assert max(left[1:] + right[1:]) < 60


@pytest.mark.parametrize("size", [(120, 300), (600, 120)])
def test_a_picture_with_another_ratio_is_shown_completely_on_a_card(size):
    frame = play(make_film(pictures=(Picture("p", picture("#10d040", size)),))).frames[2]

    red, green, blue = colour_of(frame, (310, 110, 330, 130))
    assert green > 180 > 90 > max(red, blue)


@pytest.mark.slow
def test_several_pictures_are_shown_one_after_the_other():
    pictures = tuple(Picture(colour, picture(colour, (640, 360))) for colour in ("red", "blue"))

    frames = play(make_film(seconds=2, pictures=pictures)).frames

    first, last = (colour_of(frames[at], (200, 100, 400, 200)) for at in (0, -1))
    assert first[0] > 150 > 60 > first[2]
    assert last[2] > 150 > 60 > last[0]


@pytest.mark.slow
def test_a_picture_that_is_external_or_invalid_is_a_card_with_its_name():
    for shown_picture in (Picture("pics.test/" + "harbour" * 20 + ".png"), Picture("broken", picture()[:50])):
        frame = play(make_film(pictures=(shown_picture,))).frames[0]

        assert max(sum(pixel) for pixel in frame.crop((300, 60, 340, 180)).get_flattened_data()) > 700


def test_transparency_and_rotation_of_a_picture_are_respected():
    file = io.BytesIO()
    upright = Image.new("RGBA", (64, 48), (255, 0, 0, 0))
    exif = upright.getexif()
    exif[0x0112] = 6
    upright.save(file, "PNG", exif=exif)

    frame = play(make_film(pictures=(Picture("p", file.getvalue()),))).frames[0]

    assert min(colour_of(frame, (310, 110, 330, 130))) > 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "prompt",
    [
        "\ud800 half a pair",
        "纸船在黎明航行 🚤",
        "زورق ورقي",
        "e\u0301\u200d\ufeff\x00\x07\n\t",
        " ",
        "x" * 2000,
        "word " * 800,
    ],
    ids=["surrogate", "cjk", "arabic", "controls", "blank", "one long word", "many words"],
)
def test_every_prompt_can_be_rendered(prompt):
    assert play(make_film(prompt=prompt, width=180, height=320)).seconds == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_thirty_pictures_fit_into_one_film():
    pictures = (Picture("elsewhere"), *(Picture(f"p{number}", picture()) for number in range(29)))

    assert play(make_film(pictures=pictures)).seconds == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_the_progress_bar_grows_with_time():
    frames = play(make_film(pictures=(Picture("p", picture("black", (640, 360))),)), every=1).frames

    lengths = [
        sum(pixel[0] - pixel[2] > 60 for pixel in frame.crop((0, 330, 640, 344)).get_flattened_data())
        for frame in frames
    ]
    assert lengths == sorted(lengths)
    assert lengths[-1] > 10 * lengths[0] > 0


def test_lines_are_no_wider_than_the_limit_and_lose_no_character():
    text = "A paper boat " + "x" * 300 + " sails"

    lines = wrap(text, 300, 20)

    assert max(font(20).getlength(line) for line in lines) <= 300
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_characters_that_no_font_has_are_replaced_by_plain_ones():
    assert drawable("Ab 1") == "Ab 1"
    assert drawable("\u2212\u0227")[1] in "a\u0227"
    assert printable("a\n\x07b\ud800  c") == "a b c"


def test_a_rendering_can_be_stopped_between_two_frames():
    answers = iter([False, False, True])

    with pytest.raises(RenderingStopped):
        render(make_film(), lambda: next(answers))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_a_very_large_picture_is_decoded_at_the_size_that_is_shown(kind, mode):
    file = io.BytesIO()
    Image.new(mode, (2000, 1500), 1 if mode == "1" else "white").save(file, kind)

    image = open_picture(Picture("large", file.getvalue()), (80, 45))

    assert 80 * 45 <= image.width * image.height <= 17 * 80 * 45
    assert image.width / image.height == pytest.approx(4 / 3, rel=0.05)
    assert colour_of(image, (0, 0, *image.size)) == (255, 255, 255)


@pytest.mark.slow
def test_many_pictures_fit_into_a_very_small_video():
    pictures = tuple(Picture(str(n), picture()) for n in range(30))

    played = play(make_film(width=100, height=100, pictures=pictures))

    assert played.frames[0].size == (100, 100)
