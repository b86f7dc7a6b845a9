"""The pages for engineers describe the code as it is: its packages, files and drawings."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from docs.make_drawings import DRAWINGS, FOLDER, WIDTH
from tests.docs.documentation import PAGES, ROOT

ARCHITECTURE = PAGES["docs/explanation/architecture.md"]
SVG = "{http://www.w3.org/2000/svg}"
#: The smallest text that can be read on a phone, in pixels.
SMALLEST = 12
#: A module, as drawings name it.
MODULE = re.compile(r"\b[\w/]+\.py\b")


def reading_order() -> list[str]:
    """The files of the reading order, from the root."""
    (section,) = re.findall(r"^## Reading order$.*", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(\.\./\.\./([^)]+\.py)\)", section)


def test_every_package_and_module_of_the_root_is_described():
    entries = [
        path for path in (ROOT / "vidgen_async").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    missing = [path.name for path in entries if f"](../../vidgen_async/{path.name})" not in ARCHITECTURE]
    assert sorted(missing) == ["__init__.py", "__main__.py"]


#: Prints the modules that a create, a read and a wait enter, on all threads.
TRACE = """
import asyncio, sys, threading
from pathlib import Path
import vidgen_async
from vidgen_async import Client
from vidgen_async.sandbox import Sandbox

root = Path(vidgen_async.__file__).parent
entered = set()

def trace(frame, event, argument):
    path = Path(frame.f_code.co_filename)
    if event == "call" and path.is_relative_to(root) and frame.f_code.co_name != "<module>":
        entered.add(path.relative_to(root).as_posix())

async def main():
    async with Sandbox(queued_for=0, running_for=0) as service:
        async with Client(service.api_key, base_url=service.base_url, journal="sqlite:///orders.db") as client:
            video = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}
            await client.videos.create(**video, order_id="opens what is opened once")
            entered.clear()
            sys.setprofile(trace)
            receipt = await client.videos.create(**video, order_id="order-1187")
            await client.videos.get(receipt)
            await client.videos.wait(receipt)
            sys.setprofile(None)

threading.setprofile(trace)
asyncio.run(main())
print(*sorted(path for path in entered if not path.startswith("sandbox/")), sep="\\n")
"""


@pytest.mark.slow
def test_the_reading_order_has_every_module_that_a_create_a_read_and_a_wait_enter(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", TRACE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    traced = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    entered = {f"vidgen_async/{name}" for name in traced.stdout.split()}
    files = reading_order()
    assert len(set(files)) == len(files)
    assert entered - set(files) == set()
    assert sum(len((ROOT / file).read_text().splitlines()) for file in entered) < 12_250


@pytest.mark.slow
def test_the_drawings_are_those_that_the_code_makes():
    stale = [name for name, draw in DRAWINGS.items() if (FOLDER / f"{name}.svg").read_text() != draw().render()]
    assert stale == [], "run python -m docs.make_drawings"


def test_every_drawing_is_on_a_page_with_a_text_for_those_who_do_not_see_it():
    images = dict(
        match[::-1]
        for text in PAGES.values()
        for match in re.findall(r"!\[([^\]]*)\]\((?:\.\./)+_static/(\w+)\.svg\)", text)
    )
    assert [name for name in DRAWINGS if len(images.get(name, "")) < 40] == []


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_a_titled_image_that_fits_a_phone_and_follows_the_color_scheme(name):
    root = ET.parse(FOLDER / f"{name}.svg").getroot()  # noqa: S314 - our own file
    style = root.findtext(f"{SVG}style") or ""
    sizes = [int(size) for size in re.findall(r"(\d+)px", style)]
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title")
    assert int(root.attrib["width"]) == WIDTH <= 388
    assert min(sizes) >= SMALLEST
    assert "prefers-color-scheme: dark" in style
    assert not root.findall(".//*[@font-size]")


def test_every_module_that_a_drawing_names_exists():
    modules = {path.relative_to(ROOT / "vidgen_async").as_posix() for path in (ROOT / "vidgen_async").rglob("*.py")}
    named = {module for name in DRAWINGS for text in texts(name) for module in MODULE.findall(text)}
    assert len(named) > 15
    assert [one for one in sorted(named) if not any(f"/{module}".endswith(f"/{one}") for module in modules)] == []


def texts(name: str) -> list[str]:
    root = ET.parse(FOLDER / f"{name}.svg").getroot()  # noqa: S314 - our own file
    return [text.text or "" for text in root.iter(f"{SVG}text")]
