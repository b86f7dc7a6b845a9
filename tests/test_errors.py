"""Every error can be pickled, copied and caught by what it is."""

import copy
import inspect
import pickle

import pytest

from tests.journal.conftest import order_of
from vidgen_async import errors
from vidgen_async.errors import VidgenError
from vidgen_async.journal import MustWait, OrderChanged
from vidgen_async.types.http import Delivery, Phase
from vidgen_async.types.limits import Turn
from vidgen_async.types.resources import VideoTask

ALL_ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, VidgenError)]

FACTS = {
    "status": 402,
    "code": "NO_CREDIT",
    "body": b"{}",
    "request_id": "r-1",
    "retry_after": 3.5,
    "order_id": "order-1187",
    "idempotency_key": "vg1-abc",
    "attempts": (),
    "delivery": Delivery.MAYBE_SENT,
    "phase": Phase.WAIT,
    "op": "videos.create",
    "received": 12,
    "task": VideoTask(id="t", extra={"new": 1}),
    "task_id": "t",
    "source": "upstream",
    "problems": ("prompt: must not be empty",),
    "state": "uncertain",
    "may_be_committed": True,
}


def made(kind: type[VidgenError]) -> VidgenError:
    """The error with every one of its facts."""
    return kind("what happened", **{name: value for name, value in FACTS.items() if hasattr(kind, name)})


def test_an_error_takes_no_facts_but_its_own():
    with pytest.raises(TypeError, match="JournalError has no attribute 'task_id'"):
        errors.JournalError("what happened", task_id="t")


with_each_twin = pytest.mark.parametrize(
    "twin",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],  # noqa: S301 - our own pickle
    ids=["pickle", "copy", "deepcopy"],
)


@with_each_twin
def test_every_error_survives_pickle_copy_and_deepcopy_with_its_attributes(twin):
    assert len(ALL_ERRORS) > 50
    for kind in ALL_ERRORS:
        error = made(kind)
        again = twin(error)
        assert (type(again), str(again)) == (kind, "what happened")
        assert vars(again) == vars(error), kind


@with_each_twin
def test_the_answers_of_a_journal_survive_pickle_copy_and_deepcopy(twin):
    assert twin(OrderChanged(order_of())).order == order_of()
    assert twin(MustWait(Turn(0, 1.5))).turn == Turn(0, 1.5)


def test_every_error_can_be_made_from_a_message_alone():
    assert [kind for kind in ALL_ERRORS if str(kind("only a message")) != "only a message"] == []


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (errors.ConfigurationError, ValueError),
        (errors.InvalidRequestError, ValueError),
        (errors.WaitTimeoutError, TimeoutError),
        (errors.RejectedInsufficientCreditsError, errors.InsufficientCreditsError),
        (errors.RejectedRateLimitError, errors.RateLimitError),
        (errors.RejectedReferenceAssetExpiredError, errors.ReferenceAssetExpiredError),
        (errors.RejectedBadRequestError, errors.CreateError),
        (errors.ReceiptNotStoredError, errors.CreateError),
    ],
)
def test_a_rejection_matches_either_except_clause(kind, also):
    assert issubclass(kind, also)


@pytest.mark.parametrize("never", [errors.TransportError, OSError, TimeoutError])
def test_a_cassette_error_is_not_a_network_error(never):
    assert not issubclass(errors.CassetteError, never)


@pytest.mark.parametrize("kind", [errors.UncertainCreateError, errors.RejectedAuthenticationError, VidgenError])
def test_the_advice_is_separate_from_what_happened(kind):
    error = kind("It happened.", advice="Call this.")

    assert str(error) == "It happened. Call this."
    assert (error.summary, error.advice) == ("It happened.", "Call this.")
    assert pickle.loads(pickle.dumps(error)).summary == "It happened."  # noqa: S301 - our own pickle


def test_an_error_without_advice_is_its_own_summary():
    assert (VidgenError("It happened.").summary, VidgenError("It happened.").advice) == ("It happened.", "")
