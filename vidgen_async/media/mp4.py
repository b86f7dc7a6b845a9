"""Checks of headers and bytes: whether a response may be a video, and whether an MP4 is complete."""

import re
from collections.abc import Iterable
from typing import BinaryIO

from attrs import frozen

from vidgen_async.redaction.messages import excerpt
from vidgen_async.types.http import Headers

#: Number of bytes that identify an MP4.
SIGNATURE_SIZE = 8

_OTHER_TYPES = frozenset({"text", "image", "audio", "multipart", "message", "font", "model"})
_TEXT_SUBTYPE = re.compile(r"(?:.*\+)?(?:json|xml|html|javascript)|x-ndjson")
_COMPRESSION = re.compile(r"gzip|deflate|compress|\bbr\b|zstd", re.IGNORECASE)
_CONTENT_RANGE = re.compile(r"bytes\s+(?:(\d+)-(\d+)|\*)/(\d+|\*)", re.IGNORECASE)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"')

#: The boxes that an MP4 or QuickTime file may begin with.
_FIRST_BOXES = frozenset(
    {b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"sidx", b"free", b"skip", b"wide", b"pnot", b"PICT"}
    | {b"uuid", b"meta", b"pdin", b"udta", b"junk", b"prft", b"emsg"}
)
#: The brands of image formats that contain sequences of images, which players play.
SEQUENCE_BRANDS = frozenset({b"avis", b"msf1", b"hevc", b"hevx"})
#: The boxes without which frames are missing: a file that ends inside one is incomplete.
_REQUIRED_BOXES = frozenset({b"ftyp", b"moov", b"moof", b"mdat"})
#: The boxes on the way from moov to the tables of chunk offsets, and the size in bytes of an entry of each table.
_CONTAINERS = frozenset({b"trak", b"mdia", b"minf", b"stbl"})
_OFFSET_TABLES = {b"stco": 4, b"co64": 8}


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
    """Where the last box ends, according to its size. Beyond the file: it is incomplete, and this is the minimum length
    of the complete file."""
    has_moov: bool
    """Whether there is a complete index."""
    has_mdat: bool
    """Whether there is complete media data."""
    is_open: bool = False
    """Whether the last box is one of the video's, has no size, and extends to the end of the file."""
    has_trailer: bool = False
    """Whether the last box is followed by other data: padding, or what a vendor adds."""
    is_fragmented: bool = False
    """Whether the media data is in fragments (moof), any number of which may be missing at the end."""
    has_fragment_index: bool = False
    """Whether the index of the fragments (mfra), which follows the last one, is there."""
    last_chunk: int = 0
    """The highest offset in the file that the index names."""

    @property
    def proves_its_end(self) -> bool:
        """Whether the boxes themselves show that nothing is missing after the last of them."""
        return self.has_fragment_index if self.is_fragmented else not self.is_open


