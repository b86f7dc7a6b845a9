"""Part of a video never replaces a file, wherever it is cut, and whatever announces it."""

import io
from collections.abc import Sequence
from pathlib import Path

import av
import pytest
from attrs import frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.media.mp4_files import (
    FTYP,
    Chunks,
    box,
    fragment,
    fragment_index,
    fragment_movie,
    full,
    movie,
    open_box,
    segment_index,
    track,
    wide_box,
)
from tests.media.sites import RangeHost, Says, in_turn, site
from vidgen_async.errors import NotVideoError, TruncatedError, UnverifiedVideoError
from vidgen_async.media import mp4

FRAGMENTS = [fragment(bytes(40), bytes(60)), fragment(bytes(50)), fragment(bytes(30), bytes(30), bytes(30))]
PLAIN = FTYP + fragment_movie() + b"".join(FRAGMENTS)


def placed(fragments: Sequence[bytes], start: int) -> list[int]:
    """The offsets of the fragments behind ``start`` bytes."""
    return [start + sum(map(len, fragments[:at])) for at in range(len(fragments))]


def indexed() -> bytes:
    return PLAIN + fragment_index(*placed(FRAGMENTS, len(FTYP + fragment_movie())))


def two_boxes(*, at_end: bool = False) -> bytes:
    """A video with two mdat boxes."""
    before = len(FTYP) if at_end else len(FTYP + movie([(0, [0] * 2), (0, [0])]))
    index = movie([(before + 8, [300, 200]), (before + 516, [400])])
    media = box(b"mdat", bytes(500)) + box(b"mdat", bytes(400))
    return FTYP + (media + index if at_end else index + media)


# -- downloads -------------------------------------------------------------------------------------------------------

FEWER = PLAIN[: -len(FRAGMENTS[2])]
TWO = two_boxes()[:-408]
MOVIE = FTYP + movie([(0, [0])])
LATER = FTYP + movie([(len(MOVIE) + 8, [500])])


