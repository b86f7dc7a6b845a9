"""What an import brings along, in the environment of the tests, where every extra is installed."""

import inspect
import pickle
import sys

import pytest

import vidgen_async

from .conftest import PARTS_OF_THE_BASE, ROOT, run, run_well

OF_THE_BASE = ("aiohttp", "attr", "attrs", "cattr", "cattrs", "yarl")
OF_THE_EXTRAS = ("PIL", "av", "click", "platformdirs", "rich")


def test_with_the_extras_everything_imports_without_a_warning():
    command = (sys.executable, "-X", "dev", "-W", "error", "-c")
    ran = run(*command, "import vidgen_async, vidgen_async.sandbox, vidgen_async.cli.app", cwd=ROOT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_importing_the_sdk_imports_nothing_that_only_extras_need():
    look = f"{PARTS_OF_THE_BASE}, sys; print(*sorted(set(sys.modules) & set({OF_THE_EXTRAS})))"
    assert run_well(sys.executable, "-c", look, cwd=ROOT) == "\n"


def test_importing_the_package_imports_nothing_that_a_name_of_it_does_not_need():
    look = (
        "import vidgen_async, sys; print(*(name for name in sys.modules if name.partition('.')[0] == 'vidgen_async'))"
    )
    assert run_well(sys.executable, "-c", look, cwd=ROOT) == "vidgen_async\n"
    asked = (
        f"import sys; from vidgen_async import Timeouts; print(*set(sys.modules) & set({OF_THE_EXTRAS} + ('aiohttp',)))"
    )
    assert run_well(sys.executable, "-c", asked, cwd=ROOT) == "\n"


def test_a_run_of_pytest_that_uses_no_fixture_of_the_plugin_imports_nothing_heavy_for_it(tmp_path):
    unwanted = set(OF_THE_BASE + OF_THE_EXTRAS + ("pytest_asyncio", "anyio", "asyncio", "sqlite3"))
    (tmp_path / "test_it.py").write_text(f"""
import sys
from vidgen_async.pytest_plugin import VidgenCassette

def test_it(request, pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("vidgen_async.pytest_plugin")
    assert set(sys.modules) & {unwanted} == set()
""")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "vidgen_async.pytest_plugin")
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    assert "1 passed" in run_well(*command, "test_it.py", cwd=tmp_path, **environment)


@pytest.mark.parametrize("name", vidgen_async.__all__)
def test_each_name_of_the_root_is_that_of_its_module(name):
    found = getattr(vidgen_async, name)
    assert getattr(vidgen_async, name) is found
    if inspect.isclass(found):
        assert found.__name__ == name
        assert found.__module__.startswith("vidgen_async.")
        assert pickle.loads(pickle.dumps(found)) is found  # noqa: S301 - our own class


def test_a_star_imports_exactly_the_public_names():
    names: dict[str, object] = {}
    exec("from vidgen_async import *", names)  # noqa: S102 - nothing else shows what a star does
    del names["__builtins__"]
    assert names == {name: getattr(vidgen_async, name) for name in vidgen_async.__all__}


def test_the_names_are_listed_before_any_is_asked_for():
    look = "import vidgen_async; print(set(vidgen_async.__all__) - set(dir(vidgen_async)), vidgen_async.__version__)"
    assert run_well(sys.executable, "-c", look, cwd=ROOT) == f"set() {vidgen_async.__version__}\n"


def test_a_name_that_is_spelt_wrong_is_an_attribute_error_that_suggests_the_right_one():
    with pytest.raises(AttributeError, match=r"^module 'vidgen_async' has no attribute 'Clint'$") as caught:
        vidgen_async.Clint  # noqa: B018 - the mistake
    assert (caught.value.name, caught.value.obj) == ("Clint", vidgen_async)
    with pytest.raises(ImportError, match="cannot import name 'Clint' from 'vidgen_async'"):
        exec("from vidgen_async import Clint")  # noqa: S102 - a type checker would not let it pass


@pytest.mark.parametrize("part", ["errors", "journal", "transports", "types"])
def test_a_part_of_the_package_is_there_without_an_import_of_its_own(part):
    look = f"import vidgen_async; print(vidgen_async.{part}.__name__)"
    assert run_well(sys.executable, "-c", look, cwd=ROOT) == f"vidgen_async.{part}\n"
