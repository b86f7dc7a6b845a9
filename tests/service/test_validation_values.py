"""Odd values are problems with a name, and no problem shows more of a value than it may."""

import pytest

from vidgen_async.errors import InvalidRequestError
from vidgen_async.orders.error_messages import check_reason
from vidgen_async.service.request_checks import problems_of
from vidgen_async.types.resources import VideoRequest

HUGE = 10**5000


def found(**fields) -> list[str]:
    return problems_of(VideoRequest(**{"model": "m", "prompt": "a boat", **fields}))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"image_urls": 5}, "image_urls: must be a list, not int"),
        ({"image_urls": bytearray(b"x")}, "image_urls: must be a list, not bytearray"),
        ({"attachments": 5.5}, "attachments: must be a list, not float"),
        ({"extra": None}, "extra: must be an object, not NoneType"),
        ({"extra": 5}, "extra: must be an object, not int"),
        ({"extra": {1: 2}}, "extra: its names must be strings, not int"),
        ({"extra": {None: 2}}, "extra: its names must be strings, not NoneType"),
        ({"prompt": "a boat \ud800"}, "prompt: cannot be written as JSON: it holds a lone surrogate"),
        ({"mode": "\ud800"}, "mode: cannot be written as JSON: it holds a lone surrogate"),
        ({"image_ids": ["\ud800"]}, "image_ids: cannot be written as JSON: it holds a lone surrogate"),
        ({"extra": {"seed": {1}}}, "extra: cannot be written as JSON: Object of type set is not JSON serializable"),
        ({"duration": -HUGE}, "duration: must be a whole number of seconds, 1 or more: a number of very many digits"),
        (
            {"duration": 5, "seconds": HUGE},
            "seconds: an alias of duration, but they differ (5 and a number of very many digits); pass only one",
        ),
    ],
)
def test_an_odd_value_is_one_problem_of_its_field(fields, problem):
    assert found(**fields) == [problem]


def test_a_number_that_json_cannot_hold_is_a_problem():
    (problem,) = found(duration=HUGE)
    assert problem.startswith("duration: cannot be written as JSON: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"image_ids": [{"url": "/a?token=hush"}]},
        {"image_ids": [b"hush" * 9]},
        {"image_urls": ["/a?token=hush"]},
        {"ratio": "https://h/a?sig=hush"},
        {"ratio": "9" * 81 + "hush"},
        {"ratio": "9:16", "aspect_ratio": "data:image/png;base64,hush"},
        {"mode": ["hush"]},
        {"resolution": {"hush": 1}},
        {"seconds": "token=hush"},
    ],
)
def test_no_problem_shows_a_secret_bytes_or_the_whole_of_a_long_value(fields):
    problems = found(**fields)
    assert problems
    assert "hush" not in str(problems)


@pytest.mark.parametrize("value", [5, "x", None, {"a": 1}])
def test_a_request_of_odd_values_can_be_shown(value):
    names = ("attachments", "reference_images", "image_urls", "image_ids", "extra")
    assert repr(VideoRequest(model="m", prompt="p", **dict.fromkeys(names, value)))
    assert repr(VideoRequest(model="m", prompt="p", extra={1: 2, "a": 3}))


@pytest.mark.parametrize("reason", ["", " \n", None, 7, ["because"]])
def test_a_decision_needs_a_reason_in_words(reason):
    with pytest.raises(InvalidRequestError, match="abandon needs a reason"):
        check_reason("abandon", reason)
