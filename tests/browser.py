"""A real browser for tests of pages: the system's Chromium, or what VIDGEN_CHROMIUM names. Without one they fail."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 20_000
"""Milliseconds that the browser is given for anything."""
DESK = {"width": 1400, "height": 900}


@asynccontextmanager
async def open_browser(init_script: str = "") -> AsyncIterator[Any]:
    """A context of playwright, in which pages are opened."""
    from playwright import async_api as playwright  # noqa: PLC0415 - of the extra dev; the other tests do without

    named = os.environ.get("VIDGEN_CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None)
    if found is None:
        missing = f"VIDGEN_CHROMIUM={named} is not a program" if named else "no Chromium was found"
        pytest.fail(f"{missing}: install the package 'chromium', or let VIDGEN_CHROMIUM name a browser like it")
    needs = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    async with playwright.async_playwright() as driver:
        started = await driver.chromium.launch(executable_path=found, args=needs)
        context = await started.new_context(viewport=DESK)
        if init_script:
            await context.add_init_script(init_script)
        context.set_default_timeout(TIMEOUT)
        playwright.expect.set_options(timeout=TIMEOUT)
        yield context
        await started.close()


def expect(shown: Any) -> Any:
    """Return playwright's assertions, which are slow to import."""
    from playwright.async_api import expect as playwrights  # noqa: PLC0415 - see above

    return playwrights(shown)


async def reaches(video: Any, seconds: float) -> None:
    """Return when a video has played up to a position."""
    async with asyncio.timeout(TIMEOUT / 1000):
        await video.evaluate(
            """(video, seconds) => new Promise(done => {
                const see = () => video.currentTime >= seconds && done();
                video.addEventListener("timeupdate", see);
                see();
            })""",
            seconds,
        )
