"""What an import brings along, in the environment of the tests, where every extra is installed."""

import sys

from .conftest import PARTS_OF_THE_BASE, ROOT, run, run_well

OF_THE_EXTRAS = ("PIL", "av", "click", "platformdirs", "rich")


def test_with_the_extras_everything_imports_without_a_warning():
    command = (sys.executable, "-X", "dev", "-W", "error", "-c")
    ran = run(*command, "import vidgen_async, vidgen_async.sandbox, vidgen_async.cli.app", cwd=ROOT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_importing_the_sdk_imports_nothing_that_only_extras_need():
    look = f"{PARTS_OF_THE_BASE}, sys; print(*sorted(set(sys.modules) & set({OF_THE_EXTRAS})))"
    assert run_well(sys.executable, "-c", look, cwd=ROOT) == "\n"
