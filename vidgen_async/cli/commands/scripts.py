"""``vidgen completion`` and ``vidgen journal``, which print scripts and connect to nothing."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from vidgen_async.cli.options import OrderedGroup, refuse_empty
from vidgen_async.cli.settings import WholeNumber
from vidgen_async.errors import ConfigurationError


class WholeFishComplete(FishComplete):
    """Completion in fish, of whole words: the script of click ends them at a comma."""

    source_template = FishComplete.source_template.replace('split ","', 'split --max 1 ","')


SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": WholeFishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell script that completes commands and options.

    It completes option values too, and order ids of plain characters. To install it:

    \b
      eval "$(vidgen completion bash)"    # in ~/.bashrc
      eval "$(vidgen completion zsh)"     # in ~/.zshrc
      vidgen completion fish | source     # in config.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "vidgen", "_VIDGEN_COMPLETE").source())


@click.group(cls=OrderedGroup)
def journal() -> None:
    """Print what administrators of a journal in PostgreSQL need.

    \b
      vidgen journal schema --user worker > schema.sql
    """


@journal.command()
@click.option(
    "--schema",
    "name",
    metavar="NAME",
    default="vidgen",
    callback=refuse_empty,
    help="The PostgreSQL schema of the tables.",
    show_default=True,
)
@click.option(
    "--user",
    metavar="NAME",
    callback=refuse_empty,
    help="The user of the workers: grant what they need, and nothing else.",
)
@click.option(
    "--from-version",
    "version",
    type=WholeNumber(min=0),
    metavar="N",
    default=0,
    help="Upgrade the tables of schema version N, which the table version has. Default: create the tables.",
)
def schema(name: str, user: str | None, version: int) -> None:
    """Print the SQL that creates the tables of a journal in PostgreSQL.

    Workers create and upgrade the tables themselves if they may. Otherwise an administrator executes this script,
    which is one transaction. Nothing is connected to, and psycopg is not needed.

    \b
      vidgen journal schema --user worker > schema.sql
      psql -v ON_ERROR_STOP=1 -f schema.sql
    """
    from vidgen_async.journal import postgres_schema  # noqa: PLC0415 - help needs no journal

    try:
        script = postgres_schema(name, user=user or "", version=version)
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    click.echo(script, nl=False)
    if f"schema version {version}." in script.partition("\n")[0]:
        click.echo(f"warning: this release has schema version {version} too: there is nothing to upgrade", err=True)