def media_type(headers: Headers) -> str:
    """Return the media type in lower case, without parameters; empty if there is none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def problem_of_labels(headers: Headers, known: Iterable[str] = (), *, is_range: bool = False) -> str:
    """Return what the headers say against a video, as the predicate of a sentence; empty if nothing. Only for bytes
    that cannot be recognised: labels are ignored where the bytes are those of a video, and so is the media type of a
    range of a file."""
    media = media_type(headers)
    main, _, sub = media.partition("/")
    if not is_range and (main in _OTHER_TYPES or _TEXT_SUBTYPE.fullmatch(sub)):
        return "" if media == "multipart/byteranges" else f"has the media type {excerpt(media, known, limit=60)}"
    encoding = headers.get("Content-Encoding", "")
    if _COMPRESSION.search(encoding):
        return f"is compressed ({excerpt(encoding, known, limit=40)}), which was not requested"
    return ""


def content_length(headers: Headers) -> int | None:
    """Return the announced length of the body, or None."""
    value = headers.get("Content-Length", "").strip()
    if "Transfer-Encoding" in headers or not (value.isascii() and value.isdigit()):
        return None
    return int(value)


def is_delimited(headers: Headers) -> bool:
    """Return whether the end of the body is marked: by its length, or by chunks."""
    coding = headers.get("Transfer-Encoding", "").rpartition(",")[2].strip().lower()
    return coding == "chunked" or content_length(headers) is not None


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
    """Return whether the data begins with a box of an MP4 or QuickTime file."""
    return len(head) >= SIGNATURE_SIZE and bytes(head[4:8]) in _FIRST_BOXES


def read_structure(file: BinaryIO, length: int) -> BoxStructure:
    """Read the top-level boxes of a file of ``length`` bytes.

    Raises:
        MalformedMP4Error: The data does not consist of MP4 boxes, and does not only follow a complete video.
    """
    found: dict[bytes, _Box] = {}
    offset, is_open = 0, False
    while offset < length:
        has_video = found.keys() >= {b"moov", b"mdat"}
        box = _read_box(file, offset, length)
        if box is None:  # cut in its header
            header_size = 8 if length - offset < 8 else 16
            end = offset if has_video else offset + header_size
            return _structure(file, found, end, has_trailer=has_video)
        if not box.is_valid and not has_video:
            message = f"the data at byte {offset} is not an MP4 box"
            raise MalformedMP4Error(message)
        is_incomplete = box.end > length
        if not box.is_valid or (is_incomplete and has_video and box.kind not in _REQUIRED_BOXES):
            return _structure(file, found, offset, has_trailer=True)
        if is_incomplete:
            return _structure(file, found, box.end)
        found[box.kind] = box
        offset, is_open = box.end, box.is_open and box.kind in _REQUIRED_BOXES
    return _structure(file, found, offset, is_open=is_open)


@frozen
class _Box:
    kind: bytes
    payload: int
    """Where its content begins."""
    end: int
    is_open: bool = False

    @property
    def is_valid(self) -> bool:
        is_kind = all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in self.kind)
        return is_kind and self.end >= self.payload


def _read_box(file: BinaryIO, offset: int, length: int) -> _Box | None:
    """Return the box at ``offset``; None if its header is cut off."""
    file.seek(offset)
    header = file.read(min(16, length - offset))
    if len(header) < SIGNATURE_SIZE:
        return None
    size, kind = int.from_bytes(header[:4], "big"), header[4:8]
    if size == 0:
        return _Box(kind, offset + 8, length, is_open=True)
    if size > 1:
        return _Box(kind, offset + 8, offset + size)
    if len(header) < 16:
        return None
    return _Box(kind, offset + 16, offset + int.from_bytes(header[8:], "big"))


def _structure(
    file: BinaryIO, found: dict[bytes, _Box], end: int, *, is_open: bool = False, has_trailer: bool = False
) -> BoxStructure:
    moov = found.get(b"moov")
    return BoxStructure(
        end,
        has_moov=moov is not None,
        has_mdat=b"mdat" in found,
        is_open=is_open,
        has_trailer=has_trailer,
        is_fragmented=b"moof" in found,
        has_fragment_index=b"mfra" in found,
        last_chunk=0 if moov is None else _last_chunk(file, moov),
    )


def _last_chunk(file: BinaryIO, parent: _Box) -> int:
    """Return the highest chunk offset in the tables of the index; 0 if there is none."""
    highest, offset = 0, parent.payload
    while (box := _read_box(file, offset, parent.end)) is not None and box.is_valid and box.end <= parent.end:
        if box.kind in _CONTAINERS:
            highest = max(highest, _last_chunk(file, box))
        elif box.kind in _OFFSET_TABLES:
            size = _OFFSET_TABLES[box.kind]
            file.seek(box.payload + 8)  # after version, flags and the number of entries
            table = file.read(box.end - box.payload - 8)
            highest = max(
                highest, *(int.from_bytes(table[at : at + size], "big") for at in range(0, len(table), size)), 0
            )
        offset = box.end
    return highest
