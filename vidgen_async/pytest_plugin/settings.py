"""The settings of the command line, the environment, the markers and the ini file, in this order of precedence."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

MODES = ("replay", "record", "append", "auto")
SOURCES = ("service", "sandbox")
MODE_VARIABLE = "VIDGEN_CASSETTE_MODE"
MARKER = "vidgen_cassette"
_ARGUMENTS = ("name", "mode", "exhausted", "prompts", "ignore", "secrets", "allow_unused")

#: What ``pytest --markers`` shows.
MARKER_HELP = (
    f"{MARKER}(*, name, mode, exhausted, prompts, ignore, secrets, allow_unused=False): how the cassette of this test "
    "is named, recorded and replayed; of several markers, the closest one is used for each argument. name: a "
    "path below the directory of cassettes, for tests that share one; mode: replay, record, append or auto; "
    "exhausted, prompts, ignore, secrets: as for vidgen_async.cassette.Cassette; allow_unused: some "
    "interactions may be unused."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and ini values of this plugin."""
    group = parser.getgroup("vidgen", "cassettes of vidgen_async")
    group.addoption(
        "--vidgen-mode",
        choices=MODES,
        help="replay: cassettes only, no network (the default); record: record a new cassette; append: replay, and "
        "record what is missing; auto: record where there is no cassette, but never on a CI system. "
        f"Takes precedence over {MODE_VARIABLE}, the marker's mode and the ini value vidgen_mode.",
    )
    group.addoption(
        "--vidgen-cassettes",
        metavar="DIR",
        help="one directory for all cassettes, instead of a directory `cassettes` beside each test file",
    )
    group.addoption(
        "--vidgen-record-from",
        choices=SOURCES,
        help="service: record from VIDGEN_BASE_URL with VIDGEN_API_KEY, where creates are charged (the default); "
        "sandbox: from a sandbox on this machine, which costs nothing",
    )
    parser.addini("vidgen_mode", "as --vidgen-mode, where nothing else sets it", default="")
    parser.addini("vidgen_cassettes", "as --vidgen-cassettes, relative to the directory of the ini file", default="")
    parser.addini("vidgen_record_from", "as --vidgen-record-from", default="")


def mode_of(config: pytest.Config, marker_mode: str | None = None) -> str:
    """The mode of a test; ``marker_mode`` is that of its markers. UsageError if the environment has an invalid one."""
    variable = _check_choice(MODE_VARIABLE, os.environ.get(MODE_VARIABLE), MODES)
    return config.getoption("vidgen_mode") or variable or marker_mode or ini_choice(config, "vidgen_mode") or "replay"


def source_of(config: pytest.Config) -> str:
    """What is recorded: the service or a sandbox."""
    return config.getoption("vidgen_record_from") or ini_choice(config, "vidgen_record_from") or "service"


def ini_choice(config: pytest.Config, name: str) -> str:
    """The ini value, empty if there is none; UsageError for an unknown one."""
    return _check_choice(name, config.getini(name), MODES if name == "vidgen_mode" else SOURCES)


def _check_choice(setting: str, value: str | None, known: tuple[str, ...]) -> str:
    if value and value not in known:
        raise pytest.UsageError(f"{setting} is {value!r}: it must be {', '.join(known[:-1])} or {known[-1]}")
    return value or ""


def directory_of(config: pytest.Config) -> Path | None:
    """The directory for all cassettes, if they have one."""
    option, ini = config.getoption("vidgen_cassettes"), config.getini("vidgen_cassettes")
    if option:
        return Path(config.invocation_params.dir, option)
    return Path(config.inipath.parent if config.inipath else config.rootpath, ini) if ini else None


def marker_arguments(item: pytest.Item) -> dict[str, Any]:
    """The arguments of the markers of a test; UsageError names one that is unknown, and an invalid name."""
    given: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(
                f"the marker {MARKER} takes arguments by name only, such as name=…; it was given {marker.args!r}"
            )
        given |= marker.kwargs
    for argument in given.keys() - set(_ARGUMENTS):
        raise pytest.UsageError(f"the marker {MARKER} has no argument {argument!r}; it has {', '.join(_ARGUMENTS)}")
    if "name" in given and not is_name(given["name"]):
        wanted = 'a relative path of plain words, such as "orders/one"'
        raise pytest.UsageError(f"the marker {MARKER} takes as 'name' {wanted}, not {given['name']!r}")
    return given


def is_name(name: object) -> bool:
    """Whether it is a valid name of a cassette: a relative path of plain words."""
    words = name.split("/") if isinstance(name, str) else [""]
    return all(re.fullmatch(r"[\w.,=+@()\[\]-]+", word) and word.strip(".") for word in words)
