"""The command group, and the exit of the process."""

import os
import sys

import click

from vidgen_async import __version__
from vidgen_async.cli.commands import account, create, tasks
from vidgen_async.cli.commands.batch import batch
from vidgen_async.cli.commands.cassette import cassette
from vidgen_async.cli.commands.mcp import run_mcp
from vidgen_async.cli.commands.orders import orders
from vidgen_async.cli.commands.sandbox import run_sandbox
from vidgen_async.cli.commands.scripts import completion, journal
from vidgen_async.cli.options import OrderedGroup
from vidgen_async.cli.process import OutputError
from vidgen_async.cli.run_state import EXIT_CODES, Exit, RunState
from vidgen_async.cli.terminal.exit_reports import Report, error_report


def run_app() -> int:
    """Run the command line of this process and return its exit code."""
    os.environ.pop("VIDGEN_LOG", None)  # for programs: the command line has --debug
    try:
        code = app.main(prog_name="vidgen", standalone_mode=False)
    except (click.ClickException, click.Abort, OutputError) as error:
        return _show_usage_error(error)
    return code if isinstance(code, int) else 0


def _show_usage_error(error: click.ClickException | click.Abort | OutputError) -> int:
    """Show what ended a command before it ran, and return the exit code."""
    from vidgen_async.cli.terminal.status_display import make_screen  # noqa: PLC0415 - help needs no screen

    match error:
        case OutputError():
            report, code = error_report(error, RunState()), int(Exit.FAILED)
        case click.ClickException():
            text, hint = _explain(error)
            report, code = Report(text, hint=hint, kind="usage"), error.exit_code
        case _:
            report, code = Report("interrupted", kind="interrupted"), 130
    make_screen(is_json="--json" in sys.argv).show_error(report, code)
    return code


def _explain(error: click.ClickException) -> tuple[str, str]:
    """What was wrong, and the hint."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = "" if context is None else f"For its arguments and options: {context.command_path} --help"
    text = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption) and context is not None:
        if "key" in error.option_name and error.option_name.replace("_", "-") != "--idempotency-key":
            text = "The key cannot be passed as an option, which other users could see: set VIDGEN_API_KEY"
        elif isinstance(context.command, click.Group):
            hint = f"Options follow the command: {context.command_path} COMMAND {error.option_name}. {hint}"
    return f"{text}{'' if text.endswith(('?', '?)')) else '.'}", hint


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
      vidgen batch jobs.csv -o videos          many videos
      vidgen orders ls                         your orders

    Every command accepts --json, except those that print a script (completion, journal schema): stdout has one JSON
    document, or one per line where there may be several. stderr has {"order": …} and {"task": …} as soon as they are
    known, and an error as {"error": {"kind", "message", "exit_code", "hint", …}}. NO_COLOR turns colours off.
    """


for command in (
    *(create.generate, batch, create.create, tasks.get, tasks.wait, tasks.watch, tasks.download, account.models),
    *(account.account, account.spend, account.upload, orders, journal, run_sandbox, cassette, run_mcp, completion),
):
    app.add_command(command)
