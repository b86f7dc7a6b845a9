"""A request is the same request whether a field is given under its own name or under its alias (section 9)."""

import json
from datetime import UTC, datetime

import pytest

from vidgen_async.errors import OrderConflictError
from vidgen_async.service.endpoints import create_body
from vidgen_async.types.orders import Order, OrderRef
from vidgen_async.types.resources import VideoRequest

SAME = {
    "duration": ({"duration": 5}, {"seconds": 5}),
    "ratio": ({"ratio": "9:16"}, {"aspect_ratio": "9:16"}),
    "both at once": ({"duration": 5, "ratio": "1:1"}, {"seconds": 5, "aspect_ratio": "1:1"}),
    "alias beside its field": ({"duration": 5}, {"duration": 5, "seconds": 5}),
    "alias in extra": ({"duration": 5}, {"extra": {"seconds": 5}}),
}
SAME_REQUESTS = pytest.mark.parametrize(("fields", "aliases"), SAME.values(), ids=SAME)


def video(**fields: object) -> VideoRequest:
    return VideoRequest(model="gen-2.0", prompt="a boat", **fields)


@SAME_REQUESTS
@pytest.mark.parametrize("is_alias_first", [True, False], ids=["alias first", "field first"])
async def test_the_same_order_id_under_either_name_is_one_post_in_one_form(
    orders, service, fields, aliases, is_alias_first
):
    first, second = (aliases, fields) if is_alias_first else (fields, aliases)

    receipts = [await orders.create(video(**names), order_id="o") for names in (first, second)]

    assert receipts[0] == receipts[1]
    [post] = service.posts
    assert json.loads(post.body) == {"model": "gen-2.0", "prompt": "a boat", **fields}


@pytest.mark.parametrize("other", [{"seconds": 6}, {"duration": 6}, {"seconds": 5, "aspect_ratio": "1:1"}], ids=str)
async def test_another_value_is_another_request(orders, service, other):
    await orders.create(video(duration=5), order_id="o")

    with pytest.raises(OrderConflictError):
        await orders.create(video(**other), order_id="o")
    assert len(service.posts) == 1


@SAME_REQUESTS
async def test_an_order_stored_with_aliases_is_sent_as_it_is_stored(orders, service, journal, fields, aliases):
    stored = json.dumps({"model": "gen-2.0", "prompt": "a boat", **aliases.get("extra", aliases)}).encode()
    ref = OrderRef(service="https://h", account="default", order_id="o")
    await journal.intend(Order(ref=ref, idempotency_key="vg1-stored", body=stored, created_at=datetime.now(UTC)))

    await orders.create(video(**fields), order_id="o")

    assert [(post.body, post.key) for post in service.posts] == [(stored, "vg1-stored")]
    assert (await orders.get("o")).body == stored


def test_two_different_values_are_both_sent():
    data = json.loads(create_body(video(duration=5, seconds=6)))
    assert (data["duration"], data["seconds"]) == (5, 6)
