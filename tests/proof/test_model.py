"""The design holds for every schedule of the model, and the model would notice if it did not."""

import pytest

from tests.proof.model import MISTAKEN, Design, Search, search, search_all
from tests.proof.model_mutants import MUTANTS, UNGATED_MUTANTS

#: The states of an order that the design knows.
STATES = {"queued", "sending", "uncertain", "rejected", "accepted", "abandoned", "withdrawn"}


@pytest.fixture(scope="module")
def whole() -> Search:
    """All that can happen to two workers, one resend and one adoption."""
    return search_all(workers=2, resends=1, attempts=3)


#: Too long for every run.
more = pytest.mark.needs_dev


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "dedup", "worlds"),
    [
        pytest.param({"workers": 3, "resends": 1, "attempts": 3}, False, 25_000, id="3 workers"),
        pytest.param({"workers": 2, "resends": 1, "attempts": 3}, True, 4_000, id="the key is known"),
        pytest.param({"workers": 2, "resends": 1, "attempts": 2, "gated": False}, False, 12_000, id="no gate"),
        pytest.param({"workers": 3, "resends": 1, "attempts": 3}, True, 25_000, id="3, known", marks=more),
        pytest.param({"workers": 2, "resends": 2, "attempts": 4}, False, 60_000, id="2 resends", marks=more),
        pytest.param({"workers": 2, "resends": 2, "attempts": 4}, True, 60_000, id="2 resends, known", marks=more),
        pytest.param(
            {"workers": 2, "resends": 1, "attempts": 3, "gated": False}, True, 90_000, id="no gate, 3", marks=more
        ),
    ],
)
def test_no_schedule_breaks_an_invariant_of_the_design(sizes, dedup, worlds):
    found = search(Design(**sizes, dedup=dedup))
    assert (found.broken, found.path) == (None, ())
    assert len(found.came_from) > worlds


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_design_that_breaks_one_rule_is_detected(mutant):
    found = search(mutant(dedup=True))
    assert (found.broken, found.path != ()) == (mutant.dies_by, True)


@pytest.mark.parametrize("mutant", UNGATED_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_design_that_believes_a_transport_is_found_out(mutant):
    assert search(mutant(workers=1, attempts=3, gated=False)).broken == mutant.dies_by


def test_each_invariant_detects_a_mutant():
    assert {mutant.dies_by for mutant in MUTANTS} == {"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"}


@pytest.mark.slow
def test_the_search_reaches_every_state_of_an_order(whole):
    design = Design()
    assert {design.state(world.order) for world in whole.came_from if world.order is not None} == STATES


@pytest.mark.slow
def test_the_search_reaches_rare_situations(whole):
    orders = {world.order for world in whole.came_from if world.order is not None}
    receipts = {frozenset(order.receipts()) for order in orders}
    assert {MISTAKEN, "task-1"} in receipts, "a late receipt beside an adoption"
    assert {"task-1", "task-2"} in receipts, "a service that made an order twice"
    outcomes = {tuple(attempt.outcome for attempt in order.attempts) for order in orders}
    assert ("uncertain", "rejected") in outcomes, "a refused resend of an uncertain order"
    assert ("not_sent", "rejected", "accepted") in outcomes, "an order that went again, and again"
    assert any(order.closing == "abandoned" and order.receipts() for order in orders), "a receipt after it was given up"


@pytest.mark.slow
def test_replaying_the_path_to_a_world_reaches_it(whole):
    design = Design(workers=2, resends=1, attempts=3)
    for world in list(whole.came_from)[::500]:
        reached = {design.start()}
        for move in whole.path_to(world):
            reached = {after for before in reached for made, after in design.moves(before) if made == move}
        assert world in reached