def part(body: bytes, span: str, **more) -> Says:
    headers = {"Content-Range": span} | more.pop("headers", {})
    return Says(**{"status": 206, "body": body, "headers": headers} | more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "kind"),
    {
        "206, unknown total": (part(FEWER, f"bytes 0-{len(FEWER) - 1}/*"), UnverifiedVideoError),
        "206, ETag": (part(FEWER, f"bytes 0-{len(FEWER) - 1}/*", headers={"ETag": '"1"'}), UnverifiedVideoError),
        "206, chunked": (part(FEWER, f"bytes 0-{len(FEWER) - 1}/*", framing="chunked"), UnverifiedVideoError),
        "206, no range": (Says(status=206, body=FEWER), UnverifiedVideoError),
        "206, no range, chunked": (Says(status=206, body=FEWER, framing="chunked"), UnverifiedVideoError),
        "206, invalid range": (part(FEWER, "bytes=0-9/10"), UnverifiedVideoError),
        "206, known total": (part(FEWER, f"bytes 0-{len(FEWER) - 1}/{len(PLAIN)}"), TruncatedError),
        "200 with a range": (part(FEWER, f"bytes 0-{len(FEWER) - 1}/{len(PLAIN)}", status=200), UnverifiedVideoError),
        "two mdat, close": (Says(body=TWO, framing="close"), UnverifiedVideoError),
        "two mdat, length": (Says(body=TWO), UnverifiedVideoError),
        "two mdat, 206": (part(TWO, f"bytes 0-{len(TWO) - 1}/*"), UnverifiedVideoError),
        "two mdat, a page behind": (Says(body=TWO + b"<html>" * 99, framing="close"), UnverifiedVideoError),
        "open mdat, cut": (Says(body=LATER + open_box(b"mdat", bytes(499))), UnverifiedVideoError),
        "open mdat, nothing": (Says(body=LATER + open_box(b"mdat", b"")), TruncatedError),
        "sidx": (Says(body=FTYP + fragment_movie() + segment_index(999) + FRAGMENTS[0]), UnverifiedVideoError),
        "mehd": (
            Says(body=FTYP + fragment_movie(duration=240) + FRAGMENTS[0] + FRAGMENTS[1]),
            UnverifiedVideoError,
        ),
        "moof alone": (Says(body=FEWER + FRAGMENTS[2][:-98]), UnverifiedVideoError),
        "moov alone": (Says(body=FTYP + fragment_movie() + box(b"mdat", b"")), TruncatedError),
        "no sample": (Says(body=box(b"ftyp", b"isom1234") + box(b"moov", b"") + box(b"mdat", b"")), NotVideoError),
        "no sample, open": (Says(body=FTYP + box(b"moov", b"") + open_box(b"mdat", b"")), NotVideoError),
        "no sample, close": (
            Says(body=FTYP + box(b"moov", b"") + box(b"mdat", bytes(9)), framing="close"),
            NotVideoError,
        ),
        "no track": (Says(body=FTYP + box(b"moov", full(b"mvhd")) + box(b"mdat", bytes(9))), NotVideoError),
        "empty tables": (Says(body=FTYP + movie([], []) + box(b"mdat", bytes(9))), NotVideoError),
        "no tables": (Says(body=FTYP + box(b"moov", track(b"")) + box(b"mdat", bytes(9))), NotVideoError),
        "empty fragments": (Says(body=FTYP + fragment_movie() + fragment(head=9) * 2), NotVideoError),
        "empty mdat": (Says(body=FTYP + box(b"moov", b"index") + box(b"mdat", b"")), TruncatedError),
        "empty open mdat": (Says(body=FTYP + box(b"moov", b"index") + open_box(b"mdat", b"")), TruncatedError),
    }.values(),
    ids=str,
)
async def test_part_of_a_video_replaces_no_file(answer, kind, fails):
    error, _ = await fails(answer, kind, retry_for=5)
    assert type(error) is kind


@pytest.mark.slow
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize(
    "body",
    [
        two_boxes(),
        two_boxes(at_end=True),
        indexed(),
        LATER + open_box(b"mdat", bytes(500)),
        FTYP + fragment_movie() + segment_index(*map(len, FRAGMENTS)) + b"".join(FRAGMENTS),
    ],
    ids=["two mdat", "moov at the end", "mfra", "open mdat", "sidx"],
)
async def test_a_video_whose_indexes_show_that_it_is_whole_needs_no_length(body, framing, downloads_of, target):
    whole = [Says(body=body, framing=framing), Says(status=206, body=body, framing=framing)]
    for answer in [*whole, part(body, f"bytes 0-{len(body) - 1}/*", framing=framing)]:
        async with site(answer) as service:
            await downloads_of(service).download("task-1", target.path)
        assert target.path.read_bytes() == body
        target.path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("total", ["*", len(PLAIN)])
async def test_a_range_ends_a_resumed_video_only_if_its_total_is_known(total, downloads_of, target):
    begun = Says(body=PLAIN, headers={"ETag": '"v1"'}, cut=len(FEWER) - 20, framing="chunked")

    def rest(seen):
        start = int(seen.headers["Range"][len("bytes=") : -1])
        return part(FEWER[start:], f"bytes {start}-{len(FEWER) - 1}/{total}", headers={"ETag": '"v1"'})

    answers = [begun, rest] if total == "*" else [begun, rest, RangeHost(PLAIN)]
    async with site(in_turn(*answers)) as service:
        if total == "*":
            with pytest.raises(UnverifiedVideoError):
                await downloads_of(service).download("task-1", target.path)
            assert target.is_untouched()
        else:
            await downloads_of(service).download("task-1", target.path)
            assert target.path.read_bytes() == PLAIN


# -- every cut -------------------------------------------------------------------------------------------------------


