"""The built site in a real browser: what it looks like in light and dark, on a desk and on a phone, and its search."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.browser import expect, open_browser
from tests.docs.documentation import ROOT

pytestmark = [pytest.mark.needs_dev, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HOST = "http://docs.test"
#: Pages of each kind, with the widest tables, the longest signatures, and pictures.
SHOWN = (
    "index",
    "readme",
    "tutorial/first-video",
    "how-to/benchmarks",
    "how-to/operations",
    "reference/command-line",
    "reference/api/client",
    "reference/errors",
    "explanation/comparison",
)
WIDTHS = (1280, 420)
SCHEMES = ("light", "dark")
#: Pixels that are seen by horizontal scrolling only. The theme has the element .content scroll, not the document.
HIDDEN_WIDTH = """Math.max(
    ...[document.documentElement, document.querySelector(".content")].map(part => part.scrollWidth - part.clientWidth)
)"""
#: The smallest contrast of text and background that WCAG 2 calls sufficient (AA).
CONTRAST = 4.5
#: Text of the page whose contrast with its background is too low, as "ratio text".
PALE_TEXT = """least => {
    const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const parse = colour => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const luminance = colour => colour.slice(0, 3)
        .map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, n) => sum + part * [0.2126, 0.7152, 0.0722][n], 0);
    const background = element => {
        for (; element; element = element.parentElement) {
            const colour = parse(getComputedStyle(element).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255, 255];
    };
    const elements = document.querySelectorAll("article :is(p, li, td, th, dt, dd, a, code, h1, h2, h3)");
    return [...elements].filter(element => element.checkVisibility()).flatMap(element => {
        const pair = [parse(getComputedStyle(element).color), background(element)].map(luminance).sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        return ratio < least ? [`${ratio.toFixed(1)} ${element.className} ${element.textContent.slice(0, 40)}`] : [];
    });
}"""

#: Types without a description or with that of Python, texts that stand as the type of an attribute, and bases that are
#: not named.
WRONG_ENTRIES = """() => [
    ...[...document.querySelectorAll("dl.py.data")].filter(
        entry => /^($|alias of|Represent a|Built-in|A Mapping|str\\()/.test(entry.querySelector("dd").innerText.trim()),
    ),
    ...[...document.querySelectorAll("dl.field-list > dt")].filter(label => label.textContent.startsWith("Type")),
    ...[...document.querySelectorAll("dl.py.class > dd > p")].filter(line => line.innerText.trim() === "Bases:"),
].map(entry => entry.innerText.slice(0, 80))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the built site."""
    directory = tmp_path_factory.mktemp("site")
    build = (sys.executable, "-m", "sphinx", "-W", "-q", "-d", directory / "trees", "docs", directory / "html")
    subprocess.run(build, cwd=ROOT, check=True, timeout=250)  # noqa: S603 - our own command
    return directory / "html"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(site) -> AsyncIterator[Any]:
    """A browser with the site at HOST, and no network."""

    async def respond(route: Any) -> None:
        path = site / urlsplit(route.request.url).path.lstrip("/")
        is_found = route.request.url.startswith(HOST) and path.is_file()
        await (route.fulfill(path=path) if is_found else route.abort())

    async with open_browser() as context:
        await context.route("**", respond)
        yield context


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser) -> AsyncIterator[Any]:
    """A page of the browser, which must report no errors and load all files."""
    problems: list[str] = []
    page = await browser.new_page()
    page.on("console", lambda message: message.type in ("error", "warning") and problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(f"{request.url}: {request.failure}"))
    yield page
    await page.close()
    assert problems == []


async def test_pages_fit_the_screen_and_can_be_read_in_light_and_dark(page):
    problems = {}
    for name in SHOWN:
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            await page.goto(f"{HOST}/{name}.html")
            if pale := await page.evaluate(PALE_TEXT, CONTRAST):
                problems[name, scheme] = pale
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 900})
                if hidden := await page.evaluate(HIDDEN_WIDTH):
                    problems[name, width] = hidden
    assert problems == {}


async def test_pictures_are_shown_in_the_colours_that_the_reader_prefers(page):
    for scheme, other in zip(SCHEMES, reversed(SCHEMES), strict=True):
        await page.emulate_media(color_scheme=scheme)
        await page.goto(f"{HOST}/reference/sandbox.html")
        shown = page.locator(f"img[src$='console-{scheme}.png']")
        await expect(shown).to_be_visible()
        await expect(shown).to_have_js_property("naturalWidth", 1200)
        await expect(page.locator(f"img[src$='console-{other}.png']")).to_be_hidden()


async def search(page: Any, words: str) -> Any:
    """The results for these words, from the field in the sidebar."""
    await page.goto(f"{HOST}/index.html")
    await page.locator("input.sidebar-search").fill(words)
    await page.keyboard.press("Enter")
    return page.locator("#search-results li")


async def test_the_search_finds_an_error_by_its_name_and_shows_its_description(page):
    results = await search(page, "UncertainCreateError")
    await expect(results.get_by_role("link", name="vidgen_async.errors.UncertainCreateError")).to_be_visible()
    excerpts = results.locator("p.context")
    await expect(excerpts.filter(has_text="It is unknown whether the service accepted the order").first).to_be_visible()


@pytest.mark.parametrize("status", ["402", "429", "503"])
async def test_the_search_finds_a_status_of_http(page, status):
    results = await search(page, status)
    await expect(results.get_by_role("link", name="The error tree")).to_be_visible()
    await expect(results.locator("p.context", has_text=status).first).to_be_visible()


async def test_the_reference_describes_each_type_and_attribute_as_its_source_does(page):
    problems = []
    for name in (path.stem for path in (ROOT / "docs" / "reference" / "api").glob("*.md")):
        await page.goto(f"{HOST}/reference/api/{name}.html")
        problems += await page.evaluate(WRONG_ENTRIES)
    assert problems == []
