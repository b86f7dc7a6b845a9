"""The requests and answers of HTTP as values, and the paths of the service by method (section 4)."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote

from attrs import evolve, field, frozen

from vidgen_async.sandbox.request_log import OriginName

JSON_TYPE = "application/json; charset=utf-8"


@frozen
class Answer:
    """One HTTP answer. Content-Length is that of the body unless ``headers`` say otherwise."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)

    @classmethod
    def json(cls, status: int, value: Any) -> "Answer":
        """Return an answer with ``value`` as its JSON body, in ASCII, which can hold lone surrogates too."""
        return cls(status, json.dumps(value, allow_nan=False).encode(), {"Content-Type": JSON_TYPE})

    @classmethod
    def error(cls, status: int, code: str, message: str) -> "Answer":
        """Return an answer with an error body. Its shape is the sandbox's own: section 7 shows none."""
        return cls.json(status, {"error": {"code": code, "message": message}})

    def with_headers(self, headers: Mapping[str, str]) -> "Answer":
        replaced = {name.lower() for name in headers}
        others = {name: text for name, text in self.headers.items() if name.lower() not in replaced}
        return evolve(self, headers={**others, **headers})


class Refusal(Exception):  # noqa: N818 - an answer that is raised, not an error of the sandbox
    """Raised where a rule of the service refuses a request, with the answer to send."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.answer = Answer.error(status, code, message).with_headers(headers or {})


def media_type_of(headers: Mapping[str, str]) -> str:
    """Return the media type of a body, in lower case and without parameters; empty if there is none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def video_answer(data: bytes, etag: str, range_header: str | None, if_range: str | None) -> Answer:
    """Return 200 with the whole video, or 206 with the requested range (RFC 9110); a Refusal for one beyond the end."""
    headers = {"Content-Type": "video/mp4", "Accept-Ranges": "bytes", "ETag": etag}
    match = re.fullmatch(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", range_header or "")
    start, end = match.groups() if match and if_range in (None, etag) else ("", "")
    last = len(data) - 1
    if start:
        first, last = int(start), min(int(end), last) if end else last
    else:
        first = max(0, len(data) - int(end or 0))
    if not (start or end) or (start and end and int(start) > int(end)):
        return Answer(200, data, headers)
    if first >= len(data):
        message = f"the range is beyond the end of the video; size: {len(data)} bytes"
        raise Refusal(416, "RANGE_NOT_SATISFIABLE", message, {"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
    return Answer(206, data[first : last + 1], headers)


T = TypeVar("T")

PREFIX = "/openapi/v1/"
ASSET_PATH = "/api/reference-assets/{asset}/content/{name}"
LINK_PATH = "/v/{link}"
#: The operations by method of each path at the two origins; ``{id}`` is one segment.
PATHS: dict[OriginName, dict[str, dict[str, str]]] = {
    "service": {
        f"{PREFIX}models": {"GET": "models.list"},
        f"{PREFIX}account": {"GET": "account.get"},
        f"{PREFIX}files": {"POST": "files.create"},
        f"{PREFIX}videos": {"POST": "videos.create"},
        f"{PREFIX}videos/{{id}}": {"GET": "videos.get"},
        f"{PREFIX}videos/{{id}}/content": {"GET": "videos.content"},
        ASSET_PATH: {"GET": "asset", "HEAD": "asset"},
    },
    "links": {LINK_PATH: {"GET": "link", "HEAD": "link"}},
}


@frozen
class Route:
    """An operation with the names in its path, or the methods that are ``allowed`` instead of the requested one."""

    op: str
    names: Mapping[str, str]
    allowed: tuple[str, ...] = ()


@frozen
class Call:
    """A request that was read completely. ``path`` and ``query`` are as received."""

    names: Mapping[str, str]
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def is_json(self) -> bool:
        return media_type_of(self.headers) == "application/json"

    @property
    def host(self) -> str | None:
        return self.headers.get("Host")


def find(table: Mapping[str, T], path: str) -> tuple[T, dict[str, str]] | None:
    """Return what a table has for a path as received, with the decoded variable parts of the path."""
    for shape, value in table.items():
        if found := pattern(shape).fullmatch(path):
            return value, {name: unquote(text) for name, text in found.groupdict().items()}
    return None


@cache
def pattern(shape: str) -> re.Pattern[str]:
    """Return the expression of a path with parts like ``{id}``, none of which is empty or has a slash."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(shape)))


def find_route(origin: OriginName, method: str, path: str) -> Route:
    methods, names = find(PATHS[origin], path) or ({}, {})
    return Route(methods[method], names) if method in methods else Route("unknown", {}, tuple(methods))
