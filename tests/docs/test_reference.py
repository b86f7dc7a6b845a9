"""The reference is complete: each public name and each environment variable has its entry. The pages have the numbers
of the code."""

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers
from types import ModuleType

import vidgen_async
from tests.docs.documentation import PAGES, ROOT
from vidgen_async import errors
from vidgen_async.service.status_rules import _RULES
from vidgen_async.types.limits import PAUSE_WITHOUT_RETRY_AFTER
from vidgen_async.types.orders import AttemptOutcome

DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)(?:\(\))?$", re.MULTILINE)


def documented() -> Iterator[object]:
    """The objects that have an entry."""
    module: ModuleType = vidgen_async
    for page, text in PAGES.items():
        if page.startswith("docs/reference/api/"):
            for directive, name in DIRECTIVE.findall(text):
                if directive == "currentmodule":
                    module = import_module(name)
                elif directive == "automodule":
                    yield from (value for _, value in public(import_module(name)))
                else:
                    yield getattr(module, name)


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The public names of a module, with their values."""
    names = getattr(module, "__all__", None)
    for name, value in getmembers(module):
        if name in names if names is not None else getattr(value, "__module__", None) == module.__name__:
            yield name, value


def test_every_public_name_is_in_the_reference():
    found = {id(value) for value in documented()}
    modules = [
        vidgen_async,
        *(import_module(f"vidgen_async.{name}") for name in vidgen_async._MODULES if name != "clock"),
    ]
    missing = [
        f"{module.__name__}.{name}" for module in modules for name, value in public(module) if id(value) not in found
    ]
    assert missing == []


def test_every_environment_variable_is_among_the_settings():
    sources = (path.read_text() for path in (ROOT / "vidgen_async").rglob("*.py"))
    variables = {name for source in sources for name in re.findall(r"\bVIDGEN_[A-Z_]+[A-Z]\b", source)}
    assert len(variables) > 5
    assert [name for name in sorted(variables) if f"`{name}`" not in PAGES["docs/reference/settings.md"]] == []


def charge_of(kind: type[errors.VidgenError]) -> str:
    """Whether a call that raises this error, or the task that it is about, has cost points."""
    if kind in (errors.VidgenError, errors.CreateError):
        return "see the subclass"
    if issubclass(kind, errors.CassetteSecretError):
        return "see the request"  # it was answered before the cassette was checked
    if issubclass(kind, errors.UncertainCreateError | errors.StillSendingError):
        return "unknown"
    if issubclass(kind, errors.TaskFailedError):
        return "yes, perhaps refunded"
    charged = (errors.ReceiptNotStoredError, errors.WaitTimeoutError, errors.DownloadError)
    return "yes" if issubclass(kind, charged) else "no"


def test_the_error_tree_has_each_class_in_its_place_with_its_charge_and_may_retry():
    rows = re.findall(
        r"^\| ((?:\u2013 )*)`(\w+)` \| [^|]+ \| ([^|]+) \| (yes|no) \| [^|]+ \|$",
        PAGES["docs/reference/errors.md"],
        re.MULTILINE,
    )
    assert len({name for _, name, *_ in rows}) == len(rows)
    assert {name for _, name, *_ in rows} == {name for name, _ in public(errors) if name.endswith("Error")}
    parents = ["VidgenError"]
    for dashes, name, charged, may_retry in rows:
        kind, depth = getattr(errors, name), len(dashes) // 2
        del parents[depth + 1 :]
        assert issubclass(kind, getattr(errors, parents[depth])), name
        assert kind.may_retry is (may_retry == "yes"), name
        assert charged.strip("*") == charge_of(kind), name
        parents.append(name)


def read_statuses(text: str) -> set[int]:
    """The statuses in a sentence, such as "400 to 402, and 429"."""
    ranges = re.findall(r"\b(\d{3})(?: to (\d{3}))?\b", text)
    return {status for first, last in ranges for status in range(int(first), int(last or first) + 1)}


def test_the_statuses_that_reject_a_create_are_listed():
    rules = {status: rule for status, rule in _RULES.items() if rule.create is AttemptOutcome.REJECTED}
    (sentence,) = re.findall(
        r"Only these statuses count as \*rejected\*: ([^.]*)\.", PAGES["docs/explanation/delivery-evidence.md"]
    )
    assert read_statuses(sentence) == set(rules)

    docstring = errors.RejectedUnexpectedResponseError.__doc__ or ""
    without_class = {status for status, rule in rules.items() if rule.error is errors.UnexpectedResponseError}
    assert read_statuses(docstring.partition(" for a create")[0]) == without_class


def test_the_pause_after_a_429_without_retry_after_is_that_of_the_code():
    page = " ".join(PAGES["docs/how-to/creates.md"].split())
    pauses = re.findall(r"`Retry-After`[^.]*for (\S+) seconds if it has none", page)
    assert pauses == [f"{PAUSE_WITHOUT_RETRY_AFTER:g}"]
