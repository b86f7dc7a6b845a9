"""The commands and their options."""

import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from vidgen_async import __version__
from vidgen_async.cli.command_sandbox import run_sandbox
from vidgen_async.cli.journey import Fate, Journey, Stage
from vidgen_async.cli.runner import run
from vidgen_async.cli.screens import Screen, clean, make_screen
from vidgen_async.cli.service import Settings, opened
from vidgen_async.cli.words import EXIT_CODES
from vidgen_async.cli.work import Errand, Target, Wanted, is_url
from vidgen_async.client import ONE_DAY
from vidgen_async.resources import VideoTask
from vidgen_async.validation import RATIOS

F = TypeVar("F", bound=Callable[..., Any])

SECONDS = click.FloatRange(min=0, min_open=True)


def run_app() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        code = app.main(prog_name="vidgen", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    return code if isinstance(code, int) else 0


class _Picture(click.ParamType[str]):
    """A file to upload, which must exist, or a public URL."""

    name = "file or url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_url(value) and not Path(value).is_file():
            self.fail(f"there is no such file: {value}", param, ctx)
        return value


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_connection = _options(
    click.option("--base-url", metavar="URL", help="Where the service is; else VIDGEN_BASE_URL."),
    click.option("--debug", envvar="VIDGEN_DEBUG", is_flag=True, help="Show what goes on, and tracebacks."),
)
_waiting = _options(
    click.option(
        "--poll-interval",
        type=SECONDS,
        metavar="S",
        help="Seconds between two looks at the task: 60, as the service recommends, or 1 on this machine.",
    ),
    click.option("--timeout", type=SECONDS, default=ONE_DAY, metavar="S", help="Seconds to wait at most: a day."),
    click.option("--force", is_flag=True, help="Replace FILE if it exists."),
)


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vidgen", message="%(prog)s %(version)s")
def app() -> None:
    """Make videos with a paid video generation service, and never pay for one twice by accident.

    The key is read from VIDGEN_API_KEY, the address of the service from VIDGEN_BASE_URL. Without either, try it all in
    the sandbox, where nothing is charged:

    \b
      vidgen generate "A paper boat sails at dawn" --sandbox -o boat.mp4
    """


app.add_command(run_sandbox)


@app.command(epilog=EXIT_CODES)
@click.argument("prompt")
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to save the video (MP4).")
@click.option(
    "--image",
    "images",
    type=_Picture(),
    multiple=True,
    metavar="FILE|URL",
    help="A reference picture; may be repeated.",
)
@click.option("--model", metavar="ID", help="A model ID of the catalog. Needed where several fit: their prices differ.")
@click.option(
    "--duration", type=click.IntRange(min=1), metavar="S", help="Seconds; the model's catalog entry says which."
)
@click.option("--ratio", type=click.Choice(RATIOS), help="Width to height.")
@click.option("--resolution", metavar="R", help="A resolution of the model, such as 720p.")
@click.option(
    "--order-id", metavar="ID", help="Your own lasting name for this video; a new one is made if you give none."
)
@click.option("--sandbox", is_flag=True, help="Use a sandbox on this machine: no key, nothing is charged.")
@_waiting
@_connection
def generate(
    prompt: str,
    output: str,
    images: tuple[str, ...],
    model: str | None,
    duration: int | None,
    ratio: str | None,
    resolution: str | None,
    order_id: str | None,
    sandbox: bool,
    poll_interval: float | None,
    timeout: float,
    force: bool,
    base_url: str | None,
    debug: bool,
) -> int:
    """Make a video from PROMPT and save it.

    Pictures are uploaded, the video is ordered, waited for and downloaded. The order id and the task id are shown
    before the wait. Ctrl-C at any time: it says what still runs and is charged, and how to go on.

    \b
      vidgen generate "A paper boat sails at dawn" --image boat.png --sandbox -o boat.mp4
      vidgen generate "…" --model vendorh3 --duration 8 --ratio 9:16 --image hero.png -o hero.mp4
    """
    if sandbox and base_url is not None:
        raise click.UsageError("--sandbox and --base-url exclude each other.")
    settings = Settings(base_url=base_url, poll_interval=poll_interval, is_sandbox=sandbox, is_debug=debug)
    wanted = Wanted(prompt=prompt, model=model, duration=duration, ratio=ratio, resolution=resolution, pictures=images)
    journey = Journey(
        order_id=order_id or str(uuid.uuid4()), output=output, options=_repeated(settings, force), is_sandbox=sandbox
    )
    target = Target(path=Path(output), may_replace=force)
    return _run(settings, journey, lambda errand: errand.generate(wanted, target), timeout=timeout)


@app.command(epilog=EXIT_CODES)
@click.argument("task_id")
@click.option("-o", "--output", metavar="FILE", help="Save the video there when the task is completed.")
@_waiting
@_connection
def wait(
    task_id: str,
    output: str | None,
    poll_interval: float | None,
    timeout: float,
    force: bool,
    base_url: str | None,
    debug: bool,
) -> int:
    """Wait for the task TASK_ID, and save its video.

    Nothing is ordered, so nothing can be charged again; without -o nothing is saved.

    \b
      vidgen wait task_9bb34ae375b1 -o hero.mp4
    """
    settings = Settings(base_url=base_url, poll_interval=poll_interval, is_debug=debug)
    journey = _journey_of(task_id, _repeated(settings, force), output)
    target = None if output is None else Target(path=Path(output), may_replace=force)

    async def work(errand: Errand) -> None:
        if target is not None:
            await target.check()
        await errand.follow(task_id, target)

    return _run(settings, journey, work, timeout=timeout)


@app.command(epilog=EXIT_CODES)
@click.argument("task_id")
@_connection
def get(task_id: str, base_url: str | None, debug: bool) -> int:
    """Show the task TASK_ID as it is now.

    The last line is the latest address of its video, with its signature: whoever has it can see the video.
    """
    settings = Settings(base_url=base_url, is_debug=debug)

    async def work(errand: Errand) -> None:
        errand.journey.stage = Stage.LOOK
        for line in _shown(await errand.client.videos.get(task_id)):
            click.echo(line)

    return _run(settings, Journey(task_id=task_id), work, timeout=None)


def _journey_of(task_id: str, options: tuple[str, ...], output: str | None) -> Journey:
    return Journey(fate=Fate.TASK, task_id=task_id, output=output, options=options)


def _repeated(settings: Settings, force: bool) -> tuple[str, ...]:
    """What a resuming command must be given again."""
    return (*settings.options, *(("--force",) if force else ()))


def _run(
    settings: Settings,
    journey: Journey,
    do: Callable[[Errand], Coroutine[Any, Any, None]],
    *,
    timeout: float | None,
) -> int:
    screen: Screen = make_screen(is_debug=settings.is_debug)
    begun_at = time.monotonic()

    async def work() -> None:
        async with opened(settings, screen) as client:
            await do(Errand(client=client, journey=journey, screen=screen, timeout=timeout, begun_at=begun_at))

    return run(work, journey, screen, is_debug=settings.is_debug)


def _shown(task: VideoTask) -> list[str]:
    """What is known of the task; the address whole, since without its signature it leads nowhere."""
    facts = {
        "task": task.id,
        "state": task.status,
        "model": task.model,
        "points": task.points,
        "created": task.created_at and task.created_at.isoformat(),
        "updated": task.updated_at and task.updated_at.isoformat(),
        "failure": task.failure_reason,
        "video": task.video_url,
    }
    return [f"{name + ':':<9}{clean(str(value))}" for name, value in facts.items() if value is not None]
