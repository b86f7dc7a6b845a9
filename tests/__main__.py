"""The checks and tests of the project, one after the other. Needs: pip install -e ".[test]"."""

import argparse
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

EPILOG = """\
All other arguments are passed to pytest:

  python -m tests                               all checks and tests (minutes)
  python -m tests --fast                        formatting, lint and the quick tests (under a minute)
  python -m tests --fast tests/orders -k lost   the quick tests of one folder that match
  python -m tests tests/orders -n 0 --pdb       one folder, in this process
  python -m tests --dev                         the rest; needs pip install -e ".[dev,bench]" and Chromium
  python -m tests --engines                     the recipes for job queues, and the long proofs of the journal in
                                                PostgreSQL; needs pip install -e ".[test-engines]",
                                                redis-server and pgbouncer
  python -m tests --lowest                      the quick tests and those of the journals; needs
                                                pip install -e . $(python -m tests.lowest_versions)
  python -m tests --coverage                    the tests, and what of the package they cover
  python -X dev -m tests                        all, in Python's development mode

The exit code is the number of checks that failed.
"""

FORMAT = ("ruff", "format", "--check", ".")
LINT = ("ruff", "check", ".")
IMPORTS = ("importlinter",)
SITE = ("sphinx", "--fail-on-warning", "--quiet", "--jobs=auto", "docs", "build/docs")
#: The recipes, which only the extra test-engines lets a type checker pass.
QUEUES = "examples/queues"
ALL = "not needs_dev and not needs_engines"
QUICK = f"not slow and {ALL}"
CONFORMANCE = "tests/journal/test_conformance.py"
COVERAGE = ("--cov", "--cov-report=term-missing:skip-covered")


def main() -> int:
    """Run the checks that were asked for; the number of those that failed."""
    options, arguments = parse(sys.argv[1:])
    *checks, last = checks_of(options, arguments)
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # these use one core each, pytest all of them
        passed = [*threads.map(run, checks)]
    passed.append(run(last))
    failed = [shlex.join(check) for check, has_passed in zip((*checks, last), passed, strict=True) if not has_passed]
    report("all checks passed" if not failed else f"failed: {'; '.join(failed)}")
    return len(failed)


def parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of this program, and the arguments of pytest."""
    parser = argparse.ArgumentParser(
        prog="python -m tests",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--fast", action="store_true", help="leave out type checks and slow tests")
    which.add_argument("--dev", action="store_true", help="only what needs a browser, builds, type checkers or peers")
    which.add_argument("--engines", action="store_true", help="only what needs job queues and their servers")
    which.add_argument("--lowest", action="store_true", help="only what is tested with the lowest versions allowed")
    which.add_argument("--coverage", action="store_true", help="only the tests, with their coverage")
    return parser.parse_known_args(words)


def checks_of(options: argparse.Namespace, arguments: list[str]) -> list[tuple[str, ...]]:
    """The commands to run, without the interpreter."""
    if options.dev:
        return [("mypy", "benchmarks"), ("mypy", "examples", "--exclude", QUEUES), pytest("needs_dev", *arguments)]
    if options.engines:
        return [("mypy", QUEUES), pytest("needs_engines", *arguments)]
    if options.fast:
        return [FORMAT, LINT, IMPORTS, pytest(QUICK, *arguments)]
    if options.lowest:  # what starts PostgreSQL is slow
        return [pytest(QUICK, *arguments), pytest(f"slow and {ALL}", *(arguments or (CONFORMANCE,)))]
    if options.coverage:  # a part of the suite covers a part of the package
        return [pytest(ALL, *COVERAGE, *(arguments or ("--cov-fail-under=95",)))]
    return [FORMAT, LINT, ("mypy",), IMPORTS, SITE, pytest(ALL, *arguments)]


def pytest(marks: str, *arguments: str) -> tuple[str, ...]:
    """A run of the tests with these marks: one worker for each core, each in development mode if this process is."""
    cores = os.cpu_count() or 1
    worker = f"{shlex.quote(sys.executable)} -X dev" if sys.flags.dev_mode else shlex.quote(sys.executable)
    return ("pytest", "-m", marks, "--tx", f"{cores}*popen//python={worker}", "--dist", "worksteal", *arguments)


def run(check: tuple[str, ...]) -> bool:
    """Whether a check passed; what it was, what it prints, and how long it took are reported."""
    started = time.monotonic()
    module = ("-c", "from importlinter.cli import lint_imports_command as run; run()") if check == IMPORTS else None
    command = [sys.executable, *(("-X", "dev") if sys.flags.dev_mode else ()), *(module or ("-m", *check))]
    is_pytest = check[0] == "pytest"
    if is_pytest:
        report(shlex.join(check))
    # Without cached bytecode every worker would rewrite the assertions of the tests again.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ended = subprocess.run(  # noqa: S603 - our own commands
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL if sys.stdin is None else None,
        stdout=None if is_pytest else subprocess.PIPE,
        stderr=None if is_pytest else subprocess.STDOUT,
        env=env,
        text=True,
        check=False,
    )
    if not is_pytest:
        report(f"{shlex.join(check)}\n{ended.stdout}".rstrip())
    outcome = "passed" if ended.returncode == 0 else f"failed ({ended.returncode})"
    report(f"{check[0]} {outcome} after {time.monotonic() - started:.0f} s")
    return ended.returncode == 0


def report(text: str) -> None:
    sys.stderr.write(f"== {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
