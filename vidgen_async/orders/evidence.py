"""What one send of a create is evidence of. Pure."""

from datetime import datetime

from attrs import evolve

from vidgen_async.errors import TransportError
from vidgen_async.redaction.headers import visible_headers
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.candidates import find_candidates
from vidgen_async.service.codec import Answer, read_created_id, request_id_of
from vidgen_async.service.endpoints import is_task_id
from vidgen_async.service.error_responses import describe_outcome
from vidgen_async.service.status_rules import outcome_of_answer, outcome_without_answer
from vidgen_async.types.http import Delivery
from vidgen_async.types.orders import AttemptOutcome, Evidence, Order


def evidence_of(
    order: Order,
    answer: Answer | None,
    delivery: Delivery,
    failure: Exception | None,
    *,
    is_complete: bool,
    limit: float | None,
    at: datetime,
    known: tuple[str, ...],
) -> Evidence:
    """The outcome of a send, with what supports it.

    Args:
        answer: None if not even a status came.
        failure: What ended the send, where there is no complete answer.
        limit: The create's time limit in seconds.
        known: Values that no text may show.
    """
    if answer is None:
        return Evidence(
            outcome=outcome_without_answer(delivery), at=at, cause=_cause(failure, limit=limit, known=known)
        )
    task_id, extra = read_created_id(answer.body) if is_complete else (None, {})
    if task_id is not None and not is_task_id(task_id):
        task_id = None  # nobody could ask for it
    outcome = outcome_of_answer(answer.status, task_id)
    cause = describe_outcome(answer, outcome, is_complete=is_complete)
    request_id = request_id_of(answer.headers)
    evidence = Evidence(outcome=outcome, at=at, status=answer.status, cause=cause, answered=True, request_id=request_id)
    if outcome is AttemptOutcome.ACCEPTED:
        return evolve(evidence, task_id=task_id, extra=extra)
    if outcome is not AttemptOutcome.UNCERTAIN:
        return evidence
    candidates: tuple[str, ...] = ()
    if is_complete and 200 <= answer.status < 300:
        candidates = find_candidates(answer, order.body, {*known, order.order_id})
    headers = visible_headers(answer.headers, known)
    return evolve(evidence, body=answer.body, headers=headers, candidates=candidates)


def _cause(failure: Exception | None, *, limit: float | None, known: tuple[str, ...]) -> str:
    if isinstance(failure, TransportError):
        return excerpt(failure.message, known)
    if isinstance(failure, TimeoutError):
        return f"no complete answer came within {limit:g} s"
    if failure is None:
        return "it was cancelled before the first byte"
    return f"{type(failure).__name__}: {excerpt(str(failure), known)}"
