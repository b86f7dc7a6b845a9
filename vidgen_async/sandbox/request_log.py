"""The requests that the sandbox received, for tests to count."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from attrs import define, field

from vidgen_async.sandbox.input_rules import parse_json

OriginName = Literal["service", "links"]
#: At least this many of the latest requests are stored, each with at most this many bytes of its body.
LOGGED_REQUESTS = 20_000
LOGGED_BODY = 10_000


@define(eq=False)
class ReceivedRequest:
    """A request whose head arrived. ``path`` is as received, with its query; ``origin`` "links" is the second origin;
    ``n`` counts from 1.

    The rest is set later: ``create`` for a POST /videos, ``fault`` the name of its fault, ``body`` its first 10,000
    bytes and ``size`` that of all of it, ``status`` and ``request_id`` of the answer (None: no answer), ``error`` the
    exception for which the sandbox itself answered 500, and ``is_over`` when the request has been handled, which took
    ``milliseconds`` of real time.
    """

    origin: OriginName
    op: str
    method: str
    path: str
    at: float
    headers: Mapping[str, str] = field(repr=False)
    n: int = 0
    create: "ReceivedCreate | None" = None
    fault: str | None = None
    body: bytes = field(default=b"", repr=False)
    size: int = 0
    status: int | None = None
    request_id: str | None = None
    milliseconds: float | None = None
    error: str | None = None
    is_over: bool = False

    @property
    def has_key(self) -> bool:
        """Whether it has an Authorization header."""
        return "Authorization" in self.headers


@define
class ReceivedCreate:
    """One POST /videos, recorded when its head arrived; the rest is set later.

    ``body`` is the parsed JSON (None if it did not arrive or is not JSON); ``status`` the status of the answer (None:
    no answer); ``task_id`` the id of its task, if any; ``replayed`` whether an earlier create created that task; and
    ``fault`` the name of its fault.
    """

    n: int
    idempotency_key: str | None
    headers: Mapping[str, str] = field(repr=False)
    received_at: float
    raw: bytes = field(default=b"", repr=False)
    body: Any = field(default=None, repr=False)
    body_arrived: bool = False
    status: int | None = None
    task_id: str | None = None
    replayed: bool = False
    fault: str | None = None

    def arrive(self, raw: bytes) -> None:
        """Record the body."""
        self.raw, self.body_arrived = raw, True
        with suppress(ValueError):
            self.body = parse_json(raw)

    @property
    def sha256(self) -> str:
        """The digest of the body's bytes."""
        return hashlib.sha256(self.raw).hexdigest()


#: Called with every request when it arrives, and again when it has been handled.
OnRequest = Callable[[ReceivedRequest], None]
