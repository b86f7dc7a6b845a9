"""The command group, and the exit of the process."""

import io
import sys

import click

from vidgen_async import __version__
from vidgen_async.cli.commands import account, create, tasks
from vidgen_async.cli.commands.cassette import cassette
from vidgen_async.cli.commands.completion import completion
from vidgen_async.cli.commands.orders import orders
from vidgen_async.cli.commands.sandbox import run_sandbox
from vidgen_async.cli.options import OrderedGroup
from vidgen_async.cli.terminal.exit_codes import EXIT_CODES, Exit
from vidgen_async.cli.terminal.formatting import clean_lines
from vidgen_async.cli.terminal.standard_streams import OutputError


def run_app() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        code = app.main(prog_name="vidgen", standalone_mode=False)
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except click.Abort:
        sys.stderr.write("vidgen: interrupted\n")
        return 130
    except OutputError as error:
        sys.stderr.write(f"vidgen: {error.message}\n")
        return Exit.FAILED
    return code if isinstance(code, int) else 0


def _show(error: click.ClickException) -> None:
    if isinstance(error, click.NoSuchOption) and "key" in error.option_name:
        message = "The key cannot be passed as an option, which other users could see: set VIDGEN_API_KEY."
        error = click.UsageError(message, error.ctx)
    if "--json" in sys.argv:
        from vidgen_async.cli.terminal.exit_reports import Report  # noqa: PLC0415 - help needs no reports
        from vidgen_async.cli.terminal.status_display import JsonScreen  # noqa: PLC0415 - as above

        JsonScreen().show_error(Report(error.format_message(), kind="usage"), error.exit_code)
    else:
        text = io.StringIO()
        error.show(text)
        click.echo(clean_lines(text.getvalue()), err=True, nl=False)


@click.group(cls=OrderedGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vidgen", message="%(prog)s %(version)s")
def app() -> None:
    """Create videos with a paid video generation service, without ever paying for one twice by accident.

    The API key is read from VIDGEN_API_KEY, the base URL of the service from VIDGEN_BASE_URL. Without them, try the
    sandbox, where nothing is charged:

    \b
      vidgen generate "A paper boat sails at dawn" --sandbox -o boat.mp4

    With a key:

    \b
      vidgen models                                list models and prices
      vidgen generate "…" --model ID -o boat.mp4   order, wait and save
      vidgen create "…" --model ID                 or step by step: order
      vidgen wait TASK -o boat.mp4                 wait and save
      vidgen orders ls                             list the orders in the journal

    Every command accepts --json: stdout has one JSON document, or one per line where there may be several. stderr has
    {"order": …} and {"task": …} as soon as they are known, and an error as {"error": {"kind", "message", "exit_code",
    …}}. NO_COLOR turns colours off.
    """


for command in (create.generate, create.create, tasks.get, tasks.wait, tasks.watch, tasks.download):
    app.add_command(command)
for command in (account.models, account.account, account.upload, orders, run_sandbox, cassette, completion):
    app.add_command(command)
