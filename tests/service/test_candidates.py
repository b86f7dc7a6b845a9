"""What may be the task id in an answer that names none at its top level, and what never may (4.4)."""

import json
from typing import Any

import pytest
from yarl import URL

from vidgen_async.service.candidates import find_candidates
from vidgen_async.service.codec import Answer
from vidgen_async.types.http import make_headers

REQUEST = {"model": "gen-2.0", "prompt": "a boat", "duration": 5, "image_ids": ["img-1"], "extra": [{"n": 77}]}
EXCLUDED = {"vg1-key", "order-1"}
CREATES = "https://h/openapi/v1/videos"


def candidates(body: Any, **headers: str) -> tuple[str, ...]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = Answer("videos.create", 202, make_headers(headers), raw, url=URL(CREATES))
    return find_candidates(answer, json.dumps(REQUEST).encode(), EXCLUDED)


FOUND = {
    "data.id": ({"data": {"id": "t-1"}}, ("t-1",)),
    "task.id": ({"task": {"id": "t-1"}}, ("t-1",)),
    "result.task_id": ({"result": {"task_id": "t-1"}}, ("t-1",)),
    "video.videoId": ({"video": {"videoId": "t-1"}}, ("t-1",)),
    "videos[0].id": ({"videos": [{"id": "t-1"}]}, ("t-1",)),
    "data[0].task_id": ({"data": [{"task_id": "t-1"}]}, ("t-1",)),
    "taskId": ({"taskId": "t-1"}, ("t-1",)),
    "video_id": ({"video_id": 42}, ("42",)),
    "a JSON string": ("t-1", ("t-1",)),
    "the same twice": ({"taskId": "t-1", "data": {"id": "t-1"}}, ("t-1",)),
    "two values": ({"taskId": "t-1", "data": {"id": "t-2"}}, ("t-1", "t-2")),
    "the longest value": ({"id": "x" * 500}, ("x" * 500,)),
    "four values": ({"taskId": "a", "video_id": "b", "data": {"id": "c"}, "task": {"id": "d"}}, ("a", "b", "c", "d")),
}


@pytest.mark.parametrize(("body", "expected"), FOUND.values(), ids=FOUND)
def test_a_value_in_a_usual_place_is_a_candidate(body, expected):
    assert candidates(body) == expected


NOT_FOUND = {
    "a list of several": {"videos": [{"id": "t-1"}, {"id": "t-2"}]},
    "an empty list": {"videos": []},
    "a list of strings": {"videos": ["t-1"]},
    "an upstream id": {"upstream_task_id": "t-1", "data": {"upstream_id": "t-2"}},
    "two levels down": {"data": {"task": {"id": "t-1"}}},
    "another wrapper": {"payload": {"id": "t-1"}},
    "another name": {"data": {"uuid": "t-1"}},
    "the idempotency key": {"data": {"id": "vg1-key"}},
    "the order id": {"data": {"id": "order-1"}},
    "an asset id of the request": {"data": {"id": "img-1"}},
    "the model of the request": {"data": {"id": "gen-2.0"}},
    "a number of the request": {"data": {"id": 5}},
    "a number deep in the request": {"data": {"id": 77}},
    "several segments": {"data": {"id": "a/b"}},
    "a query": {"data": {"id": "a?b=c"}},
    "a dot": {"data": {"id": ".."}},
    "white space": {"data": {"id": " t-1"}},
    "an empty string": {"data": {"id": ""}},
    "a URL": {"data": {"id": "https://h/videos/t-1"}},
    "true": {"data": {"id": True}},
    "a fraction": {"data": {"id": 1.5}},
    "null": {"data": {"id": None}},
    "a long value": {"id": "x" * 501},
    "five values": {"taskId": "a", "video_id": "b", "data": {"id": "c"}, "task": {"id": "d"}, "result": {"id": "e"}},
    "a number alone": 7,
    "a list alone": ["t-1"],
    "not JSON": b"t-1",
    "a cut object": b'{"data": {"id": "t-1"}',
    "deeply nested": b"[" * 100_000,
}


@pytest.mark.parametrize("body", NOT_FOUND.values(), ids=NOT_FOUND)
def test_a_value_in_another_place_or_of_another_kind_is_none(body):
    assert candidates(body) == ()


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/openapi/v1/videos/t-1", ("t-1",)),
        ("https://h/openapi/v1/videos/t-1", ("t-1",)),
        ("videos/t-1", ("t-1",)),
        ("/videos/t-1?x=1", ("t-1",)),
        ("https://elsewhere/openapi/v1/videos/t-1", ()),
        ("http://h/openapi/v1/videos/t-1", ()),
        ("/openapi/v1/videos/t-1/content", ()),
        ("/openapi/v1/videos/", ()),
        ("/openapi/v1/videos/a%2Fb", ()),
        ("/openapi/v1/tasks/t-1", ()),
        ("http://[broken/videos/t-1", ()),
        ("", ()),
    ],
)
def test_a_location_of_the_same_origin_names_a_candidate(location, expected):
    assert candidates({}, Location=location) == expected
    assert candidates(b"", Location=location) == expected
