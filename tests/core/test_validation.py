"""Bad input is named, all of it at once, before anything is sent (2.4)."""

import pytest

from vidgen_async.errors import InvalidRequestError
from vidgen_async.resources import VideoRequest
from vidgen_async.validation import check_request, make_request


def problems_of(**fields) -> tuple[str, ...]:
    try:
        check_request(make_request(None, {"model": "vendorh3", "prompt": "a boat", **fields}))
    except InvalidRequestError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"duration": 8},
        {"duration": 8, "seconds": 8},
        {"ratio": "9:16", "aspect_ratio": "9:16"},
        {"image_urls": ["https://pics.test/a.png"]},
        {"reference_images": [{"url": "https://pics.test/a.png", "role": "first"}]},
        {"image_ids": ("img-1",), "attachments": [{"any": 1}], "mode": "fast", "extra": {"seed": 7}},
    ],
)
def test_a_good_request_has_no_problems(fields):
    assert problems_of(**fields) == ()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model": ""}, "model"),
        ({"model": 3}, "model"),
        ({"prompt": " \n"}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"duration": 0}, "duration"),
        ({"duration": "8"}, "duration"),
        ({"duration": True}, "duration"),
        ({"seconds": 8.5}, "seconds"),
        ({"duration": 8, "seconds": 9}, "seconds"),
        ({"ratio": "16/9"}, "ratio"),
        ({"ratio": "9:16", "aspect_ratio": "1:1"}, "aspect_ratio"),
        ({"resolution": ""}, "resolution"),
        ({"mode": 1}, "mode"),
        ({"image_urls": "https://pics.test/a.png"}, "image_urls"),
        ({"image_urls": ["hero.png"]}, "image_urls[0]"),
        ({"image_urls": ["https://a.test/1", "file:///etc/passwd"]}, "image_urls[1]"),
        ({"image_urls": ["data:image/png;base64,AAAA"]}, "image_urls[0]"),
        ({"video_urls": [7]}, "video_urls[0]"),
        ({"audio_urls": ["http://"]}, "audio_urls[0]"),
        ({"reference_images": [{"uri": "x"}]}, "reference_images[0]"),
        ({"reference_audios": ["https://a.test/1"]}, "reference_audios[0]"),
        ({"reference_videos": [{"url": "x"}]}, "reference_videos[0].url"),
        ({"image_ids": ["ok", ""]}, "image_ids[1]"),
        ({"attachments": ["x"]}, "attachments[0]"),
        ({"extra": {"images": []}}, "extra['images']"),
        ({"extra": {"prompt": "x"}}, "extra['prompt']"),
        ({"images": []}, "images"),
        ({"promt": "x"}, "promt"),
    ],
)
def test_a_problem_names_its_field(fields, named):
    problems = problems_of(**fields)
    assert len(problems) == 1
    assert problems[0].startswith(f"{named}:")


def test_all_problems_come_at_once():
    assert len(problems_of(prompt="", duration=-1, ratio="2:1", image_urls=["x", "y"])) == 5


def test_missing_fields_are_named():
    with pytest.raises(InvalidRequestError) as caught:
        make_request(None, {})
    assert caught.value.problems == ("model: required", "prompt: required")


def test_a_request_object_and_fields_do_not_mix():
    with pytest.raises(InvalidRequestError, match="not both"):
        make_request(VideoRequest(model="m", prompt="p"), {"duration": 5})


def test_a_request_shows_neither_its_prompt_nor_secrets_of_its_urls():
    request = VideoRequest(model="m", prompt="a secret plan", image_urls=["https://a.test/x?token=hush"])
    assert "secret plan" not in repr(request)
    assert "hush" not in repr(request)
