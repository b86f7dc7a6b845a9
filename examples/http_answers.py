"""What the web apps read from requests, and answer for errors."""

import json
import logging
from contextlib import suppress
from typing import Any

from vidgen_async import (
    InvalidRequestError,
    JournalError,
    NotFoundError,
    NotReadyError,
    NotSentError,
    OrderConflictError,
    RateLimitError,
    ReceiptNotStoredError,
    RejectedError,
    ServiceError,
    UncertainCreateError,
    VidgenError,
)
from vidgen_async.errors import BadRequestError, ServiceUnavailableError

from video_orders import IN_LOG

logger = logging.getLogger(__name__)

#: What a browser receives for an error: of several that match, the first.
STATUSES: tuple[tuple[type[VidgenError], int], ...] = (
    (InvalidRequestError, 422),  # nothing was sent
    (BadRequestError, 422),  # the service refuses this request
    (OrderConflictError, 409),  # the order id stands for another request
    (ReceiptNotStoredError, 201),  # accepted; it is stored later
    (UncertainCreateError, 202),  # an operator decides
    (NotSentError, 503),  # these may be repeated, with the same order id
    (JournalError, 503),
    (RateLimitError, 503),
    (ServiceUnavailableError, 503),
    (RejectedError, 502),  # the shop's key, credits or base URL
    (NotFoundError, 404),
    (NotReadyError, 409),
    (VidgenError, 502),
)
#: Of a stream of events: nothing on its way may hold it back.
EVENT_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def answer_to(error: VidgenError) -> tuple[int, dict[str, Any], dict[str, str]]:
    """The status, the JSON and the headers of the response for an error.

    A browser is shown what is wrong with its request. Anything else is logged:
    it may be about the shop's account or database.
    """
    status = next(code for kind, code in STATUSES if isinstance(error, kind))
    if isinstance(error, ServiceError) and error.status == 416:
        # The range that the browser asked for does not exist.
        size = error.content_range
        headers = {"Content-Range": size} if size else {}
        return 416, {"message": error.summary}, headers
    if 400 <= status < 500:
        return status, {"message": error.summary}, {}
    logger.error("%s", error)
    wait = getattr(error, "retry_after", None) or 10
    headers = {"Retry-After": f"{wait:.0f}"} if status == 503 else {}
    return status, {"message": IN_LOG}, headers


def prompt_of(body: bytes) -> str:
    """The prompt in the JSON that the page sends."""
    with suppress(ValueError):
        match json.loads(body):
            case {"prompt": str(prompt)}:
                return prompt
    raise InvalidRequestError(problems=['the body must be {"prompt": "…"}'])
