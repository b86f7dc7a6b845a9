"""``vidgen models``, ``account`` and ``upload``."""

import click

from vidgen_async.cli.commands import run_action
from vidgen_async.cli.option_values import check_image
from vidgen_async.cli.options import connection_options


@click.command()
@click.argument("model", required=False)
@click.option("--all", "with_all", is_flag=True, help="List unavailable models too, with the reason.")
@connection_options()
@run_action("account")
def models() -> None:
    """List the models that your key can use, with your prices.

    The columns images, audios and videos show the maximum number of references: "none" if the model accepts none, a
    dash if the catalog does not state it. The last columns are all other fields of the catalog, including prices, under
    the service's own names. With MODEL: everything about that model.

    \b
      vidgen models
      vidgen models vendorh3
      vidgen models --all --json
    """


@click.command()
@connection_options()
@run_action("account")
def account() -> None:
    """Show your balance, and the other fields of the account.

    \b
      vidgen account
    """


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=check_image)
@click.option("--url", "with_url", is_flag=True, help="Print the URL too. It gives access to the image without a key.")
@connection_options()
@run_action("account")
def upload() -> None:
    """Upload images and print the id of each.

    One id per line, in the order given; stderr shows until when the service stores each, which is 72 hours. An id is
    the value of --image-id of create and generate. FILE may also be the service's own URL of an image that you uploaded
    before.

    \b
      vidgen upload hero.png
      vidgen create "…" --model vendorh3 \\
          --image-id "$(vidgen upload hero.png)"
    """
