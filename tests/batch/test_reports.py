"""The report of a run: a line for each row, for its owner alone, and harmless in a spreadsheet."""

import asyncio
import csv
import io
import json
import stat
import sys
from html.parser import HTMLParser
from pathlib import Path
from threading import Event
from urllib.parse import unquote

import pytest
from PIL import Image

from tests.batch.conftest import FIELDS, make_rows
from tests.browser import open_browser, reaches
from tests.sandbox.test_video_content import make_film
from vidgen_async import ConfigurationError, Pacing
from vidgen_async.batch.page import make_poster
from vidgen_async.sandbox import Fault
from vidgen_async.sandbox.media import render


async def test_a_report_has_a_line_for_each_row_without_keys_and_links(batches, tmp_path):
    report = tmp_path / "report.csv"
    report.write_text("an earlier one")
    report.chmod(0o644)
    rows = [
        {**FIELDS, "order_id": "=1+1"},
        {**FIELDS, "order_id": "failed", "prompt": "[fail: @cmd see https://h/v.mp4?exp=1&sig=SECRET]"},
    ]
    batches.options["pacing"] = Pacing(limit=1, window=0.01)  # one after the other
    batches.service.faults.add("videos.create", Fault.status(403), after=2)
    rows += make_rows(1)
    outcomes = await batches.run(rows, report=report)

    text = report.read_text()
    lines = {int(line["line"]): line for line in csv.DictReader(text.splitlines())}
    assert lines[1]["order_id"] == lines[1]["ordered_as"] == "'=1+1"
    assert (lines[1]["state"], lines[1]["reason"], lines[1]["points_basis"]) == ("saved", "new", "charged")
    assert lines[1]["path"] == str(batches.to / "=1+1.mp4")
    assert {lines[n]["task_id"] for n in (1, 2)} == {each.task_id for each in batches.service.creates if each.task_id}
    assert {line["attempts"] for line in lines.values()} == {"1"}
    charges = {entry.task_id: -entry.points for entry in batches.service.ledger if entry.kind == "charge"}
    assert {lines[n]["task_id"]: int(lines[n]["points"]) for n in (1, 2)} == charges
    assert lines[2]["failure"].startswith("'@cmd see")
    assert (lines[3]["state"], lines[3]["points"], lines[3]["points_basis"]) == ("rejected", "", "nothing ordered")
    assert {line["request_id"] for line in lines.values()} == {
        request.request_id for request in batches.service.requests if request.op == "videos.create"
    }
    assert "SECRET" not in text
    assert batches.service.api_key not in text
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert outcomes["failed"].to_dict()["failure"] == lines[2]["failure"][1:]


async def test_lines_of_json_have_the_same_and_a_later_run_replaces_them(batches, tmp_path):
    report = tmp_path / "report.jsonl"
    await batches.run(make_rows(2), report=report)
    first = [json.loads(line) for line in report.read_text().splitlines()]
    await batches.run(make_rows(2), report=report)
    second = [json.loads(line) for line in report.read_text().splitlines()]

    assert {line["reason"] for line in first} == {"new"}
    assert {line["reason"] for line in second} == {""}
    names = ("order_id", "line", "state", "task_id", "points", "path", "attempts")
    assert sorted([line[name] for name in names] for line in first) == [
        [line[name] for name in names] for line in second
    ]


