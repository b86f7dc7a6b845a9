"""Whether a complete video is stored in a file."""

import pytest

from tests.media.mp4_files import FTYP, box, fragment, fragment_movie
from vidgen_async.client.videos import Videos


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (FTYP + fragment_movie() + fragment(bytes(40)), None),
        ((FTYP + fragment_movie() + fragment(bytes(40)))[:-1], "incomplete"),
        (FTYP + fragment_movie(), "incomplete"),
        (FTYP + box(b"mdat", bytes(10)), "incomplete"),
        (b"<!doctype html>", "incomplete"),
        (b"", "incomplete"),
    ],
)
async def test_a_file_is_complete_if_no_box_and_no_index_shows_otherwise(tmp_path, data, problem):
    (tmp_path / "video.mp4").write_bytes(data)
    assert await Videos.check_file(tmp_path / "video.mp4") == problem


async def test_a_path_without_a_file_and_one_that_cannot_be_read_are_told_apart(tmp_path):
    assert await Videos.check_file(str(tmp_path / "none.mp4")) == "missing"
    assert await Videos.check_file(tmp_path) == "incomplete"
