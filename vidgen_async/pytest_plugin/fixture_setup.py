"""Opens what the fixtures give. Loaded with the first test that uses a cassette."""

import os
import shlex
from pathlib import Path

import pytest
from yarl import URL

from vidgen_async.cassette import Cassette, Mode
from vidgen_async.cassette.transport_factory import is_ci, resolve_auto
from vidgen_async.client import RECOMMENDED_INTERVAL, Client
from vidgen_async.client.settings import checked_base_url, checked_key, is_on_this_machine
from vidgen_async.clock import LoopClock
from vidgen_async.errors import CassetteError, ConfigurationError
from vidgen_async.journal import MemoryJournal
from vidgen_async.pytest_plugin.cassette_handle import VidgenCassette
from vidgen_async.pytest_plugin.cassette_paths import cassettes_of, file_name
from vidgen_async.pytest_plugin.cassette_session import Session
from vidgen_async.pytest_plugin.event_loops import has_loop, stack_of
from vidgen_async.pytest_plugin.settings import SETTINGS, MarkerArguments
from vidgen_async.transports import ReplayTransport, on_cassette

#: Polling interval in seconds: a sandbox makes a video in four.
_INTERVAL_ON_THIS_MACHINE = 1.0
#: The base URL of a cassette without requests.
_NO_BASE_URL = "https://nothing-was-recorded.invalid/openapi/v1"


def open_session(request: pytest.FixtureRequest) -> Session:
    """The cassette of the test, by its markers, the options and the environment; the test fails with one sentence where
    these are invalid."""
    __tracebackhide__ = True
    try:
        session = _session(request, MarkerArguments.of(request.node))
    except (pytest.UsageError, ConfigurationError, CassetteError) as error:
        problem = f"{request.node.nodeid}: {error}"
    else:
        if has_loop(request):
            stack_of(request).push_async_callback(session.cassette.transport.aclose)
        return session
    pytest.fail(problem, pytrace=False)


def open_client(request: pytest.FixtureRequest, cassette: VidgenCassette) -> Client:
    """A client on the cassette, which is closed on the test's loop."""
    __tracebackhide__ = True
    stack = stack_of(request)
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


def _session(request: pytest.FixtureRequest, arguments: MarkerArguments) -> Session:
    cassette = Cassette(
        _path(request, arguments),
        prompts=arguments.prompts,
        secrets=arguments.secrets,
        exhausted=arguments.exhausted,
        ignore=arguments.ignore,
    )
    mode = _resolve_mode(Mode(request.config.stash[SETTINGS].mode(arguments.mode)), cassette, request)
    handle = _replay(cassette) if mode is Mode.REPLAY else _recording(cassette, mode, request)
    return Session(handle, allow_unused=arguments.allow_unused)


def _path(request: pytest.FixtureRequest, arguments: MarkerArguments) -> Path:
    item: pytest.Item = request.node
    directory = cassettes_of(item.path, request.config.stash[SETTINGS].together, request.config.rootpath)
    if arguments.name is not None:
        return directory / f"{arguments.name}.json"
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return directory / item.path.stem / file_name(".".join([*classes, item.name]))


def _resolve_mode(mode: Mode, cassette: Cassette, request: pytest.FixtureRequest) -> Mode:
    """The mode for the cassette; UsageError where there is no cassette to replay."""
    if mode is Mode.AUTO:
        mode = resolve_auto(cassette)
    if mode is Mode.REPLAY and not cassette.exists():
        where = "; nothing is recorded where CI is set" if is_ci() else ""
        message = f"there is no cassette at {_relative(cassette.path, request)}{where}. Record it: {_command(request)}"
        raise pytest.UsageError(message + _FREE_OF_CHARGE)
    return mode


#: Beside a command that records from the service.
_FREE_OF_CHARGE = " (or, for no points, with --vidgen-record-from=sandbox)"


def _command(request: pytest.FixtureRequest) -> str:
    together = request.config.getoption("vidgen_cassettes")
    more = [f"--vidgen-cassettes={together}"] if together else []
    return shlex.join(["pytest", request.node.nodeid, "--vidgen-mode=record", *more])


def _relative(path: Path, request: pytest.FixtureRequest) -> Path:
    here = request.config.invocation_params.dir
    return path.relative_to(here) if path.is_relative_to(here) else path


def _replay(cassette: Cassette) -> VidgenCassette:
    transport = ReplayTransport(cassette)
    return VidgenCassette(
        path=cassette.path,
        mode=Mode.REPLAY,
        transport=transport,
        base_url=str(transport.base_url or _NO_BASE_URL),
        api_key="any-key-will-do",
        clock=transport.clock,
    )


def _recording(cassette: Cassette, mode: Mode, request: pytest.FixtureRequest) -> VidgenCassette:
    if request.config.stash[SETTINGS].source == "sandbox":
        if mode is Mode.APPEND and cassette.exists():
            raise pytest.UsageError(
                "a new sandbox does not know the tasks of the cassette, so nothing can be appended from it; record a "
                f"new one: {_command(request)} --vidgen-record-from=sandbox"
            )
        sandbox = request.getfixturevalue("vidgen_sandbox")
        api_key, base_url = sandbox.api_key, sandbox.base_url
    else:
        api_key, base_url = _service_of_the_environment(request)
    return VidgenCassette(
        path=cassette.path,
        mode=mode,
        transport=on_cassette(cassette, mode, auto_publish=False),
        base_url=base_url,
        api_key=api_key,
        clock=LoopClock(),
    )


def _service_of_the_environment(request: pytest.FixtureRequest) -> tuple[str, str]:
    missing = [name for name in ("VIDGEN_API_KEY", "VIDGEN_BASE_URL") if not os.environ.get(name)]
    if missing:
        raise pytest.UsageError(
            f"recording from the service needs {' and '.join(missing)} in the environment, and its creates are "
            f"charged; a sandbox costs nothing: {_command(request)} --vidgen-record-from=sandbox"
        )
    return checked_key(None), str(checked_base_url(None))
