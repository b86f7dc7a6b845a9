"""HTTP answers as values: a status, headers and a body."""

import json
import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

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
