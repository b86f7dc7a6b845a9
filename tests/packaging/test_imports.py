"""What an import brings along, in the environment of the tests, where every extra is installed."""

import ast
import inspect
import json
import pickle
import re
import sys
import textwrap
from types import ModuleType

import pytest

import vidgen_async

from .conftest import PARTS_OF_THE_BASE, ROOT, run, run_well

OF_THE_BASE = ("aiohttp", "attr", "attrs", "cattr", "cattrs", "yarl")
PARTS = ("errors", "journal", "transports", "types")
OF_THE_EXTRAS = ("PIL", "av", "click", "platformdirs", "psycopg", "rich")


@pytest.mark.slow
def test_with_the_extras_everything_imports_without_a_warning():
    command = (sys.executable, "-X", "dev", "-W", "error", "-c")
    ran = run(*command, "import vidgen_async, av, vidgen_async.sandbox, vidgen_async.cli.app", cwd=ROOT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


#: Each stage of one process, and which modules of the package and of others are there when it is over.
STAGES = f"""
import json, sys, vidgen_async

def there(names):
    return sorted(set(sys.modules) & set(names))

package = [name for name in sys.modules if name.partition('.')[0] == 'vidgen_async']
unlisted = sorted(set(vidgen_async.__all__) - set(dir(vidgen_async)))
print(json.dumps([package, unlisted, vidgen_async.__version__]))

from vidgen_async import Timeouts
print(json.dumps(there({(*OF_THE_EXTRAS, "aiohttp")})))

{PARTS_OF_THE_BASE}
print(json.dumps(there({OF_THE_EXTRAS})))

for part in {PARTS}:
    for name in [name for name in sys.modules if name.partition('.')[0] == 'vidgen_async']:
        del sys.modules[name]
    import vidgen_async
    print(json.dumps(getattr(vidgen_async, part).__name__))
"""


@pytest.mark.slow
def test_each_import_brings_along_what_it_needs_and_nothing_else():
    package, small, base, *parts = map(json.loads, run_well(sys.executable, "-c", STAGES, cwd=ROOT).splitlines())
    assert package == [["vidgen_async"], [], vidgen_async.__version__], "names are listed before any is asked for"
    assert small == [], "a name brings its own module along"
    assert base == [], "the SDK needs no extra"
    assert parts == [f"vidgen_async.{part}" for part in PARTS], "a part is there without an import of its own"


#: What not every program needs, or not before the first answer or error.
NOT_FOR_A_NEW_CLIENT = {
    "cattrs", "sqlite3", "vidgen_async.cassette", "vidgen_async.cli", "vidgen_async.journal.sqlite",
    "vidgen_async.media",
    "vidgen_async.otel", "vidgen_async.redaction.named_values", "vidgen_async.redaction.secret_names",
    "vidgen_async.sandbox", "vidgen_async.service.request_checks", *OF_THE_EXTRAS,
}  # fmt: skip
#: What is imported when the first client is made.
NOT_FOR_THE_CLASS = {
    "vidgen_async.client.videos", "vidgen_async.client.views", "vidgen_async.journal", "vidgen_async.orders",
    "vidgen_async.service.codec", "vidgen_async.types.orders", "vidgen_async.watcher",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("Client", NOT_FOR_A_NEW_CLIENT | NOT_FOR_THE_CLASS),
        ("Client('sk-4fb1c2a09d7e', base_url='https://service.test/openapi/v1')", NOT_FOR_A_NEW_CLIENT),
    ],
    ids=["the class", "a new client"],
)
def test_a_client_has_imported_nothing_that_it_does_not_need_yet(statement, unwanted):
    program = f"import json, sys; from vidgen_async import Client; {statement}; print(json.dumps(list(sys.modules)))"
    modules = json.loads(run_well(sys.executable, "-c", program, cwd=ROOT))
    assert unwanted & set(modules) == set()


@pytest.mark.slow
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


def test_the_plugin_uses_nothing_of_pytest_when_it_is_imported_that_an_old_pytest_does_not_have():
    program = """
import sys
from types import SimpleNamespace
sys.modules["pytest"] = SimpleNamespace(fixture=lambda function: function)
import vidgen_async.pytest_plugin as plugin
print(plugin.pytest_configure.__name__)
"""
    assert run_well(sys.executable, "-c", program, cwd=ROOT) == "pytest_configure\n"


