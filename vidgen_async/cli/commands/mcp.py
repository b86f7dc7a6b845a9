"""``vidgen mcp``: the tools for agents. Needs the extra ``mcp``."""

from pathlib import Path

import click

from vidgen_async.cli.options import Run, connection_options
from vidgen_async.cli.settings import Access
from vidgen_async.errors import ConfigurationError


@click.command(name="mcp")
@click.option(
    "--to",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="DIRECTORY",
    help="Where videos are saved and local images are read: in no other place.",
)
@connection_options(orders=True, budget=True)
async def run_mcp(run: Run, directory: Path) -> None:
    """Serve tools for agents over the Model Context Protocol, on stdin and stdout.

    An agent can check, order, wait for and save videos. Each order needs an order id, so that a repeated call never
    costs twice, and counts towards the budget, which is required. Without --per the budget is for all orders of the
    journal. Decisions about uncertain orders are left to you.

    \b
      vidgen mcp --to ./videos --max-points 500 --price points
    """
    try:
        from vidgen_async.mcp import serve  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        raise ConfigurationError(str(error)) from error
    if not run.settings.has_budget:
        raise click.UsageError("an agent needs a budget: --max-points N --price NAME.")
    client = await run.connect(Access.NEW)
    if not run.is_durable:
        raise ConfigurationError("the orders of an agent need a journal on the disk or in a database")
    await serve(client, directory, connection=run.settings.connection)
