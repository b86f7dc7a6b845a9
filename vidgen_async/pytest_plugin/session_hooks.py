"""From the start of a test with a cassette to its last report. Imported and registered for the first such test."""

import sys
from collections.abc import Generator

import pytest

from vidgen_async.pytest_plugin.cassette_handle import VidgenCassette
from vidgen_async.pytest_plugin.fixture_setup import Session, open_session
from vidgen_async.pytest_plugin.reports import PROPERTY

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_TITLE = "vidgen cassette"


def start_session(request: pytest.FixtureRequest) -> VidgenCassette:
    """The cassette of the test, which this module ends and reports."""
    __tracebackhide__ = True
    manager = request.config.pluginmanager
    if not manager.has_plugin(__name__):
        manager.register(sys.modules[__name__], __name__)
    session = open_session(request)
    request.node.stash[_SESSION] = session
    return session.cassette


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    __tracebackhide__ = True
    session = item.stash.get(_SESSION, None)
    if session is None:
        yield
        return
    try:
        yield
    except BaseException:
        session.has_passed = False
        raise
    finally:
        session.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    session = item.stash.get(_SESSION, None)
    if session is not None:
        error = call.excinfo and call.excinfo.value
        if report.when == "call":
            session.record_outcome(report.outcome, error)
        _explain(report, session, error)
        if report.when == "teardown":
            _summarize(report, session)
            del item.stash[_SESSION]
    return report


def _explain(report: pytest.TestReport, session: Session, error: BaseException | None) -> None:
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


def _summarize(report: pytest.TestReport, session: Session) -> None:
    """Add the outcome of a recording to the report of the teardown, which may come from another process."""
    if session.recorded is not None:
        text = f"recorded {session.cassette.path} ({session.recorded} interactions)"
    elif session.part is not None:
        text = f"not recorded, as {report.nodeid} did not pass: {session.part}"
    else:
        return
    report.user_properties.append((PROPERTY, text))
