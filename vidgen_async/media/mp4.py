"""Checks of headers and bytes: whether a response may be a video, and whether an MP4 is complete."""

import re
from typing import BinaryIO

from attrs import frozen

from vidgen_async.types.http import Headers

#: Number of bytes that identify an MP4.
SIGNATURE_SIZE = 8

_OTHER_TYPES = frozenset({"text", "image", "audio", "multipart", "message", "font", "model"})
_TEXT_SUBTYPE = re.compile(r"(?:.*\+)?(?:json|xml|html|javascript)|x-ndjson")
_CONTENT_RANGE = re.compile(r"bytes\s+(?:(\d+)-(\d+)|\*)/(\d+|\*)", re.IGNORECASE)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"')


class MalformedMP4Error(ValueError):
    """The data does not consist of MP4 boxes."""


@frozen
class ContentRange:
    """A Content-Range: bytes ``start`` to ``end`` (inclusive) of ``total``. Values that it does not state are None; a
    416 has neither start nor end."""

    start: int | None
    end: int | None
    total: int | None


@frozen
class BoxStructure:
    """The top-level boxes of a file."""

    end: int
    """Where the last box ends, according to its size."""
    has_moov: bool
    """Whether there is an index."""
    has_mdat: bool
    """Whether there is media data."""
    is_open: bool
    """Whether the last box has no size and extends to the end of the file."""


def media_type(headers: Headers) -> str:
    """Return the media type in lower case, without parameters; empty if there is none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def may_be_video(headers: Headers) -> bool:
    """Return whether the media type permits a video: video/…, application/octet-stream, binary/octet-stream,
    application/mp4, no type at all …, but not JSON, HTML, XML, text or an image. The bytes are checked later."""
    main, _, sub = media_type(headers).partition("/")
    return main not in _OTHER_TYPES and not _TEXT_SUBTYPE.fullmatch(sub)


def is_encoded(headers: Headers) -> bool:
    """Return whether the body is compressed, so that lengths and ranges do not apply to the video's own bytes."""
    return headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity")


def content_length(headers: Headers) -> int | None:
    """Return the announced length of the body, or None."""
    value = headers.get("Content-Length", "").strip()
    if "Transfer-Encoding" in headers or not (value.isascii() and value.isdigit()):
        return None
    return int(value)


def content_range(headers: Headers) -> ContentRange | None:
    """Return the Content-Range; None if there is none or it is invalid."""
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if match is None:
        return None
    start, end, total = (None if part in (None, "*") else int(part) for part in match.groups())
    if start is not None and end is not None and (end < start or (total is not None and end >= total)):
        return None
    return ContentRange(start, end, total)


def strong_etag(headers: Headers) -> str | None:
    """Return the ETag if it is strong, else None: only equal strong ETags mean equal bytes."""
    value = headers.get("ETag", "").strip()
    return value if _STRONG_ETAG.fullmatch(value) else None


def begins_like_mp4(head: bytes | bytearray) -> bool:
    """Return whether the data begins with an MP4's ``ftyp`` box."""
    return len(head) >= SIGNATURE_SIZE and head[4:8] == b"ftyp"


def read_structure(file: BinaryIO, length: int) -> BoxStructure:
    """Read the top-level boxes of a file of ``length`` bytes.

    Returns:
        The boxes. An ``end`` beyond ``length`` means that the file is incomplete; it is then the minimum length of the
        complete file.

    Raises:
        MalformedMP4Error: The data does not consist of MP4 boxes.
    """
    offset, kinds, is_open = 0, set[bytes](), False
    while offset < length:
        file.seek(offset)
        header = file.read(16)
        if len(header) < 8:
            return _structure(offset + 8, kinds)
        size, kind, minimum = int.from_bytes(header[:4], "big"), header[4:8], 8
        if not all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in kind):
            message = f"the data at byte {offset} is not an MP4 box"
            raise MalformedMP4Error(message)
        if size == 1:
            if len(header) < 16:
                return _structure(offset + 16, kinds)
            size, minimum = int.from_bytes(header[8:], "big"), 16
        elif size == 0:
            size, is_open = length - offset, True  # the last box extends to the end of the file
        if size < minimum:
            message = f"the MP4 box at byte {offset} has the impossible size {size}"
            raise MalformedMP4Error(message)
        kinds.add(kind)
        offset += size
    return _structure(offset, kinds, is_open=is_open)


def _structure(end: int, kinds: set[bytes], *, is_open: bool = False) -> BoxStructure:
    return BoxStructure(end, b"moov" in kinds, b"mdat" in kinds, is_open)
