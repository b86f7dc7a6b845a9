"""What a run of pytest reports about cassettes."""

from typing import TYPE_CHECKING

import pytest

from vidgen_async.pytest_plugin.settings import SETTINGS

if TYPE_CHECKING:
    from vidgen_async.pytest_plugin.fixture_setup import Session

_TITLE = "vidgen cassette"
_PROPERTY = "vidgen_cassette"


def explain(report: pytest.TestReport, session: "Session", error: BaseException | None) -> None:
    """Add to the report of a failure: the requests that were not on the cassette, if their errors were caught, and the
    path of the recording."""
    if not report.failed:
        return
    misses = [miss for miss in session.misses if miss is not error]
    if misses and report.when != "teardown":
        report.sections.append((_TITLE, "\n".join(str(miss) for miss in misses)))
    if session.part is not None:
        text = f"{session.cassette.path} was not recorded; the interactions until the failure are in {session.part}"
        report.sections.append((_TITLE, text))


def summarize(report: pytest.TestReport, session: "Session") -> None:
    """Add the outcome of a recording to the report of the teardown, which may come from another process."""
    if session.recorded is not None:
        text = f"recorded {session.cassette.path} ({session.recorded} interactions)"
    elif session.part is not None:
        text = f"not recorded, as {report.nodeid} did not pass: {session.part}"
    else:
        return
    report.user_properties.append((_PROPERTY, text))


class Reporter:
    """Collects the reports of all processes of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lines: list[str] = []

    def pytest_report_header(self) -> str | None:
        settings = self._config.stash[SETTINGS]
        mode = settings.mode()
        return None if mode == "replay" else f"vidgen_async: mode {mode}, from the {settings.source}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._lines += [str(text) for name, text in report.user_properties if name == _PROPERTY]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("vidgen cassettes")
            for line in self._lines:
                terminalreporter.line(line)
