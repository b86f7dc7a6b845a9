"""Where answers become errors (section 7): the class and meaning by the table of status rules, code and message by the
common shapes of error bodies, since the description shows none."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any

from yarl import URL

from vidgen_async import errors
from vidgen_async.errors import AuthenticationSource, ServiceError
from vidgen_async.redaction.messages import LONGEST_READ, excerpt, hide_secrets, is_plain_word
from vidgen_async.service.codec import Answer, is_json_object, request_id_of, shown_request_id
from vidgen_async.service.status_rules import REFERENCE_CODES, rule_for
from vidgen_async.types.http import make_headers, retry_after
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence

#: How many bytes of an HTML page are searched for readable text.
_LONGEST_PAGE = 1 << 16
#: The codes of section 7 as words.
_CODE = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(sorted(REFERENCE_CODES))})(?![A-Za-z0-9_])")
#: Escapes of JSON, also of JSON that is quoted in other JSON.
_ESCAPES = re.compile(r"\\+(?:u[0-9A-Fa-f]{4}|[\"/bfnrt])?")
_MARKUP = re.compile(r"<[^>]*>?|>")

#: A retry sends the same image ids.
_NEW_ORDER = "Upload the images again, and order them under a new order id: an order never changes."
#: Who refused with a 401, and advice (5.7).
_REFUSED_BY = {
    "service key": ("the API key was refused", "Check that VIDGEN_API_KEY (or api_key) is the complete, current key."),
    "signed link": ("the signed link was refused", "Get the task again for a new video_url."),
    "upstream": ("the host of the video denied access", "Get the task again for a new video_url."),
}


def service_error(answer: Answer, *, origin: str, wall: datetime) -> ServiceError:
    """The error that an answer stands for (section 7)."""
    code, text = _code_and_text(answer)
    words = excerpt(text, answer.known)
    rule = rule_for(answer.status, code)
    kind, meaning = rule.error, rule.meaning
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": code,
        "body": answer.body,
        "request_id": request_id_of(answer.headers, answer.known),
        "retry_after": retry_after(answer.headers, wall),
    }
    if kind is errors.AuthenticationError:
        facts["source"] = refuser(answer.url, origin)
        meaning, facts["advice"] = _REFUSED_BY[facts["source"]]
    elif kind is errors.NotReadyError:
        facts["advice"] = "Wait for the task first: videos.wait(…)."
    shown = f"{answer.op}: {answer.status}" + (f" {code}" if code else "")
    said = "" if facts["retry_after"] is None else f"; retry after {facts['retry_after']:g} s"
    said += f" (the service says: {words})" if words else ""
    said += shown_request_id(answer.headers, answer.known)
    stop = "." if "advice" in facts else ""
    return kind(f"{shown}: {meaning or 'unexpected answer'}{said}{stop}", **facts)


def rejected_error(error: ServiceError, **order: Any) -> errors.RejectedError:
    """The refusal of a create as a RejectedError that is also the service error it came as. ``order`` names it."""
    kind = rule_for(error.status, error.code).rejected
    if kind.may_retry and not is_json_object(error.body):
        kind = errors.RejectedUnexpectedResponseError
    return _rejected_error(kind, error, None, order)


def _rejected_error(
    kind: type[errors.RejectedError], error: ServiceError, message: str | None, order: Mapping[str, Any]
) -> errors.RejectedError:
    facts = {name: getattr(error, name) for name in ("status", "code", "body", "request_id", "retry_after")}
    if isinstance(error, errors.AuthenticationError):
        facts["source"] = error.source
    usual = f"order {order['order_id']!r} was rejected and nothing was charged: {error.summary}"
    advice = error.advice
    if isinstance(error, errors.ReferenceAssetExpiredError):
        usual, advice = f"{usual}.", _NEW_ORDER
    return kind(message or usual, advice=advice, **facts, **order)


def recorded_refusal(attempt: Attempt, *, origin: str, wall: datetime, **order: Any) -> errors.RejectedError:
    """The refusal of a create that another process sent, as the journal has it. ``order`` names the order."""
    evidence = attempt.evidence or Evidence(outcome=AttemptOutcome.REJECTED, at=attempt.sent_at)
    answer = Answer("videos.create", evidence.status or 0, make_headers(), b"", url=URL(origin))
    error = service_error(answer, origin=origin, wall=wall)
    message = f"order {order['order_id']!r} was rejected when another process sent it, and nothing was charged"
    kind = rule_for(error.status, error.code).rejected  # the body is not stored: the next refusal shows its form
    return _rejected_error(kind, error, f"{message}: {evidence.cause or error.summary}", order)


def refuser(url: URL, origin: str) -> AuthenticationSource:
    """Who refused a request: the failing address tells (5.7)."""
    if {"sig", "exp"} & set(url.query):
        return "signed link"
    return "service key" if str(url.origin()) == origin else "upstream"


def _code_and_text(answer: Answer) -> tuple[str | None, str | bytes]:
    """Code and message from the common shapes of error bodies. The message may hold secrets."""
    try:
        data = json.loads(answer.body)
    except (ValueError, RecursionError):
        page = answer.body[:_LONGEST_PAGE].decode("utf-8", "replace")
        return _reference_code(answer), _MARKUP.sub(" ", page) if "<" in page else page
    inner = data["error"] if isinstance(data, dict) and isinstance(data.get("error"), dict) else data
    code, text = _named_code_and_text(inner, answer)
    if answer.status == 400 and code not in REFERENCE_CODES and (found := _reference_code(answer)):
        return found, "" if text == found else text
    return code, text


def _named_code_and_text(data: Any, answer: Answer) -> tuple[str | None, str | bytes]:
    if not isinstance(data, dict):
        return None, data if isinstance(data, str) else answer.body
    # One short word without secrets; anything else is no code, and stays in the body.
    codes = (str(data[name]) for name in ("code", "error_code", "type") if isinstance(data.get(name), str | int))
    code = next((code for code in codes if is_plain_word(code, answer.known)), None)
    for name in ("message", "detail", "error", "msg", "title"):
        value = data.get(name)
        if value:
            return code, value if isinstance(value, str) else _beginning_as_json(value)
    return code, "" if code else answer.body


def _reference_code(answer: Answer) -> str | None:
    """The first of the codes of section 7 that is a word of a 400's body, wherever it stands. One that is also in the
    request may be quoted from there, and is none."""
    codes = {code for code in REFERENCE_CODES if code.encode() in answer.body and code.encode() not in answer.sent}
    if answer.status != 400 or not codes:
        return None
    text = _ESCAPES.sub(" ", answer.body.decode("utf-8", "replace"))
    return next((word for word in _CODE.findall(text) if word in codes), None)


def _beginning_as_json(value: Any) -> str:
    """About as much of the value as an excerpt reads; nothing of one that is nested too deep to be written."""
    with suppress(RecursionError):
        return "".join(islice(json.JSONEncoder(ensure_ascii=False).iterencode(value), LONGEST_READ))
    return ""


def describe_outcome(
    answer: Answer, outcome: AttemptOutcome, *, is_complete: bool = True, failure: BaseException | None = None
) -> str:
    """One sentence, without secrets, about the answer to a create, for the journal and for errors."""
    why = "" if failure is None else f" ({excerpt(str(failure), answer.known) or type(failure).__name__})"
    code, text = _code_and_text(answer)
    shown = f"{answer.status}" + (f" {code}" if code else "")
    if 200 <= answer.status < 300 and outcome is AttemptOutcome.UNCERTAIN:
        problem = "has no task id" if is_complete else "was cut short"
        return f"the answer ({shown}) {problem}: {excerpt(answer.body, answer.known) or 'it is empty'}{why}"
    words = excerpt(text, answer.known)
    cut_short = "" if is_complete else f" (it was cut short{why})"
    return hide_secrets(f"the service answered {shown}" + (f": {words}" if words else ""), answer.known) + cut_short
