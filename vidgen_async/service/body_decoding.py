"""The body of an answer as UTF-8, whatever its headers say of it: a receipt must not be lost by a wrong label. Of a
response that is not valid HTTP, what can be read of it, for an operator: no id is read from it."""

import json
import re
from contextlib import suppress
from typing import Any

from vidgen_async.transports.direct.bodies import decompress
from vidgen_async.types.http import LONG_ANSWER, Headers, make_headers

#: Arrays and objects in values of the service are nested at most so deep.
DEEPEST = 100

_decode = json.JSONDecoder().decode

_STATUS_LINE = re.compile(rb"\s*HTTP/[0-9.]+ +([1-9][0-9]{2})(?![0-9])[^\r\n]*")
_END_OF_LINE = re.compile(rb"\r\n|\n|\r")
_END_OF_HEAD = re.compile(rb"\r\n\r\n|\n\r?\n|\r\r")


def read_json(body: bytes) -> Any:
    """The JSON value; ValueError, or RecursionError, if it is none. Arrays and objects at the level ``DEEPEST`` are
    empty: what is nested deeper cannot be pickled or written as JSON in every place in a program."""
    try:
        value = _decode(body.decode())  # faster than json.loads, which finds out the encoding first
    except ValueError:
        value = json.loads(body)
    if body.count(b"[") + body.count(b"{") > DEEPEST:
        level = _containers([value])
        for _ in range(DEEPEST - 1):
            level = [inner for outer in level for inner in _containers(outer)]
        for deepest in level:
            deepest.clear()
    return value


def _containers(outer: Any) -> list[Any]:
    items = outer.values() if isinstance(outer, dict) else outer
    return [item for item in items if isinstance(item, list | dict)]


def decode_body(body: bytes, headers: Headers) -> bytes:
    """The body without its compression and, where it is JSON in the charset that its headers name, as UTF-8. Where the
    headers are wrong, the body as it was received."""
    with suppress(ValueError):
        body = decompress(body, headers)
    if _is_json(body):
        return body
    _, _, charset = headers.get("Content-Type", "").partition("charset=")
    for name in (charset.partition(";")[0].strip(" \"'"), "latin-1"):
        try:
            decoded = body.decode(name).encode()
        except (LookupError, ValueError):
            continue
        if _is_json(decoded):
            return decoded
    return body


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def split_response(data: bytes) -> tuple[int | None, Headers, bytes]:
    """Status, headers and body of a response that is not valid HTTP, as far as they can be read. Without a status line
    all of it is the body."""
    while (line := _STATUS_LINE.match(data)) is not None:
        status, (head, body) = int(line[1]), _split_head(data[line.end() :])
        if status >= 200 or not body:
            return status, head, body
        data = body  # an interim response
    return None, make_headers(), data


def _split_head(data: bytes) -> tuple[Headers, bytes]:
    end = _END_OF_HEAD.search(data)
    head, body = (data, b"") if end is None else (data[: end.start()], data[end.end() :])
    lines = (line.partition(b":") for line in _END_OF_LINE.split(head[:LONG_ANSWER]) if line)
    return make_headers((name.decode("latin-1"), value.strip().decode("latin-1")) for name, _, value in lines), body
