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
#: What a value of another type raises.
_WRONG = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


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
        version, items = data.get("version"), data.get("interactions")
        self._require(type(version) is int and version > 0, "/version", "is not a version number")
        if version > VERSION:
            message = (
                f"the cassette {self._path} has version {version}; this release reads up to version {VERSION}. "
                "Upgrade vidgen-async, or record it again."
            )
            raise CassetteVersionError(message, path=self._path, pointer="/version")
        self._require(isinstance(items, list), "/interactions", "is not a list")
        interactions = [self.interaction(item, f"/interactions/{at}") for at, item in enumerate(items)]
        numbers = {one.n for one in interactions}
        self._require(len(numbers) == len(items), "/interactions", "has two interactions with the same ordinal n")
        extra = {name: data[name] for name in data if name not in ("format", "version", "meta", "interactions")}
        return Document(self.meta(data.get("meta")), tuple(sorted(interactions, key=lambda one: one.n)), extra)

    def meta(self, data: Any) -> Meta:
        part, what = "recorded_at", "is not a plausible time"
        try:
            recorded_at = datetime.fromisoformat(data["recorded_at"])
            _check(_FIRST_YEAR <= recorded_at.year <= _LAST_YEAR)
            part, what = "base_url", "is not an address"
            base_url = data.get("base_url")
            _check(base_url is None or (URL(base_url).scheme in ("http", "https") and bool(URL(base_url).host)))
        except _WRONG as error:
            raise self._invalid(f"/meta/{part}", what) from error
        extra = {name: data[name] for name in data if name not in ("recorded_at", "recorder", "base_url")}
        recorded_at = recorded_at if recorded_at.tzinfo else recorded_at.replace(tzinfo=UTC)
        return Meta(recorded_at, str(data.get("recorder", "")), base_url, extra)

    def interaction(self, data: Any, pointer: str) -> Interaction:
        """One interaction; ``pointer`` is its JSON pointer."""
        status: int | None = None
        part, what = "", "has no ordinal n, no op, or neither a response nor an error"
        try:
            response, error = data.get("response"), data.get("error")
            _check(type(data["n"]) is int, isinstance(data["op"], str), (response, error) != (None, None))
            part, what = "/request", "has no method or no URL"
            method, url = data["request"]["method"], data["request"]["url"]
            _check(isinstance(method, str), isinstance(url, str))
            part, what = "/response/status", "is not a number"
            if response is not None:
                status = response["status"]
                _check(type(status) is int)
            part, what = "/t", "is not three plausible times in milliseconds"
            times = data.get("t") or (0, None, None)
            started, answered, ended = (None if at is None else at / 1000 for at in times)
            _check(*(0 <= at <= _LONGEST_TIME for at in times if at is not None))
            part, what = "/error", "has no type, or an unknown delivery or phase"
            failure = None if error is None else _failure(error)
        except _WRONG as wrong:
            raise self._invalid(f"{pointer}{part}", what) from wrong
        headers, body = self._content(response or {}, f"{pointer}/response")
        return Interaction(
            n=data["n"],
            op=data["op"],
            request=RecordedRequest(method, url, *self._content(data["request"], f"{pointer}/request")),
            started=started or 0.0,
            answered=answered,
            ended=ended,
            status=status,
            headers=headers,
            body=body,
            failure=failure,
            extra=_unknown(data),
        )

    def _content(self, data: dict[str, Any], pointer: str) -> tuple[Pairs, dict[str, Any] | None]:
        """The headers and the body of a request or a response."""
        try:
            pairs = [line.partition(": ") for line in data.get("headers", ())]
            _check(all(colon for _, colon, _ in pairs))
        except _WRONG as error:
            raise self._invalid(f"{pointer}/headers", 'is not a list of "name: value"') from error
        body = data.get("body")
        self._require(body is None or isinstance(body, dict), f"{pointer}/body", "is no body")
        problem = None if body is None else problem_of(body)
        if problem is not None:
            raise self._invalid(f"{pointer}/body{problem[0]}", problem[1])
        return tuple((name, value) for name, _, value in pairs), body

    def _require(self, is_valid: bool, pointer: str, what: str) -> None:
        if not is_valid:
            raise self._invalid(pointer, what)

    def _invalid(self, pointer: str, what: str) -> CassetteInvalidError:
        return CassetteInvalidError(f"the cassette {self._path}: {pointer} {what}", path=self._path, pointer=pointer)


def _failure(data: Any) -> Failure:
    received = data.get("received", 0)
    _check(isinstance(data["type"], str))
    return Failure(
        data["type"],
        Delivery(str(data.get("delivery"))),
        Phase(str(data.get("phase"))),
        str(data.get("message", "")),
        received if isinstance(received, int) else 0,
        data.get("reused") is True,
    )


def _check(*are_valid: bool) -> None:
    if not all(are_valid):
        raise ValueError


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
