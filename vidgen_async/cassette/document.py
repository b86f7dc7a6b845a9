"""The cassette as a file: one indented JSON document with a version, made to be read in a review.

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

``n`` counts the requests in the order in which they began. ``t`` are milliseconds since the recording began: when the
request began, when its status came, when it ended. An interaction has a ``response``, an ``error``, or both (the body
broke off). Unknown fields are kept.
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import field, frozen
from yarl import URL

from vidgen_async.cassette.bodies import problem_of
from vidgen_async.errors import CassetteInvalidError, CassetteNotFoundError, CassetteVersionError
from vidgen_async.messages import Delivery, Phase

FORMAT = "vidgen-cassette"
VERSION = 1

_TIMES = re.compile(r'"t": \[\s*(?:(?:null|-?[\d.]+),?\s*){3}\]')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@frozen
class Meta:
    """About the recording as a whole."""

    recorded_at: datetime
    recorder: str
    #: Of the service, as far as it showed: what a client must be given for a replay.
    base_url: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)


@frozen
class Failure:
    """How a request ended without a whole answer: the error's class, its evidence and its message. The type
    ``Cancelled`` stands for a request that its caller gave up."""

    type: str
    delivery: Delivery
    phase: Phase
    message: str = ""
    received: int = 0

    @property
    def is_cancelled(self) -> bool:
        return self.type == CANCELLED


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
    """One request and what came of it. Times are in seconds since the recording began."""

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
    #: Fields that this release does not know; those of its parts under the parts' names.
    extra: Mapping[str, Any] = field(factory=dict)

    def __str__(self) -> str:
        outcome = self.status if self.failure is None else self.failure.type
        return f"n={self.n} {self.request.method} {self.request.url} ({self.op}): {outcome}"


@frozen
class Document:
    """A whole cassette."""

    meta: Meta
    interactions: tuple[Interaction, ...] = ()
    extra: Mapping[str, Any] = field(factory=dict)


# -- reading ---------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Document:
    """Read a cassette. CassetteNotFoundError, CassetteVersionError for a newer format, CassetteInvalidError for what is
    damaged or no cassette, with a pointer to the place."""
    place = Path(path)
    try:
        text = place.read_text("utf-8")
    except FileNotFoundError as error:
        message = f"there is no cassette at {place}"
        raise CassetteNotFoundError(message, path=str(place), advice="Record it first.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        message = f"the cassette {place} cannot be read: {reason}"
        raise CassetteInvalidError(message, path=str(place)) from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"{place} is no cassette, or a damaged one: it is not JSON ({error})"
        raise CassetteInvalidError(message, path=str(place)) from error
    return Reader(str(place)).document(data)


class Reader:
    """Turns JSON into a document or a part of one. What is wrong is a CassetteInvalidError that names its place."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: The same headers come again and again.
        self._headers: dict[tuple[Any, ...], tuple[tuple[str, str], ...]] = {}

    def document(self, data: Any) -> Document:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise self._invalid("/format", f'is not "{FORMAT}": this is no cassette')
        version = data.get("version")
        if type(version) is not int or version < 1:
            raise self._invalid("/version", "is not a version number")
        if version > VERSION:
            message = (
                f"the cassette {self._path} has version {version}; this release reads up to version {VERSION}. "
                "Upgrade vidgen-async, or record it again."
            )
            raise CassetteVersionError(message, path=self._path, pointer="/version")
        items = data.get("interactions")
        if not isinstance(items, list):
            raise self._invalid("/interactions", "is not a list")
        interactions = [self.interaction(item, f"/interactions/{at}") for at, item in enumerate(items)]
        if len({interaction.n for interaction in interactions}) != len(interactions):
            raise self._invalid("/interactions", "has two interactions with one ordinal n")
        extra = {name: data[name] for name in data if name not in ("format", "version", "meta", "interactions")}
        return Document(self.meta(data.get("meta")), tuple(sorted(interactions, key=lambda one: one.n)), extra)

    def meta(self, data: Any) -> Meta:
        try:
            recorded_at = datetime.fromisoformat(data["recorded_at"])
        except (TypeError, KeyError, ValueError) as error:
            raise self._invalid("/meta/recorded_at", "is not a time") from error
        base_url = data.get("base_url")
        if base_url is not None and not _is_address(base_url):
            raise self._invalid("/meta/base_url", "is no address")
        extra = {name: data[name] for name in data if name not in ("recorded_at", "recorder", "base_url")}
        if recorded_at.tzinfo is None:
            recorded_at = recorded_at.replace(tzinfo=UTC)
        return Meta(recorded_at, str(data.get("recorder", "")), base_url, extra)

    def interaction(self, data: Any, pointer: str) -> Interaction:
        """One interaction; ``pointer`` is its place in the file."""
        if not isinstance(data, dict):
            raise self._invalid(pointer, "is not an object")
        n, op, request = data.get("n"), data.get("op"), data.get("request")
        if type(n) is not int or not isinstance(op, str):
            raise self._invalid(pointer, "has no ordinal n or no op")
        if not isinstance(request, dict) or not isinstance(request.get("url"), str):
            raise self._invalid(f"{pointer}/request", "has no url")
        if not isinstance(request.get("method"), str):
            raise self._invalid(f"{pointer}/request", "has no method")
        response, error = data.get("response"), data.get("error")
        if response is None and error is None:
            raise self._invalid(pointer, "has neither a response nor an error")
        status = None
        headers: tuple[tuple[str, str], ...] = ()
        body = None
        if response is not None:
            status = response.get("status") if isinstance(response, dict) else None
            if type(status) is not int:
                raise self._invalid(f"{pointer}/response/status", "is not a number")
            headers = self.headers(response.get("headers", ()), f"{pointer}/response/headers")
            body = self.body(response.get("body"), f"{pointer}/response/body")
        started, answered, ended = self.times(data.get("t"), f"{pointer}/t")
        return Interaction(
            n=n,
            op=op,
            request=RecordedRequest(
                request["method"],
                request["url"],
                self.headers(request.get("headers", ()), f"{pointer}/request/headers"),
                self.body(request.get("body"), f"{pointer}/request/body"),
            ),
            started=started or 0.0,
            answered=answered,
            ended=ended,
            status=status,
            headers=headers,
            body=body,
            failure=None if error is None else self.failure(error, f"{pointer}/error"),
            extra=_unknown(data),
        )

    def headers(self, data: Any, pointer: str) -> tuple[tuple[str, str], ...]:
        try:
            lines = tuple(data)
            known = self._headers.get(lines)
            if known is None:
                known = self._headers[lines] = tuple(map(_header, lines))
            return known
        except (TypeError, ValueError, AttributeError) as error:
            raise self._invalid(pointer, 'is not a list of "name: value"') from error

    def body(self, data: Any, pointer: str) -> dict[str, Any] | None:
        if data is None:
            return None
        if not isinstance(data, dict):
            raise self._invalid(pointer, "is no body")
        problem = problem_of(data)
        if problem is not None:
            raise self._invalid(f"{pointer}{problem.where}", problem.what)
        return data

    def times(self, data: Any, pointer: str) -> tuple[float | None, ...]:
        if data is None:
            return (0.0, None, None)
        try:
            started, answered, ended = data
            return (
                started / 1000,
                None if answered is None else answered / 1000,
                None if ended is None else ended / 1000,
            )
        except (TypeError, ValueError) as error:
            raise self._invalid(pointer, "is not three times in milliseconds") from error

    def failure(self, data: Any, pointer: str) -> Failure:
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            raise self._invalid(pointer, "has no type")
        received = data.get("received", 0)
        try:
            delivery, phase = Delivery(str(data.get("delivery"))), Phase(str(data.get("phase")))
        except ValueError as error:
            raise self._invalid(pointer, "has an unknown delivery or phase") from error
        return Failure(
            data["type"],
            delivery,
            phase,
            str(data.get("message", "")),
            received if isinstance(received, int) else 0,
        )

    def _invalid(self, pointer: str, what: str) -> CassetteInvalidError:
        return CassetteInvalidError(f"the cassette {self._path}: {pointer} {what}", path=self._path, pointer=pointer)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(": ")
    if not colon:
        raise ValueError
    return name, value