def test_each_name_of_the_root_is_that_of_its_module():
    names = {name: getattr(vidgen_async, name) for name in vidgen_async.__all__}
    assert {name for name, found in names.items() if getattr(vidgen_async, name) is not found} == set()
    classes = {name: found for name, found in names.items() if inspect.isclass(found)}
    assert {name for name, found in classes.items() if found.__name__ != name} == set()
    assert {name for name, found in classes.items() if not found.__module__.startswith("vidgen_async.")} == set()
    pickled = {name: pickle.loads(pickle.dumps(found)) for name, found in classes.items()}  # noqa: S301 - our own
    assert pickled == classes
    assert len(classes) > 30


def test_completion_shows_public_names_only():
    modules = {"blocking", "cassette", "clock", "errors", "journal", "otel", "pytest_plugin"}
    modules |= {"sandbox", "transports", "types"}
    assert dir(vidgen_async) == sorted({*vidgen_async.__all__, *modules, "__version__"})
    assert dir(vidgen_async.types) == sorted(vidgen_async.types.__all__)
    # Some tools read the names of the module itself.
    names = run_well(sys.executable, "-c", "import vidgen_async; print(*vars(vidgen_async))", cwd=ROOT).split()
    assert [name for name in names if not name.startswith("_")] == []


def _own_names(module: ModuleType) -> set[str]:
    """The names of classes and types that a module defines, or imports from the package."""
    tree = ast.parse(inspect.getsource(module))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {alias.name for node in imports if str(node.module).startswith("vidgen_async") for alias in node.names}
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    aliases = {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    return imported | classes | aliases


def _named(cls: type, *, with_init: bool) -> set[str]:
    """The names in the annotations of the public methods and attributes of a class."""
    found: list[ast.AST | None] = []
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_") or (with_init and node.name == "__init__"):
                of = node.args
                arguments = (*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg)
                found += [node.returns, *(argument.annotation for argument in arguments if argument is not None)]
        elif isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).removeprefix("self.").startswith("_"):
            found.append(node.annotation)
    # An annotation may be quoted.
    texts = " ".join(ast.unparse(annotation) for annotation in found if annotation is not None)
    return set(re.findall(r"\w+", texts))


@pytest.mark.slow
def test_all_that_a_signature_names_is_importable_from_the_root_or_from_types():
    of_root, of_types = set(vidgen_async.__all__), set(vidgen_async.types.__all__)
    private: dict[str, set[str]] = {}
    for name in of_root | of_types:
        cls = getattr(vidgen_async if name in of_root else vidgen_async.types, name)
        if inspect.isclass(cls) and cls.__module__.startswith("vidgen_async"):
            # What users do not make themselves may be made of private objects.
            names = _named(cls, with_init=name in of_root) & _own_names(sys.modules[cls.__module__])
            private[name] = names - of_root - of_types
    assert {name: names for name, names in private.items() if names} == {}
    assert "OnReceipt" in _named(vidgen_async.types.Videos, with_init=False)
    assert _named(vidgen_async.Client, with_init=True) >= {"Journal", "OnUpdate", "Videos", "Watcher"}


def test_a_star_imports_exactly_the_public_names():
    names: dict[str, object] = {}
    exec("from vidgen_async import *", names)  # noqa: S102 - nothing else shows what a star does
    del names["__builtins__"]
    assert names == {name: getattr(vidgen_async, name) for name in vidgen_async.__all__}


def test_a_name_that_is_spelt_wrong_is_an_attribute_error_that_suggests_the_right_one():
    with pytest.raises(AttributeError, match=r"^module 'vidgen_async' has no attribute 'Clint'$") as caught:
        vidgen_async.Clint  # noqa: B018 - the mistake
    assert (caught.value.name, caught.value.obj) == ("Clint", vidgen_async)
    with pytest.raises(ImportError, match="cannot import name 'Clint' from 'vidgen_async'"):
        exec("from vidgen_async import Clint")  # noqa: S102 - a type checker would not let it pass
