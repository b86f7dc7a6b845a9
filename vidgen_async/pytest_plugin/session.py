"""The cassette of a test, from setup to the last report. Imported and registered for the first test that uses one."""

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from attrs import mutable
from yarl import URL

from vidgen_async import Client
from vidgen_async.cassette import Cassette, Mode
from vidgen_async.cassette.modes import resolve_auto
from vidgen_async.client import RECOMMENDED_INTERVAL
from vidgen_async.client.settings import checked_base_url, checked_key, make_transport
from vidgen_async.clock import LoopClock
from vidgen_async.errors import CassetteBusyError, CassetteError, ConfigurationError
from vidgen_async.journal import MemoryJournal
from vidgen_async.pytest_plugin import VidgenCassette
from vidgen_async.pytest_plugin.event_loops import get_on_loop, loop_of
from vidgen_async.pytest_plugin.settings import directory_of, marker_arguments, mode_of, source_of
from vidgen_async.transports import RecordingTransport, ReplayTransport, is_on_this_machine, on_cassette

#: Polling interval in seconds: a sandbox makes a video in four.
_INTERVAL_ON_THIS_MACHINE = 1.0
#: The base URL of a cassette without requests.
_NO_BASE_URL = "https://nothing-was-recorded.invalid/openapi/v1"
#: Longer names are cut: with their suffixes they are valid where file names have at most 143 bytes.
LONGEST = 100

_SESSION: "pytest.StashKey[Session]" = pytest.StashKey()
_TITLE = "vidgen cassette"

# Some file systems ignore the case of letters; upper case is common in names of classes, and accepted there.
_PLAIN = re.compile(r"[A-Za-z0-9_.]+(\[[a-z0-9_.,=+@()\[\]-]*\])?")
_OTHER = re.compile(r"[^A-Za-z0-9_.,=+@()\[\]-]+")


@mutable(eq=False)
class Session:
    """The cassette of a running test."""

    cassette: VidgenCassette
    allow_unused: bool
    has_passed: bool = False


def start_session(request: pytest.FixtureRequest) -> VidgenCassette:
    """The cassette of the test, which this module ends and reports; the test fails if its settings are invalid."""
    __tracebackhide__ = True
    manager = request.config.pluginmanager
    if not manager.has_plugin(__name__):
        manager.register(sys.modules[__name__], __name__)
    try:
        session = _session(request)
    except (pytest.UsageError, ConfigurationError, CassetteError) as error:
        problem = f"{request.node.nodeid}: {error}"
    else:
        if loop_of(request) is not None:
            get_on_loop(request, "stack").push_async_callback(session.cassette.transport.aclose)
        request.node.stash[_SESSION] = session
        return session.cassette
    pytest.fail(problem, pytrace=False)


def open_client(request: pytest.FixtureRequest, cassette: VidgenCassette) -> Client:
    """A client on the cassette, which is closed on the test's loop."""
    __tracebackhide__ = True
    stack = get_on_loop(request, "stack")
    is_here = is_on_this_machine(URL(cassette.base_url))
    client = Client(
        cassette.api_key,
        base_url=cassette.base_url,
        transport=cassette.transport,
        journal=MemoryJournal(),
        poll_interval=_INTERVAL_ON_THIS_MACHINE if is_here else RECOMMENDED_INTERVAL,
    )
    stack.push_async_callback(client.aclose)
    return client


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
        _end(session)


def _end(session: Session) -> None:
    """Check a replay, or publish a recording, if the test has passed."""
    transport = session.cassette.transport
    if isinstance(transport, RecordingTransport):
        try:
            if session.has_passed:
                transport.publish()
        finally:
            if not transport.is_published:
                transport.give_up()
    elif session.has_passed:
        transport.check(allow_unused=session.allow_unused)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    session = item.stash.get(_SESSION, None)
    if session is not None:
        error = call.excinfo and call.excinfo.value
        if report.when == "call":
            session.has_passed = report.outcome == "passed"
        if report.outcome != "passed":
            _explain(report, session, error)
        if report.when == "teardown":
            del item.stash[_SESSION]
    return report


