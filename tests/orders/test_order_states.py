"""``orders.states``: the states of many orders at once, without what they ask for."""

import pytest

from tests.orders.conftest import refused
from vidgen_async import InvalidRequestError, RejectedError
from vidgen_async.journal import Journal, MemoryJournal
from vidgen_async.types.resources import VideoRequest

REQUEST = VideoRequest(model="vendorh3", prompt="a paper boat", duration=8)


def plain_journal() -> Journal:
    """A journal with nothing but what every journal must have, as users may write one."""
    memory = MemoryJournal()

    class Plain:
        durable = False

    for name in (name for name in vars(Journal) if not name.startswith("_") and name != "durable"):
        setattr(Plain, name, staticmethod(getattr(memory, name)))
    return Plain()


@pytest.fixture(params=[MemoryJournal, plain_journal])
def journal(request) -> Journal:
    return request.param()


async def test_known_orders_have_their_states_and_others_are_missing(orders, service):
    await orders.create(REQUEST, order_id="a")
    service.script = [lambda _: _refuse()]
    with pytest.raises(RejectedError):
        await orders.create(REQUEST, order_id="b")

    states = await orders.states(["b", "none", "a", "a"])

    assert {order_id: (str(each.state), each.attempts) for order_id, each in states.items()} == {
        "a": ("accepted", 1),
        "b": ("rejected", 1),
    }
    assert states["a"].task_ids == ("task-1",)
    with pytest.raises(InvalidRequestError, match="order_id must not be empty"):
        await orders.states(["a", " "])


async def _refuse():
    return refused(403)
