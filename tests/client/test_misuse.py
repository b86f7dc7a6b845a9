"""What is written wrongly ends in one sentence that states what to write instead; nothing is sent."""

import asyncio
import gc
import re
import warnings
from pathlib import Path

import pytest

from vidgen_async import Client, ConfigurationError, RejectedError, VideoRequest
from vidgen_async.clock import LoopClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault

BASE = "https://h/openapi/v1"
HIDDEN = "a boat at dawn"
REQUEST = VideoRequest(model="vendorh3", prompt=HIDDEN)

CALLS = [
    (lambda videos: videos.create(HIDDEN), 'by name, model="vendorh3", prompt="…"'),
    (lambda videos: videos.create("vendorh3", HIDDEN), 'by name, model="vendorh3", prompt="…"'),
    (lambda videos: videos.create(HIDDEN, model="vendorh3"), 'by name, model="vendorh3", prompt="…"'),
    (lambda videos: videos.create(REQUEST, REQUEST), "one VideoRequest"),
    (lambda videos: videos.create(None), "one VideoRequest"),
    (lambda videos: videos.create({"model": "vendorh3", "prompt": HIDDEN}), "by name: **fields"),
    (lambda videos: videos.create(REQUEST, duration=8), "not both: duration"),
    (lambda videos: videos.generate(HIDDEN, "hero.mp4"), 'by name, model="vendorh3", prompt="…"'),
]


@pytest.mark.parametrize(("call", "said"), CALLS)
async def test_a_request_that_is_given_by_position_names_the_way_to_give_it(client, service, call, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        await call(client.videos)
    assert HIDDEN not in str(caught.value)
    assert service.requests == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pacing": 5}, "pacing must be a Pacing, for example Pacing(limit=50), not int"),
        ({"journal": Path("orders.db")}, 'for example "sqlite:///orders.db"'),
        ({"journal": MemoryJournal}, 'for example "sqlite:///orders.db"'),
        ({"clock": LoopClock}, "clock must be an object with now(), wall() and sleep()"),
        ({"clock": 5}, "clock must be an object with now(), wall() and sleep()"),
        ({"on_update": "print"}, "on_update must be a function, not str"),
        ({"trust_env": "no"}, "trust_env must be True or False, not str"),
        ({"key_lifetime": "1h"}, "key_lifetime must be a number of seconds"),
        ({"api_key": BASE}, "give it as base_url, and the key as api_key"),
        ({"proxy": "http://xn--a.test"}, "proxy is not a URL"),
        ({"base_url": "http://xn--a.test/openapi/v1"}, "its host or its port cannot be read"),
        ({"base_url": "https://xn--/openapi/v1"}, "its host or its port cannot be read"),
        ({"base_url": "https://a..b/openapi/v1"}, "a host or port that cannot exist"),
        ({"base_url": "https://a b/openapi/v1"}, "a host or port that cannot exist"),
        ({"base_url": "https://h:0/openapi/v1"}, "a host or port that cannot exist"),
        ({"base_url": "https://https://h/openapi/v1"}, "has its scheme twice"),
        ({"base_url": f"{BASE}/videos"}, "without the path of an endpoint after it (/videos)"),
        ({"base_url": f"{BASE}/videos/task-1/content"}, "without the path of an endpoint after it (/videos)"),
        ({"base_url": f"{BASE}/models/"}, "without the path of an endpoint after it (/models)"),
    ],
)
def test_an_argument_of_another_kind_is_refused_when_the_client_is_made(arguments, said):
    with pytest.raises(ConfigurationError, match=re.escape(said)) as caught:
        Client(**{"api_key": "key", "base_url": BASE, **arguments})
    if "base_url" in arguments:
        assert "write https://HOST/openapi/v1" in str(caught.value)


def test_a_client_in_a_block_without_async_names_the_block_to_write():
    with pytest.raises(TypeError, match='write "async with"'), Client("key", base_url=BASE):
        pass


@pytest.mark.slow
async def test_a_client_that_nobody_closed_is_reported_once_in_words_of_the_sdk(service, caplog):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        await Client(service.api_key, base_url=service.base_url).models.list()
        gc.collect()
        await asyncio.sleep(0)
    said = 'a Client was used and not closed: write "async with Client(…) as client:"'
    assert [(str(each.message)[: len(said)], each.category) for each in seen] == [(said, ResourceWarning)]
    assert [record.message[: len(said)] for record in caplog.records if record.name == "asyncio"] == [said]


async def test_a_405_names_the_prefix(client, service):
    service.faults.add("videos.create", Fault.status(405))
    with pytest.raises(RejectedError, match="base URL ends in /openapi/v1"):
        await client.videos.create(REQUEST, validate=False)
