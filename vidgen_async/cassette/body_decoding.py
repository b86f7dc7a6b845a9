"""Bodies of a cassette as they are played back.

A body is one of ``{"json"}``, ``{"text"}``, ``{"b64"}``, ``{"blob"}``, or nothing but ``{"bytes", "sha256"}``; an empty
one is None.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from attrs import frozen

from vidgen_async.types.http import CHUNK

RecordedBody: TypeAlias = dict[str, Any]

#: The directory beside cassettes that holds their large bodies.
BLOBS = "blobs"

#: How JSON is usually written. What was written in one of these ways is written the same way again.
STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "compact-utf8": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {},
    "spaced-utf8": {"ensure_ascii": False},
}

_BLOB_NAME = re.compile(r"sha256-[0-9a-f]{64}\.\w+")


@frozen
class Problem:
    """What is wrong with a recorded body, and where in it."""

    where: str
    what: str


def problem_of(body: RecordedBody) -> Problem | None:
    """What keeps a recorded body from being played, if anything."""
    if "json" in body:
        style = body.get("style", "compact")
        return None if isinstance(style, str) and style in STYLES else Problem("/style", "is unknown")
    if "text" in body:
        if body.get("charset", "latin-1") != "latin-1":
            return Problem("/charset", "is unknown")
        return None if isinstance(body["text"], str) else Problem("/text", "is no text")
    if "b64" in body:
        return None if _is_base64(body["b64"]) else Problem("/b64", "is no Base64")
    length = body.get("bytes")
    if length is None and "blob" not in body and "end" in body:
        return None
    if type(length) is not int or length < 0:
        return Problem("/bytes", "is no length")
    if "blob" not in body:
        return None
    if not isinstance(body["blob"], str) or not _BLOB_NAME.fullmatch(body["blob"]):
        return Problem("/blob", "is no name of a blob")
    return None if _ends(body) is not None else Problem("/ends", "are not the lengths of two parts of the body")


def _is_base64(text: object) -> bool:
    try:
        return isinstance(text, str) and base64.b64decode(text, validate=True) is not None
    except ValueError:
        return False


def _ends(body: RecordedBody) -> tuple[int, int] | None:
    """How much of each end of the body is in its blob."""
    if body.get("stored") == "all":
        return body["bytes"], 0
    try:
        first, last = body.get("ends", ())
    except (TypeError, ValueError):
        return None
    if type(first) is not int or type(last) is not int or min(first, last) < 0 or first + last > body["bytes"]:
        return None
    return first, last


# -- playing back ----------------------------------------------------------------------------------------------------


def body_bytes(body: RecordedBody | None) -> bytes | None:
    """The bytes of a body that stands in the cassette itself; None for one that must be streamed."""
    if body is None or body.keys() == {"end"}:
        return b""
    if "json" in body:
        return json.dumps(body["json"], **STYLES[body.get("style", "compact")]).encode("utf-8", "surrogatepass")
    if "text" in body:
        text = str(body["text"])
        return text.encode("latin-1", "replace") if "charset" in body else text.encode("utf-8", "surrogatepass")
    return base64.b64decode(body["b64"]) if "b64" in body else None


def body_length(body: RecordedBody | None) -> int:
    """Its length when it is played back."""
    data = body_bytes(body)
    return int((body or {})["bytes"]) if data is None else len(data)


def streamed(body: RecordedBody, blobs: Path) -> Iterator[bytes]:
    """A long body piece by piece: what is kept from its blob, and zeros for what is not."""
    left = int(body["bytes"])
    ends = _ends(body) if "blob" in body else None
    if ends is None:
        yield from _zeros(left)
        return
    with (blobs / body["blob"]).open("rb") as file:
        yield from _pieces(file.read, ends[0])
        yield from _zeros(left - sum(ends))
        yield from _pieces(file.read, ends[1])


def _pieces(read: Any, left: int) -> Iterator[bytes]:
    while left > 0:
        piece = read(min(CHUNK, left))
        if not piece:
            message = "the blob is shorter than the cassette says"
            raise EOFError(message)
        left -= len(piece)
        yield piece


def _zeros(left: int) -> Iterator[bytes]:
    piece = bytes(min(CHUNK, max(left, 0)))
    while left > 0:
        yield piece[:left]
        left -= len(piece)
