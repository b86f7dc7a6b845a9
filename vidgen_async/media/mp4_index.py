"""What the indexes in an MP4 state about its samples: their number, their end, their duration (ISO/IEC 14496-12)."""

import sys
from array import array
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import BinaryIO

from attrs import evolve, frozen

#: Maximum size in bytes of a box whose fields are read.
_LONGEST_FIELDS = 1 << 24
#: The tables of a track: the offsets of its chunks, the samples in each chunk, and the sizes and durations of samples.
_TABLES = frozenset({b"stco", b"co64", b"stsc", b"stsz", b"stts"})


class UnreadableError(ValueError):
    """The content of a box is not what its type requires."""


@frozen
class Box:
    """A box, by its offsets in the file."""

    kind: bytes
    start: int
    payload: int
    """Where its content begins."""
    end: int
    is_open: bool = False
    """Whether it has no size, and extends to the end of the file."""

    @property
    def is_valid(self) -> bool:
        is_kind = all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in self.kind)
        return is_kind and self.end >= self.payload


@frozen
class Track:
    """What is known of a track's samples."""

    samples: int | None = 0
    """None if the tables cannot be read."""
    last: int = 0
    end: int = 0
    """Where the last chunk of samples begins and ends; the byte after its beginning if ``samples`` is None."""
    duration: int = 0
    """Of all samples, in units of 1/``timescale`` seconds."""
    timescale: int = 0

    def with_fragment(self, other: "Track") -> "Track":
        samples = None if self.samples is None or other.samples is None else self.samples + other.samples
        last, end = max((self.last, self.end), (other.last, other.end), key=lambda chunk: chunk[1])
        return evolve(self, samples=samples, last=last, end=end, duration=self.duration + other.duration)


@frozen
class Index:
    """The index of a file (moov), with its tracks by their ids."""

    tracks: Mapping[int, Track]
    is_complete: bool = True
    """Whether it could be read."""
    has_fragments: bool = False
    defaults: Mapping[int, tuple[int, int]] = {}
    """The duration and the size of samples of each track in fragments that do not state them."""
    duration: Fraction = Fraction(0)
    """How many seconds the longest track lasts with all its fragments (mehd); 0 if that is not stated."""
    is_exact: bool = False
    """Whether that duration is exact to a millisecond."""


def read_box(file: BinaryIO, offset: int, limit: int) -> Box | None:
    """Return the box at ``offset``; None if its header does not end before ``limit``."""
    file.seek(offset)
    header = file.read(min(16, limit - offset))
    if len(header) < 8:
        return None
    size, kind = int.from_bytes(header[:4], "big"), header[4:8]
    if size == 0:
        return Box(kind, offset, offset + 8, limit, is_open=True)
    if size > 1:
        return Box(kind, offset, offset + 8, offset + size)
    if len(header) < 16:
        return None
    return Box(kind, offset, offset + 16, offset + int.from_bytes(header[8:], "big"))


def read_index(file: BinaryIO, moov: Box) -> Index:
    """Read an index. Where it cannot be read, nothing is known of the samples."""
    try:
        boxes = _children(file, moov)
        tracks = dict(_read_track(file, box) for box in of_kind(boxes, b"trak"))
        extension = [inner for box in of_kind(boxes, b"mvex") for inner in _children(file, box)]
        fields = [_Fields(file, box).numbers(4, 4) for box in of_kind(extension, b"trex")]
        headers, totals = of_kind(boxes, b"mvhd"), of_kind(extension, b"mehd")
        timescale = _Fields(file, headers[0]).number_after_times() if headers and totals else 0
        return Index(
            tracks,
            is_complete=not of_kind(boxes, b"cmov"),  # a compressed one
            has_fragments=bool(of_kind(boxes, b"mvex")),
            defaults={track_id: (duration, size) for track_id, _, duration, size in fields},
            duration=Fraction(_Fields(file, totals[0]).number_or_wide(), timescale) if timescale else Fraction(0),
            is_exact=timescale >= 1000,
        )
    except UnreadableError:
        return Index({}, is_complete=False)


def read_fragment(file: BinaryIO, moof: Box, defaults: Mapping[int, tuple[int, int]]) -> dict[int, Track]:
    tracks: dict[int, Track] = {}
    parts = _children(file, moof)
    _only(parts, b"mfhd")
    at = moof.start
    for traf in of_kind(parts, b"traf"):
        boxes = _children(file, traf)
        header = _Fields(file, _only(boxes, b"tfhd"))
        track_id = header.number()
        if header.flags & 0x1:  # base-data-offset
            at = header.number(8)
        elif header.flags & 0x20000:  # default-base-is-moof
            at = moof.start
        if header.flags & 0x2:  # sample-description-index
            header.number()
        duration, size = defaults.get(track_id, (0, 0))
        duration = header.number() if header.flags & 0x8 else duration
        size = header.number() if header.flags & 0x10 else size
        base = at
        for box in of_kind(boxes, b"trun"):
            run = _Fields(file, box)
            count = run.number()
            at = base + run.number(signed=True) if run.flags & 0x1 else at
            if run.flags & 0x4:  # first-sample-flags
                run.number()
            # Of each sample: its duration (0x100), size (0x200), flags (0x400) and time offset (0x800), if present.
            width = (run.flags & 0xF00).bit_count()
            values = run.numbers(4, count * width)
            durations = sum(values[::width]) if run.flags & 0x100 else count * duration
            sizes = sum(values[(run.flags >> 8) & 1 :: width]) if run.flags & 0x200 else count * size
            new = Track(count, at, at + sizes if count else 0, durations)
            tracks[track_id] = tracks.get(track_id, Track()).with_fragment(new)
            at += sizes
    return tracks


