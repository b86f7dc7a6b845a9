"""The videos where PyAV is not installed: small files of the package, which players and the SDK accept."""

import asyncio
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import av
import pytest
from attrs import evolve

from tests.sandbox.make_placeholders import make
from vidgen_async import Client
from vidgen_async.media.mp4 import read_structure
from vidgen_async.sandbox import Sandbox, media
from vidgen_async.sandbox.media import COMMENT, RATIOS, Film, _read, file_name, placeholder

LOGGER = "vidgen_async.sandbox.media"


@contextmanager
def without_pyav() -> Iterator[None]:
    """As if PyAV were not installed: it cannot be imported, and nothing has imported it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "av", None)
        media.find_renderer.cache_clear()
        yield
    media.find_renderer.cache_clear()


def decode(video: bytes) -> tuple[int, int, int]:
    """Return the width, the height and the number of frames of a video whose frames can all be decoded."""
    with av.open(io.BytesIO(video)) as container:
        frames = list(container.decode(video=0))
        return frames[0].width, frames[0].height, len(frames)


async def test_without_pyav_a_client_saves_a_small_video_of_each_aspect_ratio_and_one_line_is_logged(caplog, tmp_path):
    with without_pyav():
        async with (
            Sandbox(queued_for=0, running_for=0) as service,
            Client(service.api_key, base_url=service.base_url) as client,
        ):
            fields = {"model": "gen-2.0", "prompt": "A boat", "duration": 5}
            generate = client.videos.generate
            await asyncio.gather(*(generate(**fields, ratio=ratio, to=tmp_path / file_name(ratio)) for ratio in RATIOS))

    for ratio, (across, down) in RATIOS.items():
        width, height, _ = decode((tmp_path / file_name(ratio)).read_bytes())
        assert width / height == pytest.approx(across / down, rel=0.01), ratio
    (line,) = [record for record in caplog.records if record.name == LOGGER]
    assert line.levelname == "WARNING"
    assert "PyAV is not installed" in line.getMessage()
    assert "pip install 'vidgen-async[video]'" in line.getMessage()


async def test_without_pyav_links_ranges_and_entity_tags_work_as_for_rendered_videos(service, api):
    one, other = [(await api.create(prompt=prompt)).json["id"] for prompt in ("one boat", "another boat")]
    service.clock.advance(4)

    with without_pyav():
        whole, different = [await api.get(f"/videos/{task_id}/content") for task_id in (one, other)]
        condition = {"Range": "bytes=10-19", "If-Range": whole.headers["etag"]}
        part = await api.get(f"/videos/{one}/content", headers=condition)

    assert (part.status, part.body) == (206, whole.body[10:20])
    assert whole.body == await service.video(one) != different.body
    assert whole.headers["etag"] != different.headers["etag"]


@pytest.mark.slow
async def test_with_pyav_the_video_is_rendered_and_nothing_is_logged(caplog, service, api):
    task_id = (await api.create(duration=2)).json["id"]
    service.clock.advance(4)

    assert decode((await api.get(f"/videos/{task_id}/content")).body) == (1280, 720, 48)
    assert [record for record in caplog.records if record.name == LOGGER] == []


def test_each_file_is_a_few_kilobytes_complete_and_has_one_comment_to_replace():
    for ratio in RATIOS:
        content = _read(ratio)
        structure = read_structure(io.BytesIO(content), len(content))
        assert len(content) < 10_000, ratio
        assert (structure.end, structure.proves_its_end) == (len(content), True), ratio
        assert content.index(b"moov") < content.index(b"mdat"), ratio
        assert content.count(COMMENT) == 1, ratio


def test_equal_films_have_equal_bytes_and_others_do_not():
    film = Film("\ud800 boat", 5, 1366, 768, ("a.png",))
    others = [evolve(film, prompt="ship"), evolve(film, seconds=6), evolve(film, pictures=("b.png",))]

    videos = [placeholder(each) for each in (film, *others)]

    assert placeholder(evolve(film)) == videos[0]
    assert len(set(videos)) == len(videos)
    assert {len(video) for video in videos} == {len(_read("16:9"))}


@pytest.mark.slow
def test_the_script_makes_the_files_again(tmp_path):
    """Not compared byte by byte: another release of the encoder may give others."""
    make(tmp_path)

    assert {ratio: decode((tmp_path / file_name(ratio)).read_bytes()) for ratio in RATIOS} == {
        ratio: decode(_read(ratio)) for ratio in RATIOS
    }
