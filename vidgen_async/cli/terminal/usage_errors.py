"""What ends a command before it runs: wrong usage, Ctrl-C at a question, output that cannot be written."""

import sys

import click

from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.terminal.exit_codes import Exit
from vidgen_async.cli.terminal.exit_reports import Report, error_report
from vidgen_async.cli.terminal.standard_streams import OutputError
from vidgen_async.cli.terminal.status_display import make_screen


def show_usage_error(error: click.ClickException | click.Abort | OutputError) -> int:
    """Show the error, and return the exit code."""
    match error:
        case OutputError():
            report, code = error_report(error, RunState()), int(Exit.FAILED)
        case click.ClickException():
            report, code = _explain(error), error.exit_code
        case _:
            report, code = Report("interrupted", kind="interrupted"), 130
    make_screen(is_json="--json" in sys.argv).show_error(report, code)
    return code


def _explain(error: click.ClickException) -> Report:
    text = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption) and "key" in error.option_name:
        text = "The key cannot be passed as an option, which other users could see: set VIDGEN_API_KEY"
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = "" if context is None else f"For its arguments and options: {context.command_path} --help"
    stop = "" if text.endswith(("?", "?)")) else "."  # a question of click: Did you mean …?
    return Report(f"{text}{stop}", hint=hint, kind="usage")
