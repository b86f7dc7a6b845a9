"""The outcome table of creates, and which failures of a read are transient: row by row."""

import pytest

from vidgen_async.errors import RejectedError, RejectedUnexpectedResponseError
from vidgen_async.service.status_rules import REFERENCE_CODES, outcome_of_answer, outcome_without_answer, rule_for
from vidgen_async.types.http import Delivery
from vidgen_async.types.orders import AttemptOutcome

REJECTED = {400, 401, 402, 403, 404, 405, 406, 407, 411, 413, 414, 415, 429, 431}


def test_a_create_is_rejected_by_exactly_the_statuses_of_the_table_and_otherwise_uncertain():
    outcomes = {status: outcome_of_answer(status, None) for status in range(100, 600)}
    assert {status for status, outcome in outcomes.items() if outcome is AttemptOutcome.REJECTED} == REJECTED
    assert set(outcomes.values()) == {AttemptOutcome.REJECTED, AttemptOutcome.UNCERTAIN}


@pytest.mark.parametrize("status", [200, 201, 202, 299])
def test_a_2xx_with_an_id_is_a_receipt(status):
    assert outcome_of_answer(status, "task-1") is AttemptOutcome.ACCEPTED


@pytest.mark.parametrize("status", [302, 307, 400, 409, 503])
def test_an_id_in_any_other_answer_is_no_receipt(status):
    assert outcome_of_answer(status, "task-1") is not AttemptOutcome.ACCEPTED


def test_only_proof_that_nothing_left_makes_a_create_not_sent():
    assert outcome_without_answer(Delivery.NOT_SENT) is AttemptOutcome.NOT_SENT
    assert outcome_without_answer(Delivery.MAYBE_SENT) is AttemptOutcome.UNCERTAIN
    assert outcome_without_answer(Delivery.ANSWERED) is AttemptOutcome.UNCERTAIN


def test_a_read_is_retried_after_what_is_transient():
    retried = {status for status in range(200, 600) if rule_for(status).is_read_retried}
    assert retried == {408, 425, 429, *range(200, 300), *range(500, 600)}


@pytest.mark.parametrize("code", [None, *sorted(REFERENCE_CODES)])
def test_a_rejected_create_is_also_the_error_of_its_status(code):
    for status in (400, 401, 402, 404, 429):
        rule = rule_for(status, code)
        assert issubclass(rule.rejected, RejectedError)
        assert issubclass(rule.rejected, rule.error)
    assert rule_for(418).rejected is RejectedUnexpectedResponseError
