"""Decodes the bodies of a cassette for replay: ``{"json"}``, ``{"text"}``, ``{"b64"}``, ``{"blob"}``, or only
``{"bytes", "sha256"}``; an empty one is None."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from vidgen_async.types.http import CHUNK

RecordedBody: TypeAlias = dict[str, Any]

#: The directory beside cassettes for their large bodies.
BLOBS = "blobs"

#: The usual styles of JSON. A body in one of these styles is replayed in the same style.
STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "compact-utf8": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {},
    "spaced-utf8": {"ensure_ascii": False},
}

#: How a file begins that stands for one that Git LFS has not fetched.
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
LFS_ADVICE = "is a Git LFS pointer, not the file itself: fetch it with git lfs pull"

_ZEROS = bytes(CHUNK)
_BLOB_NAME = re.compile(r"sha256-[0-9a-f]{64}\.\w+")


def problem_of(body: RecordedBody) -> tuple[str, str] | None:
    """The JSON pointer of an invalid field and what is wrong with it; None if the body can be replayed."""
    blob, length = body.get("blob"), body.get("bytes")
    try:
        if "json" in body:
            STYLES[body.get("style", "compact")]
            return None
        if body_bytes(body) is not None:
            return None if body.get("charset", "latin-1") == "latin-1" else ("/charset", "is unknown")
    except (AttributeError, LookupError, TypeError, ValueError):
        return ("", "cannot be decoded: its style, text or Base64 is unknown")
    if type(length) is not int or length < 0:
        return ("/bytes", "is not a length")
    if blob is None:
        return None
    if not isinstance(blob, str) or not _BLOB_NAME.fullmatch(blob):
        return ("/blob", "is not the name of a blob")
    return None if _ends(body) is not None else ("/ends", "are not the lengths of two parts of the body")


def _ends(body: RecordedBody) -> tuple[int, int] | None:
    """How many bytes of the beginning and of the end of the body are in its blob."""
    if body.get("stored") == "all":
        return body["bytes"], 0
    match body.get("ends"):
        case [int(first), int(last)] if min(first, last) >= 0 and first + last <= body["bytes"]:
            return first, last
    return None


def body_bytes(body: RecordedBody | None) -> bytes | None:
    """The bytes of a body that is in the cassette itself; None for one that must be streamed."""
    if body is None or body.keys() == {"end"}:
        return b""
    if "json" in body:
        return json.dumps(body["json"], **STYLES[body.get("style", "compact")]).encode("utf-8", "surrogatepass")
    if "text" in body:
        text: str = body["text"]
        return text.encode("latin-1", "replace") if "charset" in body else text.encode("utf-8", "surrogatepass")
    return base64.b64decode(body["b64"], validate=True) if "b64" in body else None


def stream_body(body: RecordedBody, data: bytes) -> Iterator[bytes]:
    """The chunks of a long body with these bytes in its blob."""
    first, _ = _ends(body) or (0, 0)
    yield from _chunks(data[:first])
    for left in range(int(body["bytes"]) - len(data), 0, -CHUNK):
        yield _ZEROS[:left]
    yield from _chunks(data[first:])


def read_blob(body: RecordedBody, blobs: Path) -> bytes:
    """The bytes of a blob. OSError where it cannot be read; the ValueError for one that was changed is the predicate of
    a sentence."""
    data = blobs.joinpath(body["blob"]).read_bytes()
    if data.startswith(LFS_POINTER):
        raise ValueError(LFS_ADVICE)
    digest, ends = hashlib.sha256(data).hexdigest(), _ends(body)
    is_whole = body.get("stored") != "all" or body.get("sha256") == digest
    if not (is_whole and ends and sum(ends) == len(data) and body["blob"].startswith(f"sha256-{digest}.")):
        raise ValueError("is not what was recorded")
    return data


def _chunks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))
