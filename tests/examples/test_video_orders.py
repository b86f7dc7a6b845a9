"""What the page of the web apps shows of an order in the journal."""

from datetime import UTC, datetime
from importlib import import_module

import pytest

from tests.examples.conftest import EXAMPLES
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence, Order, OrderRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = (AttemptOutcome.REJECTED, 400, "too blue")
UNPAID = (AttemptOutcome.REJECTED, 402, "no credits")
NOT_SENT = (AttemptOutcome.NOT_SENT, None, "the client was closed")
UNCERTAIN = (AttemptOutcome.UNCERTAIN, None, "the connection was closed")
IN_LOG = "The log of the shop has the reason."


def make_order(*attempts: tuple[AttemptOutcome, int | None, str]) -> Order:
    return Order(
        ref=OrderRef(service="https://service.test", account="shop", order_id="order-1"),
        idempotency_key="key",
        body=b'{"prompt": "A paper boat"}',
        created_at=NOW,
        attempts=tuple(
            Attempt(
                n=n,
                sent_at=NOW,
                deadline_at=NOW,
                evidence=Evidence(outcome=outcome, at=NOW, status=status, cause=cause),
            )
            for n, (outcome, status, cause) in enumerate(attempts, 1)
        ),
    )


@pytest.mark.parametrize(
    ("attempts", "state", "reason"),
    [
        ([], "not sent", None),
        ([NOT_SENT], "not sent", None),
        ([REFUSED], "rejected", "too blue"),
        ([UNPAID], "rejected", IN_LOG),
        ([REFUSED, NOT_SENT], "rejected", "too blue"),
        ([REFUSED, UNPAID], "rejected", IN_LOG),
        ([UNCERTAIN, REFUSED], "uncertain", None),
    ],
)
def test_the_reason_of_an_order_is_that_of_its_state_whatever_was_attempted_later(attempts, state, reason, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    row = import_module("video_orders").row_of(make_order(*attempts))

    assert (row["state"], row["reason"]) == (state, reason)
