"""``vidgen create`` and ``generate``: the commands that order a video."""

import click

from vidgen_async.cli.commands import run_action
from vidgen_async.cli.options import (
    OUTPUT_HELP,
    connection_options,
    force_option,
    no_validate_option,
    order_ids,
    refuse_empty,
    request_arguments,
    sandbox_option,
)

order_id_option = click.option(
    "--order-id", metavar="ID", callback=refuse_empty, help="Your own permanent id for this order. Default: a new UUID."
)


@click.command()
@request_arguments
@order_id_option
@click.option("--check", "is_check", is_flag=True, help="Validate only and show the model's prices; order nothing.")
@no_validate_option
@connection_options(orders=True)
@run_action("create")
def create() -> None:
    """Order a video for PROMPT and print its task id.

    Use - as PROMPT to read it from stdin. Only the task id is printed to stdout; the order id is shown before, on
    stderr. Running it again with the same order id sends nothing and prints the same task id.

    \b
      vidgen create "A boat" --model gen-2.0 --duration 5
      vidgen create - --model gen-2.0 --order-id order-1187 \\
          < prompt.txt
      vidgen create "…" --model vendorh3 --image a.png --check
      vidgen wait "$(vidgen create "…" --model ID)" -o a.mp4
    """


@click.command()
@click.option("-o", "--output", metavar="FILE", required=True, help=OUTPUT_HELP)
@force_option
@request_arguments
@order_id_option
@click.option(
    "--resume",
    metavar="ORDER",
    callback=refuse_empty,
    shell_complete=order_ids,
    help="Resume this order of an interrupted run.",
)
@no_validate_option
@sandbox_option
@connection_options(orders=True, polling=True)
@run_action("create")
def generate() -> None:
    """Create a video for PROMPT and save it.

    Uploads the images, orders the video, waits for it and downloads it. Use - as PROMPT to read it from stdin. The
    order id and the task id are shown before the wait. After Ctrl-C it shows what is still running and charged, and
    how to resume.

    --resume continues an interrupted order. Its request is read from the journal, so do not repeat PROMPT and the
    request options. It never creates a second order.

    \b
      vidgen generate "…" --image a.png --sandbox -o a.mp4
      vidgen generate "…" --model vendorh3 --image a.png \\
          --duration 8 -o a.mp4
      vidgen generate --resume order-1187 -o hero.mp4
    """