class Cards(HTMLParser):
    """The parts of a page: its tags with their attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data.strip())


async def test_a_page_shows_each_video_and_escapes_what_others_wrote(batches, tmp_path):
    report = tmp_path / "pages" / "report.html"
    report.parent.mkdir()
    hostile = "<script>alert('1')</script>\"><img src=x onerror=alert(1)>&amp;"
    rows = [
        {**FIELDS, "order_id": hostile, "output": "a b/#1?&\"'<i>é%41.mp4", "prompt": f"$title {hostile}"},
        {**FIELDS, "order_id": "failed", "prompt": f"[fail: {hostile} see https://h/v.mp4?exp=1&sig=SECRET]"},
    ]
    await batches.run(rows, report=report)

    page = report.read_text()
    cards = Cards(page)
    names = [tag for tag, _ in cards.tags if tag in {"article", "video", "h2", "script", "img", "i", "a"}]
    assert names == ["article", "video", "h2", "article", "h2"]
    assert [attributes["class"] for tag, attributes in cards.tags if tag == "article"] == ["saved", "failed"]
    (video,) = (attributes for tag, attributes in cards.tags if tag == "video")
    assert (report.parent / unquote(str(video["src"]))).resolve() == (batches.to / rows[0]["output"]).resolve()
    assert video["preload"] == "none"
    assert str(video["poster"]).startswith("data:image/jpeg;base64,/9j/")
    assert cards.texts.count(hostile) == 1
    assert f"$title {hostile}" in cards.texts
    assert any(text.startswith(hostile) for text in cards.texts if "see" in text)
    assert "1 failed · 1 saved" in cards.texts
    assert "20 points charged · 20 points charged, may be refunded" in cards.texts
    assert "SECRET" not in page
    assert batches.service.api_key not in page
    assert stat.S_IMODE(report.stat().st_mode) == 0o600


async def test_the_sums_have_the_points_of_earlier_orders_that_failed(batches, tmp_path):
    rows = make_rows(2, prompt="a boat [fail]")
    await batches.run(rows)
    outcomes = await batches.run(rows, retry_failed=True, report=tmp_path / "report.csv")
    await batches.run(rows, report=tmp_path / "report.html")
    charged = sum(-entry.points for entry in batches.service.ledger if entry.kind == "charge")
    assert charged == sum((each.points or 0) + each.earlier_points for each in outcomes.values()) == 80
    lines = list(csv.DictReader((tmp_path / "report.csv").read_text().splitlines()))
    assert sum(int(line["points"]) + int(line["earlier_points"]) for line in lines) == charged
    page = (tmp_path / "report.html").read_text()
    assert "0 points charged · 80 points charged, may be refunded" in page
    assert page.count("earlier: 1 failed, 20 points, may be refunded") == 2


async def test_a_page_is_made_without_posters_if_they_cannot_be_decoded_or_would_be_too_many(
    batches, tmp_path, monkeypatch
):
    async def posters() -> list[str]:
        await batches.run(make_rows(3), report=tmp_path / "report.html")
        videos = [
            attributes for tag, attributes in Cards((tmp_path / "report.html").read_text()).tags if tag == "video"
        ]
        assert len(videos) == 3
        return [str(each["poster"]) for each in videos if "poster" in each]

    assert len(await posters()) == 3
    monkeypatch.setattr("vidgen_async.batch.page._MOST_WITH_POSTERS", 1)
    assert len(await posters()) == 1
    monkeypatch.undo()
    video = (batches.to / "order-1.mp4").read_bytes()
    data = video.index(b"mdat") + 4
    (batches.to / "order-1.mp4").write_bytes(video[:data] + bytes(len(video) - data))
    assert len(await posters()) == 2
    monkeypatch.setitem(sys.modules, "av", None)
    assert await posters() == []


async def test_a_row_whose_poster_is_being_made_when_the_caller_is_cancelled_is_in_the_page(
    batches, tmp_path, monkeypatch
):
    begun, ended = Event(), Event()

    def make_slowly(path: Path) -> bytes:
        begun.set()
        ended.wait(30)
        return b""

    monkeypatch.setattr("vidgen_async.batch.batch.make_poster", make_slowly)
    running = asyncio.ensure_future(batches.run(make_rows(1), report=tmp_path / "report.html"))
    await asyncio.to_thread(begun.wait, 30)
    running.cancel()
    ended.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    tags = Cards((tmp_path / "report.html").read_text()).tags
    assert [attributes["class"] for tag, attributes in tags if tag == "article"] == ["saved"]


def test_a_poster_is_small_and_no_other_format_is_opened_for_it(tmp_path, monkeypatch):
    film = tmp_path / "film.mp4"
    film.write_bytes(render(make_film(seconds=1, width=1920, height=1080), lambda: False))
    poster = make_poster(film)
    with Image.open(io.BytesIO(poster)) as image:
        assert (image.format, image.size) == ("JPEG", (320, 180))
    assert len(poster) < 20_000
    film.write_text("ffconcat version 1.0\nfile other.mp4\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.mp4").write_bytes(render(make_film(seconds=1), lambda: False))
    assert make_poster(film) == b""


@pytest.mark.needs_dev
@pytest.mark.slow
async def test_a_page_fits_a_phone_and_plays_the_videos_beside_it(batches, tmp_path):
    report = tmp_path / "report.html"
    await batches.run([*make_rows(2), {**FIELDS, "order_id": "x" * 190, "prompt": "[fail: no]"}], report=report)
    problems: list[str] = []
    async with open_browser() as browser:
        page = await browser.new_page()
        page.on("console", lambda message: problems.append(message.text))
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await page.set_viewport_size({"width": 420, "height": 900})
            await page.goto(report.as_uri())
            assert await page.evaluate("document.documentElement.scrollWidth") == 420
            video = page.locator("video").first
            assert await video.evaluate("video => video.readyState") == 0, "nothing is loaded before it is played"
            await video.evaluate("video => { video.muted = true; return video.play() }")
            await reaches(video, 0.2)
    assert problems == []


async def test_a_report_that_cannot_be_written_is_refused_before_anything_is_sent(batches, tmp_path):
    with pytest.raises(ConfigurationError, match=r"the report cannot be written as .*: no such file or directory"):
        await batches.run(make_rows(1), report=tmp_path / "none" / "report.csv")
    assert batches.service.creates == []
    with pytest.raises(ConfigurationError, match=r"a report is a \.csv, a \.jsonl or a \.html file, not 'report\.xls'"):
        await batches.run(make_rows(1), report="report.xls")
