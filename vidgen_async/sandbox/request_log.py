"""What reached the sandbox, for tests to count."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import define, field

OriginName = Literal["service", "links"]
#: How many of the latest requests stay, at least.
LOGGED_REQUESTS = 20_000


@define(eq=False)
class ReceivedRequest:
    """A request whose head arrived. ``path`` is as it came, with its query; ``origin`` "links" is the second one.

    The rest is filled in as it happens: ``create`` where it is a POST /videos, ``fault`` the name of the fault that is
    played, ``status`` what was answered (None: no answer), ``is_over`` once nothing more will come.
    """

    origin: OriginName
    op: str
    method: str
    path: str
    at: float
    headers: Mapping[str, str] = field(repr=False)
    create: "ReceivedCreate | None" = None
    fault: str | None = None
    status: int | None = None
    is_over: bool = False

    @property
    def has_key(self) -> bool:
        """Whether an Authorization header came along."""
        return "Authorization" in self.headers


@define
class ReceivedCreate:
    """One POST /videos, counted from the moment its head arrived; the rest is filled in as it happens.

    ``body`` is the parsed JSON (None when it did not arrive or is no JSON); ``status`` what was answered (None: no
    answer); ``task_id`` the task it stands for, if any, and ``replayed`` whether an earlier create made that task;
    ``fault`` the name of the fault that was played.
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

    @property
    def sha256(self) -> str:
        """Of the bytes of the body."""
        return hashlib.sha256(self.raw).hexdigest()


@define
class RequestLog:
    """Every create in order of arrival, and the latest requests."""

    creates: list[ReceivedCreate] = field(factory=list)
    requests: list[ReceivedRequest] = field(factory=list)

    def add(self, request: ReceivedRequest) -> None:
        """Add a request whose head has arrived, with a record of its create if it is one."""
        if len(self.requests) >= 2 * LOGGED_REQUESTS:
            del self.requests[:LOGGED_REQUESTS]
        self.requests.append(request)
        if request.op == "videos.create":
            key = request.headers.get("Idempotency-Key")
            request.create = ReceivedCreate(len(self.creates) + 1, key, request.headers, request.at)
            self.creates.append(request.create)

    def clear(self) -> None:
        """Remove everything."""
        self.creates.clear()
        self.requests.clear()


#: Is told of every request when it has arrived, and again when it is over.
OnRequest = Callable[[ReceivedRequest], None]
