"""What is one order: the same request in any sequence of its keys, and no request with another value."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.proof.model_service import Fate, Service
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import InvalidRequestError, OrderConflictError
from vidgen_async.journal import MemoryJournal
from vidgen_async.orders import Orders
from vidgen_async.types.resources import VideoRequest

#: The same examples each time.
FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
fields = st.dictionaries(st.text().filter(lambda name: name not in VideoRequest.field_names()), values, max_size=4)
#: What JSON cannot hold, or only some of it.
surrogates = st.text(st.characters(categories=["Cs", "Lu"]))
oddities = (
    st.floats() | st.binary() | surrogates | st.sampled_from([float("nan"), float("-inf"), {1}, {1: 2}, object()])
)
odd_values = st.recursive(
    oddities, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text() | surrogates, inner, max_size=2)
)


def request_of(extra: dict[str, Any]) -> VideoRequest:
    return VideoRequest(model="vendorh3", prompt="a paper boat", extra=extra)


def turned_round(value: Any) -> Any:
    """The same value; the keys of every object stand in another sequence."""
    if isinstance(value, dict):
        return {name: turned_round(inner) for name, inner in reversed(value.items())}
    return [turned_round(inner) for inner in value] if isinstance(value, list) else value


@contextmanager
def one_client() -> Iterator[tuple[asyncio.Runner, Orders, Service]]:
    async def accept() -> Fate:
        return Fate.TAKEN

    with asyncio.Runner() as runner:
        service = Service(accept)
        yield runner, service.client(MemoryJournal(), VirtualClock()), service


@pytest.mark.slow
@given(fields)
@FIXED
def test_the_same_request_with_its_keys_in_another_sequence_is_the_same_order(extra):
    with one_client() as (runner, orders, service):
        first = runner.run(orders.create(request_of(extra), order_id="o"))
        assert runner.run(orders.create(request_of(turned_round(extra)), order_id="o")) == first
        ((_, body),) = service.posts
    assert json.loads(body) == {"model": "vendorh3", "prompt": "a paper boat", **extra}


@pytest.mark.slow
@given(fields, fields)
@example({"seed": 1}, {"seed": 1.0})
@example({"seed": 1}, {"seed": True})
@example({"seed": 0.0}, {"seed": -0.0})
@example({"seed": None}, {})
@example({"name": "\u00e9"}, {"name": "e\u0301"})
@FIXED
def test_another_value_under_the_same_order_id_is_refused_before_it_is_sent(extra, other):
    assume(json.dumps(extra, sort_keys=True) != json.dumps(other, sort_keys=True))
    with one_client() as (runner, orders, service):
        runner.run(orders.create(request_of(extra), order_id="o"))
        with pytest.raises(OrderConflictError):
            runner.run(orders.create(request_of(other), order_id="o"))
        assert len(service.posts) == 1


@pytest.mark.slow
@given(odd_values, st.text() | surrogates)
@FIXED
def test_values_that_json_cannot_represent_are_refused_and_nothing_is_sent_or_stored(odd, prompt):
    request = VideoRequest(model="vendorh3", prompt=prompt, extra={"odd": odd})
    with one_client() as (runner, orders, service):
        refusal = None
        try:
            runner.run(orders.create(request, order_id="o"))
        except InvalidRequestError as error:
            refusal = error
        if refusal is not None:
            assert (len(refusal.problems) > 0, service.posts) == (True, [])
            assert runner.run(orders.find("o")) is None
            return
    ((_, body),) = service.posts
    sent = json.loads(body.decode(), parse_constant=pytest.fail)
    assert (sent["prompt"], type(sent["odd"])) == (prompt, type(odd))
