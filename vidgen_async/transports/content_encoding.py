"""Compressed bodies of responses: one rule, whatever the versions of HTTP libraries make of them."""

import zlib
from contextlib import suppress

from vidgen_async.types.http import LONGEST_ANSWER, Headers

#: Those that requests ask for.
CONTENT_CODINGS = ("gzip", "deflate")
#: What these stand for in practice: gzip or zlib, and raw deflate.
_WINDOWS = (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)
_MEMBER = b"\x1f\x8b"


def decompress(body: bytes, headers: Headers) -> bytes:
    """The body without the gzip or deflate compression that its headers name. An empty one is not compressed.

    Members of gzip data that follow each other are one body. Other bytes after a whole member are ignored.

    Raises:
        ValueError: It is not compressed so, incomplete, damaged, or longer than ``LONGEST_ANSWER``.
    """
    codings = headers.get("Content-Encoding", "").lower().split(",")
    for coding in reversed(codings):
        if body and coding.strip().removeprefix("x-") in CONTENT_CODINGS:
            body = _inflate(body)
    return body


def _inflate(body: bytes) -> bytes:
    for window in _WINDOWS:
        data, rest = bytearray(), body
        with suppress(zlib.error):
            while True:
                member = zlib.decompressobj(window)
                data += member.decompress(rest, LONGEST_ANSWER + 1 - len(data))
                rest = member.unused_data
                if not member.eof or len(data) > LONGEST_ANSWER:
                    break
                if not rest.startswith(_MEMBER):
                    return bytes(data)
    raise ValueError("the compressed body is incomplete, damaged or too long")
