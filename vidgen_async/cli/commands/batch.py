"""``vidgen batch``: the videos of a manifest."""

import shlex
import shutil
from typing import Any

import click
from attrs import evolve

from vidgen_async.cli.options import Run, connection_options, poll_interval_option, refuse_empty, sandbox_option
from vidgen_async.cli.settings import WholeNumber


def _read_command(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """The arguments of a command, which must exist."""
    try:
        words = tuple(shlex.split(value or ""))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no command: {error}".lower(), ctx, param) from error
    if value is not None and (not words or shutil.which(words[0]) is None):
        raise click.BadParameter(f"there is no such command: {value!r}", ctx, param)
    return words


@click.command()
@click.argument("jobs")
@click.option(
    "-o", "--output", metavar="DIRECTORY", required=True, callback=refuse_empty, help="Where to save the videos."
)
@click.option("--check", "is_check", is_flag=True, help="Check the rows, show what they are and cost; order nothing.")
@click.option(
    "--retry-failed", is_flag=True, help="Order again what failed, as ORDER~2, and what was rejected with 400."
)
@click.option(
    "--stop-after-failures",
    type=WholeNumber(min=1),
    metavar="N",
    default=20,
    help="Order nothing more after N equal failures of creates in a row.",
    show_default=True,
)
@click.option(
    "--report",
    metavar="FILE",
    callback=refuse_empty,
    help="Write what became of each row to a .csv, .jsonl or .html file.",
)
@click.option(
    "--on-saved",
    metavar="COMMAND",
    callback=_read_command,
    help="Run this after each video that is saved, without a shell and without the API key, with the path as its last "
    "argument. At most once for a video in a run; never if the run is killed before.",
)
@sandbox_option
@poll_interval_option
@connection_options(orders=True, budget=True)
async def batch(run: Run, is_check: bool, on_saved: tuple[str, ...], **options: Any) -> None:
    """Order the videos of the manifest JOBS, and save each.

    JOBS has JSON lines or CSV (- is stdin): the fields of a create, order_id, and perhaps output and local_images. All
    rows are checked before anything is sent. The same command again continues: it saves what is missing, and orders
    nothing twice. An uncertain order is never sent again.

    --max-points is a budget of the account for everything that the journal has, not for this manifest alone, and holds
    for this run: a later one without it has none. After Ctrl-C no more orders are sent, and the command waits for those
    that are being sent; a second one exits at once.

    \b
      vidgen batch jobs.csv -o videos --check --price points
      vidgen batch jobs.csv -o videos --report report.csv
      vidgen batch jobs.csv -o videos --retry-failed
    """
    from vidgen_async.cli.batch_run import check_batch, run_batch  # noqa: PLC0415 - help needs no client

    if not is_check:
        await run_batch(run, on_saved, **options)
        return
    if on_saved or options["report"]:
        raise click.UsageError("--check saves nothing: leave out --report and --on-saved.")
    price = run.settings.price_name
    if run.settings.max_points is None:  # the name of a price is enough
        run.settings = evolve(run.settings, price=None)
    await check_batch(run, price, **options)
