"""The command group, and the exit of the process."""

import os

import click

from vidgen_async import __version__
from vidgen_async.cli.commands import account, create, tasks
from vidgen_async.cli.commands.cassette import cassette
from vidgen_async.cli.commands.completion import completion
from vidgen_async.cli.commands.journal import journal
from vidgen_async.cli.commands.orders import orders
from vidgen_async.cli.commands.sandbox import run_sandbox
from vidgen_async.cli.options import OrderedGroup
from vidgen_async.cli.terminal.exit_codes import EXIT_CODES
from vidgen_async.cli.terminal.standard_streams import OutputError


def run_app() -> int:
    """Run the command line of this process and return its exit code."""
    os.environ.pop("VIDGEN_LOG", None)  # for programs: the command line has --debug
    try:
        code = app.main(prog_name="vidgen", standalone_mode=False)
    except (click.ClickException, click.Abort, OutputError) as error:
        from vidgen_async.cli.terminal.usage_errors import show_usage_error  # noqa: PLC0415 - help needs no reports

        return show_usage_error(error)
    return code if isinstance(code, int) else 0


@click.group(cls=OrderedGroup, exit_codes=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="vidgen", message="%(prog)s %(version)s")
def app() -> None:
    """Create videos with a paid video generation service, without ever paying for one twice by accident.

    The API key is read from VIDGEN_API_KEY, the base URL of the service from VIDGEN_BASE_URL. Without them, try the
    sandbox, where nothing is charged:

    \b
      vidgen generate "A paper boat" --sandbox -o boat.mp4

    With a key:

    \b
      vidgen models                            models, prices
      vidgen generate "…" --model ID -o a.mp4  all steps, or:
      vidgen create "…" --model ID             order
      vidgen wait TASK -o a.mp4                wait, and save
      vidgen orders ls                         your orders

    Every command accepts --json, except those that print a script (completion, journal schema): stdout has one JSON
    document, or one per line where there may be several. stderr has {"order": …} and {"task": …} as soon as they are
    known, and an error as {"error": {"kind", "message", "exit_code", "hint", …}}. NO_COLOR turns colours off.
    """


for command in (create.generate, create.create, tasks.get, tasks.wait, tasks.watch, tasks.download):
    app.add_command(command)
for command in (account.models, account.account, account.upload, orders, journal, run_sandbox, cassette, completion):
    app.add_command(command)