@frozen
class Film:
    data: bytes
    media_end: int
    """Where its last sample ends: what is cut later is whole."""
    is_provable: bool
    """Whether its indexes show that it is whole."""

    @property
    def borders(self) -> set[int]:
        """Where its boxes begin."""
        found, at = set(), 0
        while at < len(self.data):
            found.add(at)
            size = int.from_bytes(self.data[at : at + 4], "big")
            at += {0: len(self.data), 1: int.from_bytes(self.data[at + 8 : at + 16], "big")}.get(size, size)
        return found


def is_proven(data: bytes) -> bool:
    """Whether a body without a known length is saved."""
    try:
        found = mp4.read_structure(io.BytesIO(data), len(data))
    except mp4.MalformedMP4Error:
        return False
    has_video = found.end <= len(data) and found.has_moov and found.has_mdat and found.has_samples
    return has_video and found.proves_its_end


FREE = st.sampled_from([b"", box(b"free", bytes(5)), wide_box(b"uuid", bytes(30)), box(b"free", b"")])


@st.composite
def plain_films(draw: st.DrawFn) -> Film:
    """One index before, between or behind the boxes with media data, which hold chunks of one or two tracks."""
    parts: list[bytes] = []
    chunks: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(draw(st.integers(1, 2)))]
    for number in range(draw(st.integers(1, 3))):
        payload = b""
        for _ in range(draw(st.integers(1, 3))):
            payload += bytes(draw(st.integers(0, 4)))  # bytes of no sample
            sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
            draw(st.sampled_from(chunks)).append((2 * number + 1, len(payload), sizes))
            payload += bytes(sum(sizes))
        make = draw(st.sampled_from([box, wide_box]))
        parts += [draw(FREE), make(b"mdat", payload)]
    parts.append(draw(FREE))
    place, is_wide, is_open = draw(st.integers(0, len(parts))), draw(st.booleans()), draw(st.booleans())
    if is_open and place < len(parts):
        parts[-1:] = []
        payload = parts[-1][16 if parts[-1][3] == 1 else 8 :]
        parts[-1] = open_box(b"mdat", payload)
        place = min(place, len(parts) - 1)

    def build(starts: list[int]) -> tuple[bytes, list[Chunks]]:
        located = [[(starts[at] + offset, sizes) for at, offset, sizes in each] for each in chunks]
        return movie(*located, is_wide=is_wide), located

    size = len(build([0] * len(parts))[0])
    starts = []
    at = len(FTYP)
    for number, each in enumerate(parts):
        at += size if number == place else 0
        starts.append(at + (16 if each[:4] == b"\0\0\0\1" else 8))
        at += len(each)
    index, located = build(starts)
    data = b"".join([FTYP, *parts[:place], index, *parts[place:]])
    media_end = max(offset + sum(sizes) for each in located for offset, sizes in each)
    index_end = len(FTYP) + sum(map(len, parts[:place])) + size
    return Film(data, max(media_end, index_end), is_provable=True)


@st.composite
def fragmented_films(draw: st.DrawFn) -> Film:
    """Fragments of one or two tracks, with none, one or several of their indexes."""
    tracks = draw(st.integers(1, 2))
    lists = st.lists(st.integers(1, 40).map(bytes), min_size=1, max_size=3)
    numbers = st.integers(1, tracks)
    fragments = [
        fragment(*draw(lists), number=draw(numbers), head=draw(st.integers(0, 3)))
        for _ in range(draw(st.integers(1, 4)))
    ]
    kind = draw(st.sampled_from(["none", "sidx", "sidx of each", "segments"]))
    movie_ = fragment_movie(tracks=tracks)
    head, body = FTYP + movie_ + draw(FREE), b""
    if kind == "sidx":
        head += segment_index(*map(len, fragments))
    starts = []
    for each in fragments:
        body += {"sidx of each": segment_index(len(each)), "segments": box(b"styp", b"msdh")}.get(kind, b"")
        body += segment_index(len(each)) if kind == "segments" else b""
        starts.append(len(head) + len(body))
        body += each
    data = head + body
    media_end = len(data)
    has_list = draw(st.booleans())
    data += draw(FREE) + (fragment_index(*starts) if has_list else b"")
    return Film(data, media_end, is_provable=has_list or (kind == "sidx" and len(fragments) > 1))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.one_of(plain_films(), fragmented_films()), st.sampled_from([b"", b"<html>504", bytes(20)]))