def read_segment_index(file: BinaryIO, sidx: Box) -> tuple[int, int]:
    """Return where the part of the file begins that a ``sidx`` lists, and where it ends."""
    fields = _Fields(file, sidx)
    fields.numbers(4, 2)
    fields.number_or_wide()
    start = sidx.end + fields.number_or_wide()
    references = fields.numbers(4, 3 * (fields.number() & 0xFFFF))
    return start, start + sum(reference & 0x7FFFFFFF for reference in references[::3])


def read_last_fragment(file: BinaryIO, mfra: Box) -> int:
    """Return the highest offset of a fragment in the index of fragments (mfra); 0 if it names none."""
    highest = 0
    for box in of_kind(_children(file, mfra), b"tfra"):
        fields = _Fields(file, box)
        _, sizes, count = fields.numbers(4, 3)
        # Three fields of 2 bits: the sizes in bytes, less one, of the numbers that follow the offset.
        size = 8 if fields.version else 4
        rest = sum((sizes >> shift & 3) + 1 for shift in (0, 2, 4))
        for _ in range(count):
            fields.number(size)
            highest = max(highest, fields.number(size))
            fields.number(rest)
    return highest


class _Fields:
    """Reads the fields of a box with a version and flags, one after another."""

    def __init__(self, file: BinaryIO, box: Box) -> None:
        if box.end - box.payload > _LONGEST_FIELDS:
            raise UnreadableError
        file.seek(box.payload)
        self._data = file.read(box.end - box.payload)
        self._at = 0
        self.version = self.number(1)
        self.flags = self.number(3)

    def number(self, size: int = 4, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(size), "big", signed=signed)

    def number_or_wide(self) -> int:
        """A number of 8 bytes if the version is not 0."""
        return self.number(8 if self.version else 4)

    def numbers(self, size: int, count: int) -> "array[int]":
        values = array("Q" if size == 8 else "I", self._take(size * count))
        if sys.byteorder == "little":
            values.byteswap()
        return values

    def number_after_times(self) -> int:
        """The number that follows the times of creation and modification."""
        self.number(16 if self.version else 8)
        return self.number()

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise UnreadableError
        self._at += size
        return taken


def _children(file: BinaryIO, parent: Box) -> list[Box]:
    boxes, offset = [], parent.payload
    while parent.end - offset >= 8:  # QuickTime ends some lists with zero bytes
        box = read_box(file, offset, parent.end)
        if box is None or not box.is_valid or box.end > parent.end:
            raise UnreadableError
        boxes.append(box)
        offset = box.end
    file.seek(offset)
    if any(file.read(parent.end - offset)):
        raise UnreadableError
    return boxes


def of_kind(boxes: Iterable[Box], kind: bytes) -> list[Box]:
    return [box for box in boxes if box.kind == kind]


def _only(boxes: Iterable[Box], kind: bytes) -> Box:
    found = of_kind(boxes, kind)
    if len(found) == 1:
        return found[0]
    raise UnreadableError


def _read_track(file: BinaryIO, trak: Box) -> tuple[int, Track]:
    """Return the id of a track, and the track. If the id cannot be read, it is a negative number instead."""
    try:
        boxes = _children(file, trak)
        media = _children(file, _only(boxes, b"mdia"))
        tables = _children(file, _only(_children(file, _only(media, b"minf")), b"stbl"))
        track = _read_tables({box.kind: _Fields(file, box) for box in tables if box.kind in _TABLES})
    except UnreadableError:
        return -trak.start, Track(None)
    try:
        track_id = _Fields(file, _only(boxes, b"tkhd")).number_after_times()
        return track_id, evolve(track, timescale=_Fields(file, _only(media, b"mdhd")).number_after_times())
    except UnreadableError:
        return -trak.start, track


def _read_tables(tables: Mapping[bytes, _Fields]) -> Track:
    offsets = array("Q")
    for kind, size in ((b"stco", 4), (b"co64", 8)):
        if kind in tables:
            offsets.extend(array("Q", tables[kind].numbers(size, tables[kind].number())))
    if not offsets:
        return Track()
    last = max(offsets)
    try:
        samples, size = _measure_chunk(tables, offsets.index(last), len(offsets))
    except (UnreadableError, KeyError):
        return Track(None, last, last + 1)
    duration = 0
    if b"stts" in tables:
        times = tables[b"stts"].numbers(4, 2 * tables[b"stts"].number())
        duration = sum(count * each for count, each in zip(times[::2], times[1::2], strict=True))
    return Track(samples, last, last + size, duration)


def _measure_chunk(tables: Mapping[bytes, _Fields], chunk: int, chunks: int) -> tuple[int, int]:
    """Return the number of samples of the track, and the size in bytes of one of its chunks."""
    sizes = tables[b"stsz"]
    size, samples = sizes.numbers(4, 2)
    runs = tables[b"stsc"].numbers(4, 3 * tables[b"stsc"].number())
    firsts = [first - 1 for first in runs[::3]]
    begin, number, total = 0, 0, 0
    for first, until, each in zip(firsts, [*firsts[1:], chunks], runs[1::3], strict=True):
        if first <= chunk < until:
            begin, number = total + (chunk - first) * each, each
        total += (until - first) * each
    if total != samples:
        raise UnreadableError
    return samples, number * size if size else sum(sizes.numbers(4, samples)[begin : begin + number])
