"""The checks of headers and boxes, without a download."""

import io

import pytest

from tests.media.mp4_files import track
from tests.media.sites import box, video
from vidgen_async.media import mp4
from vidgen_async.types.http import make_headers

START = box(b"ftyp", b"isom") + box(b"moov", b"")
WIDE = b"\0\0\0\1mdat" + (116).to_bytes(8, "big") + bytes(100)


def structure(data: bytes) -> mp4.BoxStructure:
    return mp4.read_structure(io.BytesIO(data), len(data))


@pytest.mark.parametrize(
    ("data", "end", "has_moov"),
    [
        (video(500), 500, True),
        (START + WIDE, len(START) + 116, True),
        (START + WIDE[:-1], len(START) + 116, True),
        (START + WIDE[:12], len(START) + 16, True),
        (START + WIDE[:5], len(START) + 8, True),
        (START + b"\0\0\0\0mdat" + bytes(9), len(START) + 17, True),
        (START[:12], 12, False),
        (START + box(b"\xa9too", b""), len(START) + 8, True),
        (b"", 0, False),
    ],
)
def test_the_end_is_computed_from_the_sizes_of_the_boxes(data, end, has_moov):
    found = structure(data)
    assert (found.end, found.has_moov) == (end, has_moov)


@pytest.mark.parametrize("tail", [b"\0\0\0\7free", b"\0\0\0\1free" + bytes(8), b"\0\0\0\x10\0\0\0\0" + bytes(8)])
def test_data_without_boxes_is_malformed_unless_it_follows_a_video(tail):
    with pytest.raises(mp4.MalformedMP4Error, match="at byte 20"):
        structure(START + tail)
    found = structure(START + WIDE + tail)
    assert (found.end, found.has_trailer) == (len(START + WIDE), True)


def index(*stbls: bytes) -> bytes:
    return box(b"moov", b"".join(track(stbl) for stbl in stbls))


@pytest.mark.parametrize("table", [b"", b"\0", bytes(7), bytes(8), bytes(11), b"\0\0\0\1stco", b"\xff" * 30])
def test_a_damaged_index_proves_nothing_wrong(table):
    head = box(b"ftyp", b"isom") + index(box(b"stco", table), table)
    assert structure(head + box(b"mdat", bytes(40))).has_mdat


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({"Content-Length": "12"}, 12),
        ({"Content-Length": " 12 "}, 12),
        ({}, None),
        ({"Content-Length": "-1"}, None),
        ({"Content-Length": "²"}, None),
        ({"Content-Length": "12", "Transfer-Encoding": "chunked"}, None),
    ],
)
def test_a_content_length_is_used_only_if_it_is_the_length_of_the_body(headers, length):
    assert mp4.content_length(make_headers(headers)) == length


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("bytes 0-9/10", mp4.ContentRange(0, 9, 10)),
        ("BYTES 5-9/*", mp4.ContentRange(5, 9, None)),
        ("bytes */10", mp4.ContentRange(None, None, 10)),
        ("bytes 0-10/10", None),
        ("bytes 9-5/10", None),
        ("bytes 0-/10", None),
        ("0-9/10", None),
        ("", None),
    ],
)
def test_a_content_range_is_parsed_or_none(value, span):
    assert mp4.content_range(make_headers({"Content-Range": value})) == span
