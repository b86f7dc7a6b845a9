"""The command group, and the exit of the process."""

import sys

import click

from vidgen_async import __version__
from vidgen_async.cli.commands import account, create, tasks
from vidgen_async.cli.commands.cassette import cassette
from vidgen_async.cli.commands.completion import completion
from vidgen_async.cli.commands.orders import orders
from vidgen_async.cli.commands.sandbox import run_sandbox
from vidgen_async.cli.options import OrderedGroup
from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.terminal.exit_reports import EXIT_CODES, Exit, Report, error_report, usage_report
from vidgen_async.cli.terminal.standard_streams import OutputError
from vidgen_async.cli.terminal.status_display import make_screen


def run_app() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        code = app.main(prog_name="vidgen", standalone_mode=False)
    except click.ClickException as error:
        return _show(_explain_usage(error), error.exit_code)
    except click.Abort:
        return _show(Report("interrupted", kind="interrupted"), 130)
    except OutputError as error:
        return _show(error_report(error, RunState()), Exit.FAILED)
    return code if isinstance(code, int) else 0


def _explain_usage(error: click.ClickException) -> Report:
    if isinstance(error, click.NoSuchOption) and "key" in error.option_name:
        message = "The key cannot be passed as an option, which other users could see: set VIDGEN_API_KEY."
        error = click.UsageError(message, error.ctx)
    return usage_report(error)


def _show(report: Report, code: int) -> int:
    make_screen(is_json="--json" in sys.argv).show_error(report, code)
    return code


@click.group(cls=OrderedGroup, exit_codes=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vidgen", message="%(prog)s %(version)s")
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

    Every command accepts --json: stdout has one JSON document, or one per line where there may be several. stderr has
    {"order": …} and {"task": …} as soon as they are known, and an error as {"error": {"kind", "message", "exit_code",
    "hint", …}}. NO_COLOR turns colours off.
    """


for command in (create.generate, create.create, tasks.get, tasks.wait, tasks.watch, tasks.download):
    app.add_command(command)
for command in (account.models, account.account, account.upload, orders, run_sandbox, cassette, completion):
    app.add_command(command)
