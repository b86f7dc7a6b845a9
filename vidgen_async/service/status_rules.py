"""May this go again? One table, with a column for reads and a column for creates.

A create goes again by itself only when it is proven that no byte left. An Idempotency-Key changes nothing about
that: what the service does with a repeated key is its own affair, and was never promised for a lost answer.
"""

from attrs import frozen

from vidgen_async.types.http import Delivery
from vidgen_async.types.orders import AttemptOutcome


@frozen
class Rule:
    """What one kind of answer means."""

    read_may_go_again: bool
    create: AttemptOutcome


_REFUSED = Rule(read_may_go_again=False, create=AttemptOutcome.REJECTED)
_REFUSED_FOR_NOW = Rule(read_may_go_again=True, create=AttemptOutcome.REJECTED)
_TRANSIENT = Rule(read_may_go_again=True, create=AttemptOutcome.UNCERTAIN)
_UNCLEAR = Rule(read_may_go_again=False, create=AttemptOutcome.UNCERTAIN)

_BY_STATUS = {
    **dict.fromkeys((400, 401, 402, 403, 404, 405, 406, 407, 411, 413, 414, 415, 431), _REFUSED),
    429: _REFUSED_FOR_NOW,
    408: _TRANSIENT,
    425: _TRANSIENT,
}


def rule_for(status: int) -> Rule:
    """The rule for an answer that is not a usable success. A 2xx that cannot be read is such an answer too: a read
    may have met a proxy's page; a create may have made a task."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return _TRANSIENT if status >= 500 or 200 <= status < 300 else _UNCLEAR


def outcome_without_answer(delivery: Delivery) -> AttemptOutcome:
    """What a create is when its send failed with this evidence."""
    return AttemptOutcome.NOT_SENT if delivery is Delivery.NOT_SENT else AttemptOutcome.UNCERTAIN


def outcome_of_answer(status: int, task_id: str | None) -> AttemptOutcome:
    """What a create is when the service answered; ``task_id`` is the id in its body, if it can be read."""
    if 200 <= status < 300:
        return AttemptOutcome.ACCEPTED if task_id else AttemptOutcome.UNCERTAIN
    return rule_for(status).create