def _explain(report: pytest.TestReport, session: Session, error: BaseException | None) -> None:
    """Add to the report of a test that did not pass the misses whose errors were caught, or the recording's path."""
    transport = session.cassette.transport
    if isinstance(transport, ReplayTransport):
        misses = [str(miss) for miss in transport.misses if miss is not error]
        if misses and report.when != "teardown":
            report.sections.append((_TITLE, "\n".join(misses)))
    elif not isinstance(error, CassetteBusyError) and not transport.is_published and transport.part.exists():
        text = f"{transport.cassette.path} was not recorded; the finished interactions are in {transport.part}"
        report.sections.append((_TITLE, text))


def _session(request: pytest.FixtureRequest) -> Session:
    arguments = marker_arguments(request.node)
    allow_unused = arguments.pop("allow_unused", False)
    mode = Mode.named(mode_of(request.config, arguments.pop("mode", None)))
    cassette = Cassette(_path(request, arguments.pop("name", None)), **arguments)
    mode = _resolve_mode(mode, cassette, request)
    transport: ReplayTransport | RecordingTransport
    if mode is Mode.REPLAY:
        transport = ReplayTransport(cassette)
        api_key, base_url = "any-key-will-do", str(transport.base_url or _NO_BASE_URL)
    else:
        api_key, base_url = _service(cassette, mode, request)
        transport = on_cassette(cassette, mode, live=lambda: make_transport(URL(base_url)), auto_publish=False)
    handle = VidgenCassette(
        path=cassette.path,
        mode=mode,
        transport=transport,
        base_url=base_url,
        api_key=api_key,
        clock=transport.clock or LoopClock(),
    )
    return Session(handle, allow_unused=allow_unused)


def _path(request: pytest.FixtureRequest, name: str | None) -> Path:
    item: pytest.Item = request.node
    directory = cassettes_of(item.path, directory_of(request.config), request.config.rootpath)
    if name is not None:
        return directory / f"{name}.json"
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return directory / item.path.stem / file_name(".".join([*classes, item.name]))


def _resolve_mode(mode: Mode, cassette: Cassette, request: pytest.FixtureRequest) -> Mode:
    """The mode for the cassette; UsageError where there is no cassette to replay."""
    why = ""
    if mode is Mode.AUTO:
        mode, why = resolve_auto(cassette)
    if mode is Mode.REPLAY and not cassette.exists():
        path, here = cassette.path, request.config.invocation_params.dir
        path = path.relative_to(here) if path.is_relative_to(here) else path
        raise pytest.UsageError(
            f"there is no cassette at {path}{why}. Record it: {_command(request)} "
            "(or, for no points, with --vidgen-record-from=sandbox)"
        )
    return mode


def _command(request: pytest.FixtureRequest) -> str:
    together = request.config.getoption("vidgen_cassettes")
    more = [f"--vidgen-cassettes={together}"] if together else []
    return shlex.join(["pytest", request.node.nodeid, "--vidgen-mode=record", *more])


def _service(cassette: Cassette, mode: Mode, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The API key and the base URL of what is recorded."""
    if source_of(request.config) == "sandbox":
        if mode is Mode.APPEND and cassette.exists():
            raise pytest.UsageError(
                "a new sandbox does not know the tasks of the cassette, so nothing can be appended from it; record a "
                f"new one: {_command(request)} --vidgen-record-from=sandbox"
            )
        sandbox = request.getfixturevalue("vidgen_sandbox")
        return sandbox.api_key, sandbox.base_url
    missing = [name for name in ("VIDGEN_API_KEY", "VIDGEN_BASE_URL") if not os.environ.get(name)]
    if missing:
        raise pytest.UsageError(
            f"recording from the service needs {' and '.join(missing)} in the environment, and its creates are "
            f"charged; a sandbox costs nothing: {_command(request)} --vidgen-record-from=sandbox"
        )
    return checked_key(None), str(checked_base_url(None))


def file_name(test: str) -> str:
    """The file for a test named ``Class.test[param]``; a digest is added to a name that is too long or not plain."""
    if len(test) <= LONGEST and _PLAIN.fullmatch(test):
        return f"{test}.json"
    digest = hashlib.sha256(test.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{_OTHER.sub('_', test)[:LONGEST]}-{digest}.json"


def cassettes_of(test_file: Path, together: Path | None, root: Path) -> Path:
    """The directory of cassettes for a test file: ``cassettes`` beside it, or its own directory below ``together``."""
    if together is None:
        return test_file.parent / "cassettes"
    below = test_file.parent.relative_to(root) if test_file.is_relative_to(root) else test_file.parent
    return together.joinpath(*below.parts[1:] if below.is_absolute() else below.parts)
