"""What a run of pytest reports about cassettes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

if TYPE_CHECKING:
    from vidgen_async.pytest_plugin.settings import Settings

#: The name of the property in a report of a test: the outcome of a recording.
PROPERTY = "vidgen_cassette"


class Reporter:
    """Holds the settings of the run, and collects the reports of all its processes."""

    NAME: ClassVar[str] = f"{__name__}.Reporter"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lines: list[str] = []

    def pytest_report_header(self) -> str | None:
        try:
            mode = self.settings.mode()
        except pytest.UsageError as error:
            return f"vidgen_async: {error}"
        return None if mode == "replay" else f"vidgen_async: mode {mode}, from the {self.settings.source}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._lines += [str(text) for name, text in report.user_properties if name == PROPERTY]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("vidgen cassettes")
            for line in self._lines:
                terminalreporter.line(line)


def settings_of(config: pytest.Config) -> Settings:
    """The settings of the run."""
    reporter = config.pluginmanager.get_plugin(Reporter.NAME)
    assert isinstance(reporter, Reporter)  # noqa: S101 - registered by pytest_configure
    return reporter.settings
