"""The pages for engineers describe the code as it is: its packages, files and drawings."""

import re
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
    (section,) = re.findall(r"^## Reading order$.*?(?=^## )", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| \[[^]]*\]\(\.\./\.\./([^)]+)\)", section, re.MULTILINE)


def test_every_package_and_module_of_the_root_is_described():
    entries = [
        path for path in (ROOT / "vidgen_async").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    missing = [path.name for path in entries if f"](../../vidgen_async/{path.name})" not in ARCHITECTURE]
    assert sorted(missing) == ["__init__.py", "__main__.py"]


def test_the_reading_order_is_at_most_5100_lines_of_files_that_exist():
    files = reading_order()
    assert len(files) > 15
    assert len(set(files)) == len(files)
    assert sum(len((ROOT / file).read_text().splitlines()) for file in files) <= 5100


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
