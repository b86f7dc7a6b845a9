"""The pictures of the documentation show what the command and the console show now, and nothing of a machine."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.docs.documentation import PAGES, ROOT

PICTURES = ROOT / "docs" / "pictures"
TERMINALS = ("generate.svg", "watch.svg", "batch.svg")
CONSOLES = ("console-dark.png", "console-light.png")
#: Parts that differ in each run: ids, times, durations and rates.
VARYING = r"task_\w+|[0-9a-f]{8}-[0-9a-f-]{27}|\d\d:\d\d:\d\d|[\d.]+(?= k?B| s\b| ms\b| polls/s| rows/min)"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with pictures that were made just now."""
    directory = tmp_path_factory.mktemp("pictures")
    program = (sys.executable, "-m", "docs.make_pictures", str(directory))
    subprocess.run(program, cwd=ROOT, check=True, timeout=200)  # noqa: S603 - our own program
    return directory


def terminal_text(path: Path) -> list[str]:
    """The lines of a terminal, without what differs in each run."""
    svg = path.read_text()
    shown = re.findall(r"<text [^>]*>(.*?)</text>", svg, re.DOTALL)
    text = html.unescape("".join(shown)).replace("\N{NO-BREAK SPACE}", " ")
    return [re.sub(VARYING, "", line) for line in text.splitlines()]


@pytest.mark.needs_dev
@pytest.mark.slow
def test_terminals_show_what_the_command_shows_now(made):
    assert {path.name for path in made.iterdir()} == {*TERMINALS, *CONSOLES}
    for name in TERMINALS:
        assert terminal_text(made / name) == terminal_text(PICTURES / name), "python -m docs.make_pictures renews it"


@pytest.mark.needs_dev
@pytest.mark.slow
def test_the_console_is_made_in_light_and_dark_as_a_small_file(made):
    brightness = []
    for name in CONSOLES:
        assert (made / name).stat().st_size < 150_000
        with Image.open(made / name) as picture, Image.open(PICTURES / name) as committed:
            assert picture.size == committed.size
            brightness.append(picture.convert("L").getpixel((5, 500)))
    assert brightness[0] < 60 < 200 < brightness[1]


def test_no_picture_shows_a_path_a_key_or_an_address():
    for path in (PICTURES / name for name in TERMINALS):
        text = path.read_text()
        assert re.findall(r"/(?:root|home|tmp|work|Users)\b|sk-\w{8,}", text) == []
        assert set(re.findall(r"url\((?!#)[^)]*\)|https?://[^\s\"]*", text)) <= {
            "http://www.w3.org/2000/svg",
            "https://www.textualize.io",
        }
    for path in (PICTURES / name for name in CONSOLES):
        assert path.stat().st_size < 150_000
        with Image.open(path) as picture:
            assert set(picture.info) <= {"transparency"}


def test_every_picture_is_on_a_page_with_a_text_for_those_who_do_not_see_it():
    shown = [match for text in PAGES.values() for match in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text)]
    assert {Path(target).name for _, target in shown} >= {*TERMINALS, *CONSOLES}
    assert [target for words, target in shown if len(words) < 20] == []
