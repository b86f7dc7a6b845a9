"""What can be read of a response that is not valid HTTP, for an operator. No id is read from it."""

import re

from vidgen_async.types.http import LONG_ANSWER, Headers, make_headers

_STATUS_LINE = re.compile(rb"\s*HTTP/[0-9.]+ +([1-9][0-9]{2})(?![0-9])[^\r\n]*")
_END_OF_LINE = re.compile(rb"\r\n|\n|\r")
_END_OF_HEAD = re.compile(rb"\r\n\r\n|\n\r?\n|\r\r")


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
