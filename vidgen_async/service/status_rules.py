"""What a status of the service means, in one table: the error class and its meaning (section 7), whether a read is
retried, the outcome of a create, what the watcher does with a poll, and whether a signed link counts as refused.

A create is retried automatically only when it is proven that no byte was sent, or, with ``Pacing(max_wait=…)``, when it
was refused with 429. An Idempotency-Key changes nothing about that: what the service does with a repeated key is not
documented, and was never promised for a lost answer.
"""

from enum import StrEnum

from attrs import frozen

from vidgen_async import errors
from vidgen_async.errors import RejectedError, ServiceError
from vidgen_async.types.http import Delivery
from vidgen_async.types.orders import AttemptOutcome


class PollFailure(StrEnum):
    """The kinds of polls that gave no task: see :mod:`vidgen_async.watcher.poll_rules`."""

    TRANSIENT = "transient"
    BUSY = "busy"
    UNAUTHORIZED = "unauthorized"
    GONE = "gone"
    FOREIGN = "foreign"
    UNEXPECTED = "unexpected"
    FATAL = "fatal"


@frozen
class StatusRule:
    """One row of the table."""

    is_read_retried: bool
    create: AttemptOutcome
    poll: PollFailure
    error: type[ServiceError] = errors.UnexpectedResponseError
    meaning: str = ""
    is_link_refused: bool = False
    """Whether a signed link that answers so is no longer valid."""

    @property
    def rejected(self) -> type[RejectedError]:
        """The error of a create that was rejected: it is this row's error too."""
        return _REJECTED_ERRORS.get(self.error, errors.RejectedUnexpectedResponseError)


_REJECTED, _UNCERTAIN = AttemptOutcome.REJECTED, AttemptOutcome.UNCERTAIN
_MISSING = "it was not found in this account; check that the base URL ends in /openapi/v1, and the task id"
_NOT_ALLOWED = "this URL does not take such requests; check that the base URL ends in /openapi/v1"
_NO_CREDITS = "not enough credits"
_NOT_READY = "the video is not ready, or not available"
_BUSY = "rate limit reached, or a channel is at capacity"
_UNAVAILABLE = "temporarily unavailable, or the model is in maintenance"
_GATEWAY = "gateway or upstream fault"

_RETRIED_ROW = StatusRule(True, _UNCERTAIN, PollFailure.TRANSIENT)
# fmt: off
_RULES: dict[int, StatusRule] = {
    # status           read   create      poll                      error class and meaning             signed link
    400: StatusRule(False, _REJECTED,  PollFailure.UNEXPECTED,    errors.BadRequestError, "invalid parameters"),
    401: StatusRule(False, _REJECTED,  PollFailure.UNAUTHORIZED,  errors.AuthenticationError, is_link_refused=True),
    402: StatusRule(False, _REJECTED,  PollFailure.UNEXPECTED,    errors.InsufficientCreditsError, _NO_CREDITS),
    403: StatusRule(False, _REJECTED,  PollFailure.UNEXPECTED,    is_link_refused=True),
    404: StatusRule(False, _REJECTED,  PollFailure.GONE,          errors.NotFoundError, _MISSING, is_link_refused=True),
    405: StatusRule(False, _REJECTED,  PollFailure.UNEXPECTED,    meaning=_NOT_ALLOWED),
    409: StatusRule(False, _UNCERTAIN, PollFailure.UNEXPECTED,    errors.NotReadyError, _NOT_READY),
    410: StatusRule(False, _UNCERTAIN, PollFailure.GONE,          is_link_refused=True),
    429: StatusRule(True,  _REJECTED,  PollFailure.BUSY,          errors.RateLimitError, _BUSY),
    502: StatusRule(True,  _UNCERTAIN, PollFailure.TRANSIENT,     errors.GatewayError, _GATEWAY),
    503: StatusRule(True,  _UNCERTAIN, PollFailure.TRANSIENT,     errors.ServiceUnavailableError, _UNAVAILABLE),
    504: StatusRule(True,  _UNCERTAIN, PollFailure.TRANSIENT,     errors.GatewayError, _GATEWAY),
    **dict.fromkeys((406, 407, 411, 413, 414, 415, 431), StatusRule(False, _REJECTED, PollFailure.UNEXPECTED)),
    **dict.fromkeys((408, 425), _RETRIED_ROW),
}
# Every other status, by its first digit. A 2xx without a usable body is an error too: a read may have met a proxy's
# page; a create may have made a task.
_BY_FIRST_DIGIT = {
    2: _RETRIED_ROW,
    3: StatusRule(False, _UNCERTAIN, PollFailure.TRANSIENT),
    5: _RETRIED_ROW,
}
_OTHER = StatusRule(False, _UNCERTAIN, PollFailure.UNEXPECTED)
#: A 400 with one of these codes (section 7).
_BY_CODE = {
    code: StatusRule(False, _REJECTED, PollFailure.UNEXPECTED, error, meaning)
    for code, error, meaning in (
        ("EMPTY_REFERENCE_ASSET", errors.EmptyReferenceAssetError,
         "the uploaded content is empty; upload the original file again"),
        ("INVALID_REFERENCE_IMAGE", errors.InvalidReferenceImageError,
         "the image cannot be decoded, or its format is invalid"),
        ("REFERENCE_ASSET_EXPIRED", errors.ReferenceAssetExpiredError,
         "the asset is deleted, expired or not owned by this account; upload it again"),
        ("UNSUPPORTED_REFERENCE_URL", errors.UnsupportedReferenceURLError,
         "only your own uploaded assets can be used here; pass other URLs in image_urls"),
    )
}
# fmt: on

REFERENCE_CODES = frozenset(_BY_CODE)

_REJECTED_ERRORS: dict[type[ServiceError], type[RejectedError]] = {
    kind.__bases__[1]: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RejectedError) and kind is not RejectedError
}


def rule_for(status: int, code: str | None = None) -> StatusRule:
    """The rule for an answer that is not a usable success."""
    if status == 400 and code in _BY_CODE:
        return _BY_CODE[code]
    return _RULES.get(status) or _BY_FIRST_DIGIT.get(status // 100, _OTHER)


def outcome_without_answer(delivery: Delivery) -> AttemptOutcome:
    """What a create is when its send failed with this evidence."""
    return AttemptOutcome.NOT_SENT if delivery is Delivery.NOT_SENT else AttemptOutcome.UNCERTAIN


def outcome_of_answer(status: int, task_id: str | None) -> AttemptOutcome:
    """What a create is when the service answered; ``task_id`` is the id in its body, if it can be read."""
    if 200 <= status < 300:
        return AttemptOutcome.ACCEPTED if task_id else AttemptOutcome.UNCERTAIN
    return rule_for(status).create
