"""The file format of cassettes: one indented JSON document with a version, readable in a review.

::

    {
     "format": "vidgen-cassette",
     "version": 1,
     "meta": {"recorded_at": "2026-11-27T21:35:24Z", "recorder": "vidgen_async/0.1.0", "base_url": "https://…/openapi/v1"},
     "interactions": [
      {
       "n": 1,
       "op": "videos.get",
       "t": [0, 312, 313],
       "request": {"method": "GET", "url": "https://…/openapi/v1/videos/task_1"},
       "response": {"status": 200, "headers": ["content-type: application/json"], "body": {"json": {…}}}
      }
     ]
    }

``n`` numbers the requests in the order in which they began. ``t`` are milliseconds since the recording began: when the
request began, when its status was received, when it ended. An interaction has a ``response``, an ``error``, or both
(the body was incomplete). Unknown fields are preserved.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen
from yarl import URL

from vidgen_async.types.http import Delivery, Phase

FORMAT = "vidgen-cassette"
VERSION = 1


@frozen
class Meta:
    """About the recording as a whole."""

    recorded_at: datetime
    recorder: str
    #: The service's, if it was known: the one that a client needs for a replay.
    base_url: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def origin(self) -> str | None:
        """The service's; None where its address is unknown."""
        return None if self.base_url is None else str(URL(self.base_url).origin())


@frozen
class Failure:
    """How a request ended without a complete response: the class of the error, its evidence and its message. The type
    ``Cancelled`` means that its caller was cancelled."""

    type: str
    delivery: Delivery
    phase: Phase
    message: str = ""
    received: int = 0
    is_reused: bool = False
    """The connection had been kept alive from an earlier request."""


CANCELLED = "Cancelled"


@frozen
class RecordedRequest:
    """A request, redacted."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: dict[str, Any] | None = None


@frozen(kw_only=True)
class Interaction:
    """One request and its outcome. Times are in seconds since the recording began."""

    n: int
    op: str
    request: RecordedRequest
    started: float = 0.0
    answered: float | None = None
    ended: float | None = None
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: dict[str, Any] | None = None
    failure: Failure | None = None
    #: Fields that this release does not know; those of a part under the name of the part.
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def is_cancelled(self) -> bool:
        """Whether its caller was cancelled before a response was received."""
        return self.failure is not None and self.failure.type == CANCELLED

    @property
    def is_not_sent(self) -> bool:
        """Whether it is proven that the request was not sent."""
        return self.failure is not None and self.status is None and self.failure.delivery is Delivery.NOT_SENT

    def __str__(self) -> str:
        outcome = self.status if self.failure is None else self.failure.type
        return f"n={self.n} {self.request.method} {self.request.url} ({self.op}): {outcome}"


@frozen
class Document:
    """A whole cassette."""

    meta: Meta
    interactions: tuple[Interaction, ...] = ()
    extra: Mapping[str, Any] = field(factory=dict)


# -- as text and as lines ------------------------------------------------------------------------------------------

_TIMES = re.compile(r'"t": \[\n\s*(null|\d+),\n\s*(null|\d+),\n\s*(null|\d+)\n\s*\]')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def write(document: Document) -> str:
    """The cassette's text."""
    meta = document.meta
    data = {
        "format": FORMAT,
        "version": VERSION,
        "meta": meta_form(meta),
        "interactions": [interaction_form(interaction) for interaction in document.interactions],
        **document.extra,
    }
    # JSON strings contain no line breaks: this joins only the lines of times.
    return _TIMES.sub(r'"t": [\1, \2, \3]', to_text(data, json.JSONEncoder(ensure_ascii=False, indent=1))) + "\n"


def meta_form(meta: Meta) -> dict[str, Any]:
    recorded_at = meta.recorded_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"recorded_at": recorded_at, "recorder": meta.recorder, "base_url": meta.base_url, **meta.extra}


def request_form(request: RecordedRequest) -> dict[str, Any]:
    form: dict[str, Any] = {"method": request.method, "url": request.url}
    if request.headers:
        form["headers"] = [f"{name}: {value}" for name, value in request.headers]
    if request.body is not None:
        form["body"] = request.body
    return form


def interaction_form(interaction: Interaction) -> dict[str, Any]:
    """An interaction as JSON."""
    form = {
        "n": interaction.n,
        "op": interaction.op,
        "t": times_form(interaction.started, interaction.answered, interaction.ended),
        "request": request_form(interaction.request),
        **outcome_form(interaction.status, interaction.headers, interaction.body, interaction.failure),
    }
    for name, unknown in interaction.extra.items():
        form[name] = {**form[name], **unknown} if name in form else unknown
    return form


def times_form(*times: float | None) -> list[int | None]:
    """In milliseconds."""
    return [None if at is None else round(at * 1000) for at in times]


def outcome_form(
    status: int | None, headers: tuple[tuple[str, str], ...], body: dict[str, Any] | None, failure: Failure | None
) -> dict[str, Any]:
    """The outcome of a request: a response, an error, or both."""
    form: dict[str, Any] = {}
    if status is not None:
        response = form["response"] = {"status": status}
        if headers:
            response["headers"] = [f"{name}: {value}" for name, value in headers]
        if body is not None:
            response["body"] = body
    if failure is not None:
        error = form["error"] = {
            "type": failure.type,
            "delivery": str(failure.delivery),
            "phase": str(failure.phase),
            "message": failure.message,
        }
        if failure.received:
            error["received"] = failure.received
        if failure.is_reused:
            error["reused"] = True
    return form


_LINES = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def to_text(data: object, encoder: json.JSONEncoder = _LINES) -> str:
    """Readable JSON; only what UTF-8 cannot encode is escaped."""
    text = encoder.encode(data)
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
