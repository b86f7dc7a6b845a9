"""Reads a document from a file. Errors name the JSON pointer of the invalid field."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from yarl import URL

from vidgen_async.cassette.body_decoding import LFS_ADVICE, LFS_POINTER, problem_of
from vidgen_async.cassette.document import FORMAT, VERSION, Document, Failure, Interaction, Meta, RecordedRequest
from vidgen_async.errors import CassetteInvalidError, CassetteNotFoundError, CassetteVersionError
from vidgen_async.types.http import Delivery, Phase

Pairs: TypeAlias = tuple[tuple[str, str], ...]

#: Times outside of these limits are invalid, and would overflow.
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
_LONGEST_TIME = 1e13


def load(path: str | os.PathLike[str]) -> Document:
    """Read a cassette.

    Raises:
        CassetteNotFoundError: There is no such file.
        CassetteVersionError: It has a newer format.
        CassetteInvalidError: It is damaged or not a cassette; with a JSON pointer to the invalid field.
    """
    place = Path(path)
    if place.exists() and not place.is_file():
        raise CassetteInvalidError(f"{place} is not a cassette: it is not a regular file", path=str(place))
    try:
        text = place.read_text("utf-8")
    except FileNotFoundError as error:
        message = f"there is no cassette at {place}"
        raise CassetteNotFoundError(message, path=str(place), advice="Record it first.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or error
        raise CassetteInvalidError(f"the cassette {place} cannot be read: {reason}", path=str(place)) from error
    if text.startswith(LFS_POINTER.decode()):
        raise CassetteInvalidError(f"the cassette {place} {LFS_ADVICE}", path=str(place))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"{place} is not a cassette, or a damaged one: it is not JSON ({error})"
        raise CassetteInvalidError(message, path=str(place)) from error
    return Reader(str(place)).document(data)


class Reader:
    """Converts JSON to a document or a part of one. CassetteInvalidError names the JSON pointer of an invalid field."""

    def __init__(self, path: str) -> None:
        self._path = path

    def document(self, data: Any) -> Document:
        is_cassette = isinstance(data, dict) and data.get("format") == FORMAT
        self._require(is_cassette, "/format", f'is not "{FORMAT}": this is not a cassette')
        version = data.get("version")
        self._require(type(version) is int and version > 0, "/version", "is not a version number")
        if version > VERSION:
            message = (
                f"the cassette {self._path} has version {version}; this release reads up to version {VERSION}. "
                "Upgrade vidgen-async, or record it again."
            )
            raise CassetteVersionError(message, path=self._path, pointer="/version")
        items = data.get("interactions")
        self._require(isinstance(items, list), "/interactions", "is not a list")
        interactions = [self.interaction(item, f"/interactions/{at}") for at, item in enumerate(items)]
        numbers = {one.n for one in interactions}
        self._require(len(numbers) == len(items), "/interactions", "has two interactions with the same ordinal n")
        extra = {name: data[name] for name in data if name not in ("format", "version", "meta", "interactions")}
        return Document(self.meta(data.get("meta")), tuple(sorted(interactions, key=lambda one: one.n)), extra)

    def meta(self, data: Any) -> Meta:
        try:
            recorded_at = datetime.fromisoformat(data["recorded_at"])
        except (TypeError, KeyError, ValueError) as error:
            raise self._invalid("/meta/recorded_at", "is not a time") from error
        base_url = data.get("base_url")
        self._require(base_url is None or _is_address(base_url), "/meta/base_url", "is not an address")
        extra = {name: data[name] for name in data if name not in ("recorded_at", "recorder", "base_url")}
        self._require(_FIRST_YEAR <= recorded_at.year <= _LAST_YEAR, "/meta/recorded_at", "is not a plausible time")
        if recorded_at.tzinfo is None:
            recorded_at = recorded_at.replace(tzinfo=UTC)
        return Meta(recorded_at, str(data.get("recorder", "")), base_url, extra)

    def interaction(self, data: Any, pointer: str) -> Interaction:
        """One interaction; ``pointer`` is its JSON pointer."""
        self._require(isinstance(data, dict), pointer, "is not an object")
        n, op, request = data.get("n"), data.get("op"), data.get("request")
        self._require(type(n) is int and isinstance(op, str), pointer, "has no ordinal n or no op")
        for name in ("url", "method"):
            has_one = isinstance(request, dict) and isinstance(request.get(name), str)
            self._require(has_one, f"{pointer}/request", f"has no {name}")
        response, error = data.get("response"), data.get("error")
        self._require(response is not None or error is not None, pointer, "has neither a response nor an error")
        status = None
        headers: Pairs = ()
        body = None
        if response is not None:
            status = response.get("status") if isinstance(response, dict) else None
            self._require(type(status) is int, f"{pointer}/response/status", "is not a number")
            headers = self._headers(response, f"{pointer}/response")
            body = self._body(response, f"{pointer}/response")
        started, answered, ended = self._times(data.get("t"), f"{pointer}/t")
        return Interaction(
            n=n,
            op=op,
            request=RecordedRequest(
                request["method"],
                request["url"],
                self._headers(request, f"{pointer}/request"),
                self._body(request, f"{pointer}/request"),
            ),
            started=started or 0.0,
            answered=answered,
            ended=ended,
            status=status,
            headers=headers,
            body=body,
            failure=None if error is None else self._failure(error, f"{pointer}/error"),
            extra=_unknown(data),
        )

    def _headers(self, data: dict[str, Any], pointer: str) -> Pairs:
        pairs = []
        try:
            for line in data.get("headers", ()):
                name, colon, value = line.partition(": ")
                if not colon:
                    raise ValueError
                pairs.append((name, value))
        except (TypeError, ValueError, AttributeError) as error:
            raise self._invalid(f"{pointer}/headers", 'is not a list of "name: value"') from error
        return tuple(pairs)

    def _body(self, data: dict[str, Any], pointer: str) -> dict[str, Any] | None:
        body = data.get("body")
        self._require(body is None or isinstance(body, dict), f"{pointer}/body", "is no body")
        problem = None if body is None else problem_of(body)
        if problem is not None:
            raise self._invalid(f"{pointer}/body{problem[0]}", problem[1])
        return body

    def _times(self, data: Any, pointer: str) -> tuple[float | None, ...]:
        if data is None:
            return (0.0, None, None)
        try:
            started, answered, ended = data
            times = (started, answered or 0, ended or 0)
            self._require(0 <= min(times) <= max(times) <= _LONGEST_TIME, pointer, "is not a plausible time")
            return (started / 1000, *(None if at is None else at / 1000 for at in (answered, ended)))
        except (TypeError, ValueError) as error:
            raise self._invalid(pointer, "is not three times in milliseconds") from error

    def _failure(self, data: Any, pointer: str) -> Failure:
        self._require(isinstance(data, dict) and isinstance(data.get("type"), str), pointer, "has no type")
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
            data.get("reused") is True,
        )

    def _require(self, is_valid: bool, pointer: str, what: str) -> None:
        if not is_valid:
            raise self._invalid(pointer, what)

    def _invalid(self, pointer: str, what: str) -> CassetteInvalidError:
        return CassetteInvalidError(f"the cassette {self._path}: {pointer} {what}", path=self._path, pointer=pointer)


def _is_address(text: object) -> bool:
    try:
        return isinstance(text, str) and URL(text).scheme in ("http", "https") and bool(URL(text).host)
    except ValueError:
        return False


def _unknown(data: dict[str, Any]) -> dict[str, Any]:
    """The unknown fields of an interaction and of its parts."""
    unknown = {name: value for name, value in data.items() if name not in _FIELDS}
    for part, known in _KNOWN.items():
        more = {name: value for name, value in (data.get(part) or {}).items() if name not in known}
        if more:
            unknown[part] = more
    return unknown


_FIELDS = frozenset({"n", "op", "t", "request", "response", "error"})
_KNOWN = {
    "request": frozenset({"method", "url", "headers", "body"}),
    "response": frozenset({"status", "headers", "body"}),
    "error": frozenset({"type", "delivery", "phase", "message", "received", "reused"}),
}
