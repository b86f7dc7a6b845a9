"""What ends a command before it runs: wrong usage, Ctrl-C at a question, output that cannot be written."""

import sys

import click

from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.terminal.exit_codes import Exit
from vidgen_async.cli.terminal.exit_reports import Report, error_report
from vidgen_async.cli.terminal.standard_streams import OutputError
from vidgen_async.cli.terminal.status_display import make_screen

#: Options of other programs and fields of the service, and the options here that mean the same.
_NAMES_HERE = {
    "--dry-run": "--check",
    "-n": "--check",
    "--seconds": "--duration",
    "--aspect-ratio": "--ratio",
    "--image-url": "--image",
    "--image-urls": "--image",
    "--idempotency-key": "--order-id",
    "--verbose": "--debug",
    "-v": "--debug",
}


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
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = "" if context is None else f"For its arguments and options: {context.command_path} --help"
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and context is not None:
        text, before = _explain_option(error, context)
        hint = f"{before}{hint}"
    text = text.rstrip(".")
    stop = "" if text.endswith(("?", "?)")) else "."  # a question of click: Did you mean …?
    return Report(f"{text}{stop}", hint=hint, kind="usage")


def _explain_option(error: click.NoSuchOption, context: click.Context) -> tuple[str, str]:
    """What to write instead of an unknown option: the message, and a sentence of the hint."""
    given = error.option_name
    same = _NAMES_HERE.get(given.replace("_", "-"))
    if same is None and "key" in given:
        return "The key cannot be passed as an option, which other users could see: set VIDGEN_API_KEY", ""
    unknown = f"No such option '{given}'."
    if isinstance(context.command, click.Group):
        return unknown, f"Options follow the command: {context.command_path} COMMAND {given}. "
    if same == "--check" and context.command.name == "generate":
        return f"{unknown} Did you mean 'vidgen create … --check'?", ""
    if same is not None:
        is_here = any(same in parameter.opts for parameter in context.command.params)
        return (f"{unknown} Did you mean '{same}'?" if is_here else unknown), ""
    return error.format_message(), ""
