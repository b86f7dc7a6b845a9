"""Make the pictures of the documentation: python -m docs.make_pictures.

The terminals show what real runs of the command write to a terminal of 80
columns, the console is the page of a real sandbox in Chromium. The plots of
the benchmarks are made by python -m benchmarks. Needs the extra dev.
"""

import asyncio
import fcntl
import io
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte
from PIL import Image
from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.style import Style
from rich.text import Text
from tests.browser import open_browser
from vidgen_async import Client
from vidgen_async.sandbox import Fault, Sandbox

ROOT = Path(__file__).resolve().parent.parent
PICTURES = Path(__file__).parent / "pictures"
COLUMNS, LINES = 80, 24
#: A terminal that can be read on a phone.
NARROW = 60
#: The time zone where it is noon, and all times of a run are of one day.
NOON = f"UTC{datetime.now(UTC).hour - 12:+d}"
GENERATE = r"""vidgen generate "A paper boat sails at dawn" \
    --image examples/boat.png --sandbox -o boat.mp4"""
WATCH = "vidgen watch --journal sqlite:///orders.db"
BATCH = r"""vidgen batch examples/jobs.csv -o videos --sandbox \
    --max-points 100 --price points"""
PROMPTS = {
    "order-1181": "A paper boat sails at dawn",
    "order-1182": "[fail: the prompt was refused] A boat",
    "order-1183": "A lighthouse in the fog",
    "order-1184": "A kite above the harbour",
    "order-1185": "Gulls follow a trawler",
    "order-1186": "A regatta from above",
}
#: rich's frame of a terminal, without the fonts that it loads from the web.
FRAME = re.sub(r"@font-face \{\{[^}]*\}\}\s*", "", CONSOLE_SVG_FORMAT)
CONSOLE_SIZE = {"width": 1200, "height": 860}


class Screen(pyte.Screen):
    """A terminal that shows dim text, which pyte ignores, as bright black."""

    def select_graphic_rendition(self, *attributes: int, **kwargs: Any) -> None:
        shown = [90 if code == 2 else code for code in attributes]
        super().select_graphic_rendition(*shown, **kwargs)

    def shown_lines(self) -> list[Text]:
        """What is shown, without the empty lines at the end."""
        lines = []
        for y in range(LINES):
            cells = [self.buffer[y][x] for x in range(self.columns)]
            parts = [
                ("".join(cell.data for cell in same), style)
                for style, same in groupby(cells, style_of)
            ]
            lines.append(Text.assemble(*parts))
            lines[-1].rstrip()
        while lines and not lines[-1]:
            lines.pop()
        return lines


def style_of(cell: pyte.screens.Char) -> Style:
    if cell.fg == "brightblack":
        return Style(dim=True, bold=cell.bold)
    name = cell.fg.replace("brown", "yellow").replace("bright", "bright_")
    is_hexadecimal = re.fullmatch("[0-9a-f]{6}", name)
    return Style(color=f"#{name}" if is_hexadecimal else name, bold=cell.bold)


def run(
    command: str,
    directory: Path,
    is_done: Callable[[Screen], bool] = lambda screen: False,
    columns: int = COLUMNS,
    **environment: str,
) -> Screen:
    """Run a vidgen command in a terminal, until it ends or what it shows is
    done; return its screen."""
    screen = Screen(columns, LINES)
    stream = pyte.ByteStream(screen)
    ours, theirs = os.openpty()
    size = struct.pack("HHHH", LINES, columns, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    words = shlex.split(command.replace("\\\n", ""))[1:]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "vidgen_async", *words],
        cwd=directory,
        env={
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "TZ": NOON,
            **environment,
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        while not is_done(screen):
            try:
                written = terminal.read(65536)
            except OSError:  # the command has ended
                break
            stream.feed(written)
        else:
            process.kill()
    process.wait()
    return screen


def save_terminal(path: Path, command: str, screen: Screen) -> None:
    """Write a terminal as SVG: the command, and what it shows."""
    console = Console(file=io.StringIO(), record=True, width=screen.columns)
    console.print(Text.assemble(("$ ", "bold green"), command))
    for line in (*screen.shown_lines(), ""):  # the last line would be cut
        console.print(line)
    svg = console.export_svg(title="", unique_id=path.stem, code_format=FRAME)
    path.write_text(svg)


async def make_commands(pictures: Path, directory: Path) -> None:
    """Make the pictures of the commands that have a sandbox of their own."""
    (directory / "examples").mkdir()
    for name in ("boat.png", "jobs.csv"):
        shutil.copy(ROOT / "examples" / name, directory / "examples")
    for name, command, columns in (
        ("generate", GENERATE, COLUMNS),
        ("batch", BATCH, NARROW),
    ):
        screen = await asyncio.to_thread(
            run, command, directory, columns=columns
        )
        save_terminal(pictures / f"{name}.svg", command, screen)


async def create_orders(service: Sandbox, journal: str) -> None:
    """Create six orders: two completed, one failed, two running, one queued."""
    async with Client(
        service.api_key, base_url=service.base_url, journal=journal
    ) as client:
        for number, (order_id, prompt) in enumerate(PROMPTS.items()):
            await client.videos.create(
                model="gen-2.0", prompt=prompt, duration=5, order_id=order_id
            )
            if number == 2:
                service.clock.advance(300)
            elif number == 4:
                service.clock.advance(30)


def shows_all_states(screen: Screen) -> bool:
    lines = [line.plain.split() for line in screen.shown_lines()[-6:]]
    states = " ".join(words[2] for words in lines if len(words) > 2)
    return states == "completed failed completed running running queued"


async def make_watch(pictures: Path, directory: Path, service: Sandbox) -> None:
    screen = await asyncio.to_thread(
        run,
        WATCH,
        directory,
        shows_all_states,
        VIDGEN_API_KEY=service.api_key,
        VIDGEN_BASE_URL=service.base_url,
    )
    save_terminal(pictures / "watch.svg", WATCH, screen)


async def make_console(pictures: Path, service: Sandbox) -> None:
    service.faults.add("videos.get", Fault.status(503), times=3)
    async with open_browser() as context:
        page = await context.new_page()
        await page.set_viewport_size(CONSOLE_SIZE)
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await page.goto(service.console_url)
            await page.locator("#tasks [data-row]").nth(5).wait_for()
            await page.wait_for_load_state("networkidle")
            save_png(
                pictures / f"console-{scheme}.png", await page.screenshot()
            )


def save_png(path: Path, screenshot: bytes) -> None:
    """Write a small file, of 128 colours."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


async def make_pictures(pictures: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        await make_commands(pictures, directory)
        async with Sandbox(
            speed=0, queued_for=20, running_for=100, api_key="sandbox-key"
        ) as service:
            await create_orders(service, f"sqlite:///{directory}/orders.db")
            await make_watch(pictures, directory, service)
            await make_console(pictures, service)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if sys.argv[1:] else PICTURES
    destination.mkdir(exist_ok=True)
    asyncio.run(make_pictures(destination))
