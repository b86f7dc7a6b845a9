"""Checks of headers and bytes: whether a response may be a video, and whether an MP4 is complete."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import BinaryIO

from attrs import frozen

from vidgen_async.media.mp4_index import (
    Box,
    Index,
    Track,
    UnreadableError,
    of_kind,
    read_box,
    read_fragment,
    read_index,
    read_last_fragment,
    read_segment_index,
)
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


class MalformedMP4Error(ValueError):
    """The data does not consist of MP4 boxes, or has no sample."""


@frozen
class ContentRange:
    """Bytes ``start`` to ``end`` (inclusive) of ``total``, None where not stated; a 416 has only a total."""

    start: int | None
    end: int | None
    total: int | None


@frozen
class BoxStructure:
    """What the boxes of a file show: also whether it has a complete moov, and a complete mdat that is not empty."""

    end: int
    """Where the last box ends, according to its size. Beyond the file, it is the minimum length of a complete one."""
    has_moov: bool
    has_mdat: bool
    has_samples: bool
    """False if the index was read and has none."""
    is_fragmented: bool
    """Whether the media data is in fragments (moof), any number of which may be missing at the end."""
    has_trailer: bool
    contradiction: str
    """What an index states of the file that is not so, as a sentence; empty if nothing."""
    proves_its_end: bool
    """Whether no sample can be missing: each one that an index names is there, and the index is that of all samples."""

    def find_problem(self, length: int) -> str:
        """Return why a file of ``length`` bytes is incomplete; empty if nothing shows that it is."""
        if self.end > length:
            return f"its MP4 boxes need at least {self.end} bytes"
        if not self.has_moov:
            return "its index (the MP4 box moov) is missing"
        if not self.has_mdat:
            return "its media data (the MP4 box mdat) is missing"
        return ""


def problem_of_labels(headers: Headers, known: Iterable[str] = (), *, is_range: bool = False) -> str:
    """Return what headers say against a video, as a predicate: only for bytes that cannot be recognised."""
    media = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    main, _, sub = media.partition("/")
    if not is_range and (main in _OTHER_TYPES or _TEXT_SUBTYPE.fullmatch(sub)):
        return "" if media == "multipart/byteranges" else f"has the media type {excerpt(media, known, limit=60)}"
    encoding = headers.get("Content-Encoding", "")
    if _COMPRESSION.search(encoding):
        return f"is compressed ({excerpt(encoding, known, limit=40)}), which was not requested"
    return ""


def content_length(headers: Headers) -> int | None:
    value = headers.get("Content-Length", "").strip()
    if "Transfer-Encoding" in headers or not (value.isascii() and value.isdigit()):
        return None
    return int(value)


def is_delimited(headers: Headers) -> bool:
    """Return whether the end of the body is marked: by its length, or by chunks."""
    coding = headers.get("Transfer-Encoding", "").rpartition(",")[2].strip().lower()
    return coding == "chunked" or content_length(headers) is not None


def content_range(headers: Headers) -> ContentRange | None:
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if match is None:
        return None
    start, end, total = (None if part in (None, "*") else int(part) for part in match.groups())
    if start is not None and end is not None and (end < start or (total is not None and end >= total)):
        return None
    return ContentRange(start, end, total)


def strong_etag(headers: Headers) -> str | None:
    """The ETag if it is strong, else None: only equal strong ETags mean equal bytes."""
    value = headers.get("ETag", "").strip()
    return value if _STRONG_ETAG.fullmatch(value) else None


def begins_like_mp4(head: bytes | bytearray) -> bool:
    return len(head) >= SIGNATURE_SIZE and bytes(head[4:8]) in _FIRST_BOXES


def read_structure(file: BinaryIO, length: int) -> BoxStructure:
    """Read the top-level boxes. MalformedMP4Error for data that is no box, unless a complete video precedes it."""
    boxes: list[Box] = []
    has_moov = has_mdat = has_trailer = False
    end = 0
    while end < length and not has_trailer:
        has_video = has_moov and has_mdat
        box = read_box(file, end, length)
        if box is None:  # cut in its header
            has_trailer = has_video
            end += 0 if has_video else 8 if length - end < 8 else 16
            break
        if not box.is_valid and not has_video:
            raise MalformedMP4Error(f"the data at byte {end} is not an MP4 box")
        is_incomplete = box.end > length
        if not box.is_valid or (is_incomplete and has_video and box.kind not in _REQUIRED_BOXES):
            has_trailer = True
            break
        end = box.end
        if is_incomplete:
            break
        boxes.append(box)
        has_moov = has_moov or box.kind == b"moov"
        has_mdat = has_mdat or (box.kind == b"mdat" and box.end > box.payload)
    return _structure(file, boxes, end, length, has_trailer=has_trailer)


def _structure(file: BinaryIO, boxes: Sequence[Box], end: int, length: int, *, has_trailer: bool) -> BoxStructure:
    moov, fragments = of_kind(boxes, b"moov"), of_kind(boxes, b"moof")
    index = read_index(file, moov[0]) if moov else Index({}, is_complete=False)
    tracks, is_known = dict(index.tracks), index.is_complete
    for moof in fragments:
        try:
            for track_id, track in read_fragment(file, moof, index.defaults).items():
                tracks[track_id] = tracks.get(track_id, Track()).with_fragment(track)
        except UnreadableError:
            is_known = False
    is_known = is_known and all(track.samples is not None for track in tracks.values())
    has_samples = not is_known or any(track.samples for track in tracks.values())
    is_begun = not has_samples and index.has_fragments and not fragments
    is_fragmented = index.has_fragments or bool(fragments)
    is_open = bool(boxes) and boxes[-1].is_open and boxes[-1].kind in _REQUIRED_BOXES
    seconds = [Fraction(each.duration, each.timescale) for each in tracks.values() if each.timescale and is_known]
    contradiction = _find_missing_data(file, boxes, tracks.values(), end, length)
    contradiction = contradiction or _find_missing_time(index.duration, max(seconds, default=None), len(fragments))
    if contradiction or not has_samples or (is_open and end != max((each.end for each in tracks.values()), default=0)):
        is_proven = False
    elif is_fragmented:
        has_duration = index.duration > 0 and index.is_exact and len(seconds) == len(tracks)
        is_proven = _is_listed(file, boxes) or (has_duration and min(seconds) >= index.duration)
    else:
        is_proven = is_known
    return BoxStructure(
        end,
        has_moov=bool(moov),
        has_mdat=any(box.end > box.payload for box in of_kind(boxes, b"mdat")) and not is_begun,
        has_samples=has_samples or is_begun,
        is_fragmented=is_fragmented,
        has_trailer=has_trailer,
        contradiction=contradiction,
        proves_its_end=is_proven,
    )


def _find_missing_time(stated: Fraction, seconds: Fraction | None, fragments: int) -> str:
    """Return the sentence about missing fragments. Muxers round: less than an average fragment is none."""
    if seconds is None or not 0 < seconds < stated or (stated - seconds) * fragments < seconds:
        return ""
    return f"its index states {float(stated):g} s, but its samples last {float(seconds):g} s"


def _find_missing_data(file: BinaryIO, boxes: Iterable[Box], tracks: Iterable[Track], end: int, length: int) -> str:
    """Return the sentence about data that an index names, and that is not in a box."""
    named = [(track.end, track.last) for track in tracks]
    for box in boxes:
        with suppress(UnreadableError):
            if box.kind == b"sidx":
                _, until = read_segment_index(file, box)
                named.append((until, until - 1))
            elif box.kind == b"mfra":
                at = read_last_fragment(file, box)
                named.append((at, at))
    until, at = max(named, default=(0, 0))
    if until <= end:
        return ""
    if at < length:
        at = until - 1
    beyond = f"{length} bytes were received" if at >= length else f"its boxes end at byte {end}"
    return f"its index names data at byte {at}, but {beyond}"


def _is_listed(file: BinaryIO, boxes: Sequence[Box]) -> bool:
    """Whether an index (mfra, or a sidx that is not of one segment) lists all fragments of the file."""
    starts = [box.start for box in of_kind(boxes, b"moof")]
    if any(mfra.start > max(starts, default=0) for mfra in of_kind(boxes, b"mfra")):
        return True
    if len(starts) < 2 or of_kind(boxes, b"styp"):
        return False
    media_end = max(box.end for box in boxes if box.kind in _REQUIRED_BOXES)
    for sidx in of_kind(boxes, b"sidx"):
        with suppress(UnreadableError):
            start, until = read_segment_index(file, sidx)
            if start <= starts[0] and until == media_end:
                return True
    return False
