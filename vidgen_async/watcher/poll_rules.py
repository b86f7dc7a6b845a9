"""What a poll without a task means for the watch.

The form of an answer comes before its status: an error whose body is not a JSON object is not the service's own.

| fault                                                                        | ends the watch                    |
|------------------------------------------------------------------------------|-----------------------------------|
| transient: network, timeout, 408, 425, 5xx, a 2xx or 3xx that cannot be read,| never                             |
| no key from the function given as api_key                                    |                                   |
| busy: 429 (its Retry-After pauses the whole watcher)                         | never                             |
| foreign: any other error that is not the service's own                       | the third in a row, while this    |
|                                                                              | client has had no JSON answer, or |
|                                                                              | after 15 minutes of nothing else  |
| refused: 401 (polled again after 5 s)                                        | the second in a row               |
| gone: 404, 410 (polled again after 5 s)                                      | the second in a row; not within   |
|                                                                              | two minutes of the receipt        |
| unexpected: 400, 403, every other status, every other exception              | the third in a row                |
| fatal: an id that is none, a cassette that cannot be played, a client that   | the first                         |
| cannot go on                                                                 |                                   |

*In a row* means: with no other outcome in between.
"""

from vidgen_async.errors import (
    AuthenticationError,
    CassetteError,
    ClientStateError,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    TransportClosedError,
    TransportError,
)
from vidgen_async.service.codec import is_json_object
from vidgen_async.service.status_rules import PollFailure, rule_for

#: Seconds for which responses that are not the service's own may be those of a gateway that is out of order.
LONGEST_OUTAGE = 900.0
#: Seconds after the receipt for which a 404 may only mean that the service has not stored the task yet.
GRACE = 120.0

_LIMITS = {
    PollFailure.UNAUTHORIZED: 2,
    PollFailure.GONE: 2,
    PollFailure.FOREIGN: 3,
    PollFailure.UNEXPECTED: 3,
    PollFailure.FATAL: 1,
}
#: A second poll confirms these, after five seconds.
CONFIRMED = frozenset({PollFailure.UNAUTHORIZED, PollFailure.GONE})


def fault_of(error: Exception) -> PollFailure:
    """Return the kind of an error that a poll raised."""
    if isinstance(error, CassetteError | ClientStateError | InvalidRequestError):
        return PollFailure.FATAL
    if isinstance(error, ServiceError):
        fault = rule_for(error.status).poll
        is_decided = fault in (PollFailure.TRANSIENT, PollFailure.BUSY) or is_json_object(error.body)
        return fault if is_decided else PollFailure.FOREIGN
    # A closed transport never opens again; any other failure of the network may be temporary.
    if isinstance(error, TransportError | OSError) and not isinstance(error, TransportClosedError):
        return PollFailure.TRANSIENT
    return PollFailure.UNEXPECTED


def ends_watch(fault: PollFailure, in_a_row: int, *, is_new: bool, is_outage: bool = False) -> bool:
    """Return whether the watch ends with this fault; ``is_outage``: foreign responses may be those of a gateway."""
    if (fault is PollFailure.GONE and is_new) or (fault is PollFailure.FOREIGN and is_outage):
        return False
    limit = _LIMITS.get(fault)
    return limit is not None and in_a_row >= limit


def final_error(error: Exception, fault: PollFailure, task_id: str) -> Exception:
    """Return the error that waiters raise: of the class of its fault, with a note that names the task."""
    if isinstance(error, ServiceError):
        kind = {PollFailure.GONE: NotFoundError, PollFailure.UNAUTHORIZED: AuthenticationError}.get(fault)
        if kind is not None and not isinstance(error, kind):
            facts = {name: value for name, value in vars(error).items() if name != "__notes__"}
            converted = kind(error.summary, **facts)
            converted.__cause__ = error
            error = converted
    if fault is PollFailure.FOREIGN:
        error.add_note(
            "the responses do not come from the service: check that base_url names its host and ends in /openapi/v1"
        )
    error.add_note(f'raised while waiting for task {task_id!r}; to wait again, call client.videos.wait("{task_id}")')
    return error
