"""The command line: ``vidgen``. It needs the extra ``cli`` (click and rich), and says so where that is missing."""

import sys

_NEEDED = ("click", "rich")


def main() -> None:
    """The entry point; ends the process with one of the documented exit codes."""
    try:
        from vidgen_async.cli.app import run_app  # noqa: PLC0415 - the extra may be missing: that is said, not raised

        sys.exit(run_app())
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        sys.stderr.write(f'vidgen needs {missing}, which is not installed: pip install "vidgen-async[cli]"\n')
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
