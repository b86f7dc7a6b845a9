"""The settings of the command line, the environment and the markers, in this order of precedence."""

import os
import re
from dataclasses import dataclass  # attrs would be imported at the start of every run of pytest
from pathlib import Path
from typing import Any, Self

import pytest

MODES = ("replay", "record", "append", "auto")
MODE_VARIABLE = "VIDGEN_CASSETTE_MODE"
MARKER = "vidgen_cassette"
SETTINGS: "pytest.StashKey[Settings]" = pytest.StashKey()

_ARGUMENTS = ("name", "mode", "exhausted", "prompts", "ignore", "secrets", "allow_unused")
_MARKER_HELP = (
    f"{MARKER}(*, name, mode, exhausted, prompts, ignore, secrets, allow_unused=False): how the cassette of this test "
    "is named, recorded and replayed; of several markers, the closest one is used for each argument. name: a "
    "path below the directory of cassettes, for tests that share one; mode: replay, record, append or auto; "
    "exhausted, prompts, ignore, secrets: as for vidgen_async.cassette.Cassette; allow_unused: some "
    "interactions may be unused."
)


def add_settings(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("vidgen", "cassettes of vidgen_async")
    group.addoption(
        "--vidgen-mode",
        choices=MODES,
        help="replay: cassettes only, no network (the default); record: record a new cassette; append: replay, and "
        "record what is missing; auto: record where there is no cassette, but never where CI is set. "
        f"Takes precedence over {MODE_VARIABLE} and the marker's mode.",
    )
    group.addoption(
        "--vidgen-cassettes",
        metavar="DIR",
        help="one directory for all cassettes, instead of a directory `cassettes` beside each test file",
    )
    group.addoption(
        "--vidgen-record-from",
        choices=("service", "sandbox"),
        default="service",
        help="service: record from VIDGEN_BASE_URL with VIDGEN_API_KEY, where creates are charged (the default); "
        "sandbox: from a sandbox on this machine, which costs nothing",
    )


@dataclass(frozen=True)
class Settings:
    """The settings of the whole run."""

    override: str | None
    """The mode of the command line or of the environment, which takes precedence over the markers."""
    together: Path | None
    """The directory for all cassettes."""
    source: str

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        config.addinivalue_line("markers", _MARKER_HELP)
        variable = os.environ.get(MODE_VARIABLE) or None
        if variable not in (None, *MODES):
            raise pytest.UsageError(
                f"{MODE_VARIABLE} is {variable!r}: it must be {', '.join(MODES[:-1])} or {MODES[-1]}"
            )
        together = config.getoption("vidgen_cassettes")
        return cls(
            override=config.getoption("vidgen_mode") or variable,
            together=Path(config.invocation_params.dir, together) if together else None,
            source=config.getoption("vidgen_record_from"),
        )

    def mode(self, marker_mode: str | None = None) -> str:
        """The mode of a test; ``marker_mode`` is that of its markers."""
        return self.override or marker_mode or "replay"


def marker_arguments(item: pytest.Item) -> dict[str, Any]:
    """The arguments of the markers of a test; UsageError names one that is unknown. Cassette checks its own."""
    given: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(
                f"the marker {MARKER} takes arguments by name only, such as name=…; it was given {marker.args!r}"
            )
        given |= marker.kwargs
    for argument in given:
        if argument not in _ARGUMENTS:
            raise pytest.UsageError(f"the marker {MARKER} has no argument {argument!r}; it has {', '.join(_ARGUMENTS)}")
    if "name" in given and not is_name(given["name"]):
        raise pytest.UsageError(
            f"the marker {MARKER} takes as 'name' a relative path of plain words, such as \"orders/one\", not "
            f"{given['name']!r}"
        )
    return given


def is_name(name: object) -> bool:
    """Whether it is a valid name of a cassette: a relative path of plain words."""
    words = name.split("/") if isinstance(name, str) else [""]
    return all(re.fullmatch(r"[\w.,=+@()\[\]-]+", word) and word.strip(".") for word in words)
