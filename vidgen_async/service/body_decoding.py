"""The body of an answer as UTF-8, whatever its headers say of it: a receipt must not be lost by a wrong label."""

import json
from contextlib import suppress
from typing import Any

from vidgen_async.transports.content_encoding import decompress
from vidgen_async.types.http import Headers

#: Arrays and objects in values of the service are nested at most so deep.
DEEPEST = 100


def read_json(body: bytes) -> Any:
    """The JSON value. Arrays and objects at the level ``DEEPEST`` are empty: what is nested deeper can neither be
    pickled nor returned as JSON, nor read from a journal, in every place in a program.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deep for the parser.
    """
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
