"""The command line: ``vidgen``. It needs the extra ``cli``; without it, one sentence names what is missing."""

import sys

from vidgen_async.cli.process import exit_at_interrupts, guarded_streams

_NEEDED = ("click", "rich", "platformdirs")


def main() -> None:
    """The entry point: exit the process with one of the documented exit codes."""
    with guarded_streams(), exit_at_interrupts():
        code = _run()
    sys.exit(code)


def _run() -> int:
    try:
        from vidgen_async.cli.app import run_app  # noqa: PLC0415 - the extra may be missing

        return run_app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        sys.stderr.write(f"error: vidgen needs {missing}, which is not installed.\n")
        sys.stderr.write('hint: pip install "vidgen-async[cli]"\n')
        return 2
