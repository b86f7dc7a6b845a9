"""The state of an order follows from its attempts, and information about them is only added."""

from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement, permutations, product

import pytest
from attrs import evolve

from vidgen_async.types.orders import (
    Attempt,
    AttemptOutcome,
    Closing,
    Evidence,
    Order,
    OrderRef,
    OrderState,
    idempotency_key,
    may_become,
    state_of,
)

NOW = datetime(2026, 11, 28, tzinfo=UTC)
S, N, U, R, A = AttemptOutcome


def order(*outcomes: AttemptOutcome, closing: Closing | None = None) -> Order:
    attempts = tuple(
        Attempt(
            n=n,
            sent_at=NOW,
            deadline_at=NOW + timedelta(seconds=130),
            evidence=None
            if outcome is S
            else Evidence(outcome=outcome, at=NOW, task_id=f"t{n}" if outcome is A else None),
        )
        for n, outcome in enumerate(outcomes, start=1)
    )
    ref = OrderRef(service="https://h", account="default", order_id="o")
    return Order(ref=ref, idempotency_key="vg1-key-key", body=b"{}", created_at=NOW, attempts=attempts, closing=closing)


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ((), OrderState.QUEUED),
        ((N, N), OrderState.QUEUED),
        ((U, R), OrderState.UNCERTAIN),
        ((R, U), OrderState.UNCERTAIN),
        ((U, S), OrderState.SENDING),
        ((U, A), OrderState.ACCEPTED),
        ((A, R), OrderState.ACCEPTED),
        ((R, N), OrderState.REJECTED),
    ],
)
def test_the_state_is_the_most_dangerous_thing_that_may_be_true(outcomes, state):
    assert state_of(outcomes) is state


def test_the_state_does_not_depend_on_the_sequence_of_attempts():
    states = {
        outcomes: {state_of(permuted) for permuted in permutations(outcomes)}
        for outcomes in combinations_with_replacement(AttemptOutcome, 3)
    }
    assert {outcomes: found for outcomes, found in states.items() if len(found) > 1} == {}


def test_a_rejected_resend_does_not_hide_the_uncertain_first_attempt():
    assert order(U, R).state is OrderState.UNCERTAIN
    late = order(U, R).with_evidence(1, Evidence(outcome=A, at=NOW, task_id="paid"))
    assert late.state is OrderState.ACCEPTED
    assert late.receipt.task_id == "paid"


def test_evidence_in_any_sequence_gives_the_same_outcomes():
    for events in permutations([(1, U), (1, A), (2, U), (2, R), (1, U)]):
        settled = order(S, S)
        for n, outcome in events:
            settled = settled.with_evidence(
                n, Evidence(outcome=outcome, at=NOW, task_id="t1" if outcome is A else None)
            )
        assert [attempt.outcome for attempt in settled.attempts] == [A, R], events


def test_an_outcome_is_only_replaced_by_one_that_adds_knowledge():
    rank = {S: 0, U: 1, N: 2, R: 2, A: 2}
    rows = list(product(AttemptOutcome, repeat=2))
    assert [(known, news) for known, news in rows if may_become(known, news) is not (rank[news] > rank[known])] == []


def test_a_sending_attempt_is_uncertain_after_its_deadline_and_accepts_a_late_receipt():
    before, after = NOW + timedelta(seconds=130), NOW + timedelta(seconds=131)
    assert order(S).as_of(before).state is OrderState.SENDING
    expired = order(S).as_of(after)
    assert expired.state is OrderState.UNCERTAIN
    assert expired.with_evidence(1, Evidence(outcome=A, at=after, task_id="t")).state is OrderState.ACCEPTED


def test_a_sending_attempt_whose_sender_has_ended_is_uncertain_before_its_deadline():
    assert order(S, S).as_of(NOW, [2]).state is OrderState.SENDING
    assert order(S, S).as_of(NOW, [1, 2]).state is OrderState.UNCERTAIN
    for outcome in (N, R, U, A):
        settled = order(outcome)
        assert settled.as_of(NOW, [1]) is settled


def test_a_response_adds_knowledge_to_an_attempt_that_remains_uncertain():
    silent = Evidence(outcome=U, at=NOW)
    answered = Evidence(outcome=U, at=NOW + timedelta(seconds=9), status=202, answered=True, candidates=("t",))
    other = evolve(answered, status=500, candidates=())
    for evidence in (silent, answered):
        assert order(S).with_evidence(1, evidence).with_evidence(1, answered).attempts[0].evidence == answered
        assert order(S).with_evidence(1, answered).with_evidence(1, evidence).attempts[0].evidence == answered
    assert order(S).with_evidence(1, answered).with_evidence(1, other).attempts[0].evidence == answered
    assert order(R).with_evidence(1, answered) == order(R)


def test_a_withdrawn_order_that_was_sent_nevertheless_is_uncertain():
    closing = Closing(state=OrderState.WITHDRAWN, at=NOW, reason="")
    states = [order(outcome, closing=closing).state.value for outcome in (N, R, S, U, A)]
    assert states == ["withdrawn", "withdrawn", "sending", "uncertain", "accepted"]


def test_an_order_whose_send_lies_in_the_future_is_uncertain():
    assert order(S).as_of(NOW - timedelta(minutes=5)).state is OrderState.SENDING
    set_back = order(S).as_of(NOW - timedelta(minutes=6))
    assert set_back.state is OrderState.UNCERTAIN
    assert "the clock was set back" in set_back.attempts[0].evidence.cause


def test_the_wait_time_is_known_only_for_a_send_whose_caller_waited():
    (sent,) = order(U).attempts

    def after(seconds: float, status: int | None = None) -> Attempt:
        evidence = Evidence(outcome=U, at=NOW + timedelta(seconds=seconds), status=status)
        return evolve(sent, evidence=evidence)

    assert after(7).wait_time == 7.0
    assert after(300, status=503).wait_time == 300.0
    assert after(300).wait_time is None
    assert after(-1).wait_time is None
    assert evolve(sent, kind="adopt").wait_time is None
    assert order(S).attempts[0].wait_time is None


@pytest.mark.rule("8 limit key-length", side="sdk")
def test_the_key_depends_only_on_the_order_and_has_a_valid_length():
    key = idempotency_key("word", "default", "order-1187")
    assert key == idempotency_key("word", "default", "order-1187")
    assert 8 <= len(key) <= 100
    assert key.isascii()
    others = {
        idempotency_key("w2", "default", "order-1187"),
        idempotency_key("word", "b", "order-1187"),
        idempotency_key("word", "default", "order-1188"),
    }
    assert len({key, *others}) == 4
