"""MP4 files made byte by byte, with indexes that name their samples (ISO/IEC 14496-12)."""

import struct
from collections.abc import Sequence

#: Chunks of samples: the offset of each, and the sizes of its samples.
Chunks = Sequence[tuple[int, Sequence[int]]]

FTYP = struct.pack(">I4s4sI", 16, b"ftyp", b"isom", 0)


def box(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload) + 8) + kind + payload


def wide_box(kind: bytes, payload: bytes) -> bytes:
    """With a size of 64 bits."""
    return struct.pack(">I4sQ", 1, kind, len(payload) + 16) + payload


def open_box(kind: bytes, payload: bytes) -> bytes:
    """Without a size: it extends to the end of the file."""
    return bytes(4) + kind + payload


def full(kind: bytes, *numbers: int, flags: int = 0, form: str = "I", rest: bytes = b"") -> bytes:
    """A box with version and flags, and numbers of 4 bytes."""
    return box(kind, struct.pack(f">I{len(numbers)}{form}", flags, *numbers) + rest)


def tables(chunks: Chunks, *, is_wide: bool = False) -> bytes:
    sizes = [size for _, each in chunks for size in each]
    runs = [number for at, (_, each) in enumerate(chunks, 1) for number in (at, len(each), 1)]
    offsets = struct.pack(f">{len(chunks)}{'Q' if is_wide else 'I'}", *[offset for offset, _ in chunks])
    return (
        full(b"stts", 1, len(sizes), 40)
        + full(b"stsc", len(chunks), *runs)
        + full(b"stsz", 0, len(sizes), *sizes)
        + full(b"co64" if is_wide else b"stco", len(chunks), rest=offsets)
    )


def track(stbl: bytes, *, number: int = 1) -> bytes:
    header = full(b"tkhd", 0, 0, number) + box(b"mdia", full(b"mdhd", 0, 0, 1000, 0) + box(b"minf", box(b"stbl", stbl)))
    return box(b"trak", header)


def movie(*tracks: Chunks, is_wide: bool = False, extends: bytes = b"") -> bytes:
    """The index of a file: each track has its chunks. A second is 1000 units, a sample lasts 40."""
    each = [track(tables(chunks, is_wide=is_wide), number=number) for number, chunks in enumerate(tracks, 1)]
    return box(b"moov", full(b"mvhd", 0, 0, 1000, 0) + b"".join(each) + extends)


def fragment_movie(*, tracks: int = 1, duration: int | None = None) -> bytes:
    """The index of a file whose samples are in fragments."""
    defaults = [full(b"trex", number, 1, 40, 0, 0) for number in range(1, tracks + 1)]
    total = b"" if duration is None else full(b"mehd", duration)
    return movie(*[[]] * tracks, extends=box(b"mvex", total + b"".join(defaults)))


def fragment(*samples: bytes, number: int = 1, head: int = 0) -> bytes:
    """A moof with the samples of one track, and their mdat, which has ``head`` bytes before them."""

    def moof(offset: int) -> bytes:
        run = full(b"trun", len(samples), offset, *map(len, samples), flags=0x201)
        return box(b"moof", full(b"mfhd", 1) + box(b"traf", full(b"tfhd", number, flags=0x20000) + run))

    return moof(len(moof(0)) + 8 + head) + box(b"mdat", bytes(head) + b"".join(samples))


def segment_index(*sizes: int) -> bytes:
    """A sidx: the sizes of the parts of the file that follow it."""
    entries = [number for size in sizes for number in (size, 40, 1 << 31)]
    return full(b"sidx", 1, 1000, 0, 0, len(sizes), *entries)


def fragment_index(*offsets: int) -> bytes:
    """An mfra: the offsets of the fragments."""
    entries = b"".join(struct.pack(">IIBBB", 0, offset, 1, 1, 1) for offset in offsets)
    table = full(b"tfra", 1, 0, len(offsets), rest=entries)
    return box(b"mfra", table + full(b"mfro", len(table) + 24))
