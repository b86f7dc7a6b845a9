"""What one send of a create is evidence of. Pure."""

import asyncio
import json
import re
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus

from attrs import evolve

from vidgen_async.errors import TransportError
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import excerpt, visible_headers
from vidgen_async.service.codec import Answer, is_json_object, read_created_id, request_id_of
from vidgen_async.service.endpoints import is_task_id
from vidgen_async.service.status_rules import outcome_of_answer, outcome_without_answer
from vidgen_async.transports.direct.bodies import decompress
from vidgen_async.types.http import LONG_ANSWER, Delivery, Headers, make_headers, retry_after
from vidgen_async.types.limits import compute_retry_at
from vidgen_async.types.orders import AttemptOutcome, Evidence

_STATUS_LINE = re.compile(rb"\s*HTTP/[0-9.]+ +([1-9][0-9]{2})(?![0-9])[^\r\n]*")
_END_OF_LINE = re.compile(rb"\r\n|\n|\r")
_END_OF_HEAD = re.compile(rb"\r\n\r\n|\n\r?\n|\r\r")


def evidence_of_answer(answer: Answer, *, is_complete: bool, at: datetime) -> Evidence:
    """The outcome that an answer stands for."""
    task_id, extra = read_created_id(answer.body) if is_complete else (None, {})
    if task_id is not None and not is_task_id(task_id):
        task_id = None  # no request could name it
    outcome = outcome_of_answer(answer.status, task_id)
    # Long values are prepared in a thread, later.
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


def decode_body(body: bytes, headers: Headers) -> bytes:
    """The body without its compression and, where it is JSON in the charset that its headers name, as UTF-8. Where the
    headers are wrong, the body as it was received: a receipt must not be lost by a wrong label."""
    with suppress(ValueError):
        body = decompress(body, headers)
    if _is_json(body):
        return body
    _, _, charset = headers.get("Content-Type", "").partition("charset=")
    for name in (charset.partition(";")[0].strip(" \"'"), "latin-1"):
        try:
            decoded = body.decode(name).encode()
        except (LookupError, ValueError):
            continue
        if _is_json(decoded):
            return decoded
    return body


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def split_response(data: bytes) -> tuple[int | None, Headers, bytes]:
    """Status, headers and body of a response that is not valid HTTP, as far as they can be read. Without a status line
    all of it is the body. It is for an operator: no id is read from it."""
    while (line := _STATUS_LINE.match(data)) is not None:
        status, (head, body) = int(line[1]), _split_head(data[line.end() :])
        if status >= 200 or not body:
            return status, head, body
        data = body  # an interim response
    return None, make_headers(), data


def _split_head(data: bytes) -> tuple[Headers, bytes]:
    end = _END_OF_HEAD.search(data)
    head, body = (data, b"") if end is None else (data[: end.start()], data[end.end() :])
    lines = (line.partition(b":") for line in _END_OF_LINE.split(head[:LONG_ANSWER]) if line)
    return make_headers((name.decode("latin-1"), value.strip().decode("latin-1")) for name, _, value in lines), body
