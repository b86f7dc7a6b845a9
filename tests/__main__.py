"""Every check of the project, one after the other: ``python -m tests``. Arguments are handed to pytest."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: One worker for each core, in development mode like this process; the tests of a file stay together.
PARALLEL = ("--tx", f"{os.cpu_count() or 1}*popen//python={shlex.quote(sys.executable)} -X dev", "--dist", "loadfile")

STEPS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("importlinter",),
    ("pytest", *PARALLEL, "--cov", "--cov-report=term-missing:skip-covered", "--cov-fail-under=95"),
)


def command(step: tuple[str, ...], arguments: list[str]) -> list[str]:
    """The step as a command of this interpreter."""
    if step[0] == "importlinter":
        return [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    return [sys.executable, "-X", "dev", "-m", *step, *(arguments if step[0] == "pytest" else ())]


def main() -> int:
    """Run all steps; the number of those that failed."""
    failed = []
    for step in STEPS:
        sys.stderr.write(f"== {' '.join(step)}\n")
        sys.stderr.flush()
        if subprocess.run(command(step, sys.argv[1:]), cwd=ROOT, check=False).returncode:  # noqa: S603 - our own list
            failed.append(" ".join(step))
    sys.stderr.write("== all checks passed\n" if not failed else f"== failed: {'; '.join(failed)}\n")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