def _is_address(text: object) -> bool:
    try:
        return isinstance(text, str) and URL(text).scheme in ("http", "https") and bool(URL(text).host)
    except ValueError:
        return False


def _unknown(data: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not read, of an interaction and of its parts."""
    unknown = {} if data.keys() <= _FIELDS else {name: data[name] for name in data if name not in _FIELDS}
    for part, known in _KNOWN.items():
        if part in data and not data[part].keys() <= known:
            unknown[part] = {name: data[part][name] for name in data[part] if name not in known}
    return unknown


_FIELDS = frozenset({"n", "op", "t", "request", "response", "error"})
_KNOWN = {
    "request": frozenset({"method", "url", "headers", "body"}),
    "response": frozenset({"status", "headers", "body"}),
    "error": frozenset({"type", "delivery", "phase", "message", "received"}),
}


# -- writing ---------------------------------------------------------------------------------------------------------


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
    # Line breaks are never inside of JSON's strings: only the times themselves are drawn together.
    return (
        _TIMES.sub(
            lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"),
            to_text(data, is_indented=True),
        )
        + "\n"
    )


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
        form[name] = {**form[name], **unknown} if name in _KNOWN else unknown
    return form


def times_form(*times: float | None) -> list[int | None]:
    """In milliseconds."""
    return [None if at is None else round(at * 1000) for at in times]


def outcome_form(
    status: int | None, headers: tuple[tuple[str, str], ...], body: dict[str, Any] | None, failure: Failure | None
) -> dict[str, Any]:
    """What came of a request: a response, an error, or both."""
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
    return form


_LINES = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=1)


def to_text(data: object, *, is_indented: bool = False) -> str:
    """JSON that people can read; what UTF-8 cannot hold is escaped."""
    text = (_INDENTED if is_indented else _LINES).encode(data)
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
