"""What one send of a create is evidence of. Pure."""

import asyncio
from datetime import datetime
from http import HTTPStatus

from attrs import evolve

from vidgen_async.errors import TransportError
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import excerpt, visible_headers
from vidgen_async.service.body_decoding import split_response
from vidgen_async.service.codec import Answer, is_json_object, read_created_id, request_id_of
from vidgen_async.service.endpoints import is_task_id
from vidgen_async.service.status_rules import outcome_of_answer, outcome_without_answer
from vidgen_async.types.http import LONG_ANSWER, Delivery, retry_after
from vidgen_async.types.limits import compute_retry_at
from vidgen_async.types.orders import AttemptOutcome, Evidence


def evidence_of_answer(answer: Answer, *, is_complete: bool, at: datetime) -> Evidence:
    """The outcome that an answer stands for."""
    task_id, extra = read_created_id(answer.body) if is_complete else (None, {})
    if task_id is not None and not is_task_id(task_id):
        task_id = None  # no request could name it
    outcome = outcome_of_answer(answer.status, task_id)
    # Long values are prepared in steps, later.
    known = KnownValues(value for value in answer.known if len(value) <= LONG_ANSWER)
    request_id = request_id_of(answer.headers, known)
    evidence = Evidence(outcome=outcome, at=at, status=answer.status, answered=True, request_id=request_id)
    if outcome is AttemptOutcome.ACCEPTED:
        return evolve(evidence, task_id=task_id, extra=extra, cause=f"the service answered {answer.status}")
    # The page of a proxy must not pause the account.
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS and is_json_object(answer.body):
        return evolve(evidence, retry_at=compute_retry_at(at, retry_after(answer.headers, at)))
    return evidence


def evidence_without_answer(
    delivery: Delivery, failure: BaseException | None, *, unparsed: bytes, at: datetime, known: KnownValues
) -> Evidence:
    """The outcome of a send without a response that could be read; ``unparsed``: what was received, and no proof."""
    if isinstance(failure, TransportError | TimeoutError):
        cause = excerpt(str(failure), known) or "it timed out"
    elif isinstance(failure, asyncio.CancelledError | None):
        cause = "it was cancelled" + (" before the first byte" if delivery is Delivery.NOT_SENT else "")
    else:
        cause = f"{type(failure).__name__}: {excerpt(str(failure), known)}"
    evidence = Evidence(outcome=outcome_without_answer(delivery), at=at, cause=cause)
    if evidence.outcome is not AttemptOutcome.UNCERTAIN:
        return evidence
    status, headers, body = split_response(unparsed)
    return evolve(
        evidence,
        status=status,
        answered=status is not None,
        headers=visible_headers(headers, known),
        request_id=request_id_of(headers, known),
        body=body,
    )
