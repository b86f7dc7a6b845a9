"""What may be a video, and whether an MP4 is whole: pure looks at headers and bytes."""

import re
from typing import BinaryIO

from attrs import frozen

from vidgen_async.types.http import Headers

#: So many bytes are needed to tell an MP4 by its beginning.
MAGIC = 8

_NEVER_VIDEO = frozenset({"text", "image", "audio", "multipart", "message", "font", "model"})
_PAGE = re.compile(r"(?:.*\+)?(?:json|xml|html|javascript)|x-ndjson")
_CONTENT_RANGE = re.compile(r"bytes\s+(?:(\d+)-(\d+)|\*)/(\d+|\*)", re.IGNORECASE)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"')


class MalformedError(ValueError):
    """The bytes are not the boxes of an MP4."""


@frozen
class Span:
    """A Content-Range: bytes ``start`` to ``end`` (inclusive) of ``total``. None where it does not say; a 416 has
    neither start nor end."""

    start: int | None
    end: int | None
    total: int | None


@frozen
class Structure:
    """The top-level boxes of a file: where the last one says that it ends, and which of them there are."""

    end: int
    has_moov: bool
    """The index."""
    has_mdat: bool
    """The pictures themselves."""
    is_open: bool
    """The last box goes on to the end of the file, wherever that is: its size says nothing about the length."""


def media_type(headers: Headers) -> str:
    """The media type in lower case, without parameters; empty when there is none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def may_be_video(headers: Headers) -> bool:
    """Whether the media type leaves room for a video: video/…, application/octet-stream, binary/octet-stream,
    application/mp4, none at all … but not JSON, HTML, XML, text or a picture. The bytes have the last word."""
    main, _, sub = media_type(headers).partition("/")
    return main not in _NEVER_VIDEO and not _PAGE.fullmatch(sub)


def is_encoded(headers: Headers) -> bool:
    """Whether the bytes are compressed: then lengths and ranges count something else than the video's bytes."""
    return headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity")


def content_length(headers: Headers) -> int | None:
    """The announced length of the body; None when it is not announced."""
    given = headers.get("Content-Length", "").strip()
    if "Transfer-Encoding" in headers or not (given.isascii() and given.isdigit()):
        return None
    return int(given)


def content_range(headers: Headers) -> Span | None:
    """The Content-Range; None when there is none that makes sense."""
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if match is None:
        return None
    start, end, total = (None if part in (None, "*") else int(part) for part in match.groups())
    if start is not None and end is not None and (end < start or (total is not None and end >= total)):
        return None
    return Span(start, end, total)


def strong_etag(headers: Headers) -> str | None:
    """The ETag if it is strong: only then equal tags mean equal bytes."""
    given = headers.get("ETag", "").strip()
    return given if _STRONG_ETAG.fullmatch(given) else None


def begins_like_mp4(head: bytes | bytearray) -> bool:
    """Whether the first bytes are an MP4's ``ftyp`` box."""
    return len(head) >= MAGIC and head[4:8] == b"ftyp"


def read_structure(file: BinaryIO, length: int) -> Structure:
    """Walk the top-level boxes of a file of ``length`` bytes; MalformedError when they are none.

    An ``end`` beyond ``length`` means that the file is cut short; it is then the least length of the whole file.
    """
    offset, kinds, is_open = 0, set[bytes](), False
    while offset < length:
        file.seek(offset)
        header = file.read(16)
        if len(header) < 8:
            return _structure(offset + 8, kinds)
        size, kind, least = int.from_bytes(header[:4], "big"), header[4:8], 8
        if not all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in kind):
            message = f"what stands at byte {offset} is no MP4 box"
            raise MalformedError(message)
        if size == 1:
            if len(header) < 16:
                return _structure(offset + 16, kinds)
            size, least = int.from_bytes(header[8:], "big"), 16
        elif size == 0:
            size, is_open = length - offset, True  # the last box, up to the end of the file
        if size < least:
            message = f"the MP4 box at byte {offset} says that it is {size} bytes long"
            raise MalformedError(message)
        kinds.add(kind)
        offset += size
    return _structure(offset, kinds, is_open=is_open)


def _structure(end: int, kinds: set[bytes], *, is_open: bool = False) -> Structure:
    return Structure(end, b"moov" in kinds, b"mdat" in kinds, is_open)