@example(Film(PLAIN, len(PLAIN), is_provable=False), b"")
@example(Film(indexed(), len(PLAIN), is_provable=True), b"<html>")
def test_no_beginning_of_a_video_is_taken_for_a_whole_one(film, page):
    assert is_proven(film.data) == film.is_provable
    borders = film.borders
    cuts = {border + at for border in borders for at in (-1, 0, 1, 8)} | set(range(0, film.media_end, 11))
    for cut in sorted(at for at in cuts if 0 <= at < film.media_end):
        # Bytes that complete a box are taken for its own.
        behind = page if cut in borders else b""
        assert not is_proven(film.data[:cut] + behind), f"cut at byte {cut} of {len(film.data)}"


def encode(path: Path, movflags: str) -> Film:
    """Two seconds of video and sound, as FFmpeg writes them."""
    with av.open(str(path), "w", format="mp4", options={"movflags": movflags}) as container:
        picture = container.add_stream("libx264", rate=24, width=64, height=64, options={"g": "12"})
        sound = container.add_stream("aac", rate=48000)
        for number in range(48):
            frame = av.VideoFrame(64, 64, "yuv420p")
            for plane in frame.planes:
                plane.update(bytes([number * 5]) * plane.buffer_size)
            frame.pts = number
            samples = av.AudioFrame("s16", "mono", 2000)
            samples.planes[0].update(bytes(samples.planes[0].buffer_size))
            samples.sample_rate, samples.pts = 48000, number * 2000
            container.mux(picture.encode(frame) + sound.encode(samples))
        container.mux(picture.encode() + sound.encode())
    data = path.read_bytes()
    return Film(data, data.rindex(b"mfra") - 4 if b"mfra" in data else len(data), "skip_trailer" not in movflags)


@pytest.mark.slow
@pytest.mark.parametrize(
    "movflags",
    [
        "+faststart",
        "-faststart",
        "frag_keyframe",
        "frag_keyframe+skip_trailer",
        "frag_keyframe+empty_moov+omit_tfhd_offset",
        "frag_keyframe+empty_moov+default_base_moof+separate_moof",
        "frag_keyframe+empty_moov+dash",
        "frag_keyframe+empty_moov+global_sidx",
        "frag_keyframe+hybrid_fragmented",
    ],
)
def test_the_videos_of_ffmpeg_are_whole_and_their_beginnings_are_not(movflags, tmp_path):
    film = encode(tmp_path / "film.mp4", movflags)
    assert is_proven(film.data) == film.is_provable
    found = mp4.read_structure(io.BytesIO(film.data), len(film.data))
    assert (found.end, found.has_samples, found.contradiction) == (len(film.data), True, "")
    cuts = {border + at for border in film.borders for at in (-1, 0, 1, 8)} | set(range(0, len(film.data), 97))
    proven = [cut for cut in sorted(cuts) if 0 <= cut < film.media_end and is_proven(film.data[:cut])]
    assert proven == []


def test_fragments_are_whole_if_each_track_has_the_stated_duration():
    for tracks, duration, is_whole in ((1, 240, True), (1, 241, False), (2, 240, False), (1, 200, True)):
        data = FTYP + fragment_movie(tracks=tracks, duration=duration) + b"".join(FRAGMENTS)
        assert is_proven(data) == is_whole, (tracks, duration)
