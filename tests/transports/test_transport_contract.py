"""The contract of every transport, and the proof that it detects a broken one."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grimp
import pytest

from tests.transports import broken_transports as broken
from tests.transports.contract_harnesses import FakeHarness, ReplayHarness, only
from vidgen_async.cassette.modes import AppendingTransport
from vidgen_async.cassette.recording import RecordingTransport
from vidgen_async.transports.base import Transport, WrappingTransport
from vidgen_async.transports.contract import Harness, TransportContract, harness
from vidgen_async.transports.contract.harness import CREATE
from vidgen_async.transports.direct.bodies import DirectResponse
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Request

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
READ = "files.upload"


@pytest.mark.usefixtures("each_path")
class TestDirect(TransportContract):
    def make_transport(self) -> Transport:
        return DirectTransport()


@only("connect", "block", "lost", "cancelled", "incomplete_body", "closing", "as_it_is_received")
class TestWrapping(TransportContract):
    """The rules that a wrapping transport can break; the others are tested with the inner one."""

    def make_transport(self) -> Transport:
        return WrappingTransport(DirectTransport())


class Plain(DirectTransport):
    """A transport with a ``send`` of its own, by which its creates are sent, too."""

    async def send(self, request: Request) -> DirectResponse:
        return await super().send(request)


class TestPlain(TransportContract):
    def make_transport(self) -> Transport:
        return Plain()


class TestFake(TransportContract):
    """Its handler plays the service."""

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        yield FakeHarness()

    # A handler ends by itself what it has begun.
    test_closing_ends_the_sends_in_progress = None
    test_closing_ends_the_bodies_that_are_incomplete = None


class Recorded(TransportContract):
    """Not a test itself: what it sends is recorded in a cassette."""

    def __init__(self, cassette: Path) -> None:
        self.cassette = cassette

    def make_transport(self) -> Transport:
        return RecordingTransport(DirectTransport(), self.cassette)

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        async with super().harness() as harness:
            self.url = harness.url
            # Where a rule sends nothing, the cassette must have something that could be played back.
            async with harness.send(harness.request()) as response:
                await response.read()
            harness.received.clear()
            yield harness


class TestRecording(TransportContract):
    @pytest.fixture(autouse=True)
    def beside(self, tmp_path: Path) -> None:
        self.path = tmp_path / "cassette.json"

    def make_transport(self) -> Transport:
        return RecordingTransport(DirectTransport(), self.path)


@only("connect", "block", "lost", "cancelled", "incomplete_body", "closing", "as_it_is_received", "no_status", "leaves")
class TestAppending(TestRecording):
    """What is sent is recorded as above; these rules are about what comes before."""

    def make_transport(self) -> Transport:
        return AppendingTransport(DirectTransport(), self.path)


class TestReplay(TransportContract):
    """Each rule is recorded first, with the service itself, and must then hold for what is played back."""

    @pytest.fixture(autouse=True)
    async def recorded_first(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.recorded = Recorded(tmp_path / "cassette.json")
        spec = getattr(request.node, "callspec", None)
        await getattr(self.recorded, request.node.originalname)(**(spec.params if spec else {}))

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        harness = ReplayHarness(self.recorded.cassette, self.recorded.url)
        yield harness
        await harness.transport.aclose()
        assert harness.transport.misses == []


# -- the proof that it detects violations ------------------------------------------------------------------------------

IN_TWO_STEPS = "test_connect_sends_nothing_and_its_connection_sends_once"
IN_THE_BLOCK = "test_what_is_raised_in_the_block_is_raised_unchanged_and_nothing_is_sent"
REFUSED = "test_a_refused_connection_is_a_transport_error"
LOST = "test_a_lost_connection_is_one_request_that_may_have_arrived"
EARLY = "test_a_body_is_returned_as_it_is_received"

#: Each with the rule that it breaks, the operation by which the rule is tested, and the message.
BROKEN = [
    (broken.IsNoTransport, "test_it_is_a_transport", None, "derives from Transport"),
    (broken.SendsInConnect, IN_TWO_STEPS, None, r"connect\(\) sends nothing"),
    (broken.SendsAsOftenAsItIsCalled, IN_TWO_STEPS, None, "DID NOT RAISE.*RuntimeError"),
    (broken.LeavesItsConnectionOpen, IN_THE_BLOCK, None, "a create that was not sent must be closed"),
    (broken.SwallowsWhatIsRaisedInTheBlock, IN_THE_BLOCK, None, "is raised unchanged"),
    (
        broken.SwallowsCancellation,
        "test_a_create_that_is_cancelled_before_it_is_sent_sends_nothing",
        None,
        "ends as cancelled",
    ),
    (broken.ClaimsThatConnectSends, REFUSED, CREATE, "send nothing, and its errors state that"),
    (broken.TriesAgain, LOST, CREATE, "GET /dropped: one send is one request"),
    (
        broken.FollowsRedirects,
        "test_no_status_is_raised_followed_or_retried",
        READ,
        r"(?s)GET /found: .*200.* == .*302",
    ),
    (broken.WaitsForTheBody, EARLY, READ, "send.* for /slow must return or raise; it has not within 0.2 s"),
    (
        broken.EndsBrokenBodies,
        "test_an_incomplete_body_is_a_body_error_with_what_was_received",
        CREATE,
        "an incomplete body must end with a BodyError",
    ),
    (broken.LosesHeaders, "test_headers_that_are_received_twice_are_returned_twice", None, "10;w=1"),
    (broken.RaisesWhatItLikes, REFUSED, CREATE, "^the transport raised OSError instead of a TransportError"),
    (broken.TakesEvidenceBack, LOST, CREATE, "GET /dropped: the service may have received it"),
    (broken.OutlivesItsClosing, "test_after_closing_a_send_is_refused", READ, "must raise a TransportError"),
]


async def follow(kind: type[broken.Faultless], rule: str, op: str | None) -> None:
    class Contract(TransportContract):
        def make_transport(self) -> Transport:
            return kind()

    await getattr(Contract(), rule)(*[op] * (op is not None))


@pytest.mark.parametrize(("kind", "rule", "op", "message"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
async def test_a_broken_transport_fails_the_test_of_the_rule_that_it_breaks(
    kind: type[broken.Faultless], rule: str, op: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind in (broken.WaitsForTheBody, broken.LeavesItsConnectionOpen):
        monkeypatch.setattr(harness, "TIME_LIMIT", 0.2)
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        await follow(kind, rule, op)


@pytest.mark.parametrize(("rule", "op"), {case[1]: case[2] for case in BROKEN}.items())
async def test_the_transport_that_they_are_based_on_passes_these_tests(rule: str, op: str | None) -> None:
    await follow(broken.Faultless, rule, op)


# -- the promises about it ---------------------------------------------------------------------------------------------


async def test_a_contract_without_a_transport_names_what_is_missing() -> None:
    class Contract(TransportContract):
        pass

    with pytest.raises(NotImplementedError, match=r"^Contract has neither a make_transport\(\) nor a harness\(\)$"):
        await Contract().test_an_empty_body_has_no_chunks()


def test_nothing_else_of_the_package_imports_it() -> None:
    graph = grimp.build_graph("vidgen_async")
    family = {name for name in graph.modules if "contract" in name}
    assert {importer for name in family for importer in graph.find_modules_that_directly_import(name)} <= family


PROJECT = """\
from contextlib import asynccontextmanager
from vidgen_async.transports import Connection, DirectTransport
from vidgen_async.transports.contract import TransportContract

class Early(DirectTransport):
    @asynccontextmanager
    async def connect(self, request):
        async def respond():
            return response

        response = await self.send(request)
        yield Connection(respond)

class TestDirect(TransportContract):
    def make_transport(self):
        return DirectTransport()

class TestEarly(TransportContract):
    def make_transport(self):
        return Early()
"""

PYTEST_ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")


@pytest.mark.parametrize(
    "plugins",
    [ANYIO, (*ANYIO, *PYTEST_ASYNCIO), (*ANYIO, *PYTEST_ASYNCIO, "-o", "anyio_mode=auto")],
    ids=["anyio", "both, strict", "both, anyio's in auto mode"],
)
def test_it_runs_in_another_project(plugins: tuple[str, ...], tmp_path: Path) -> None:
    # pytest-asyncio in its auto mode is what runs this very suite.
    (tmp_path / "test_transports.py").write_text(PROJECT)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n")
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *plugins,
        "-k",
        "sends_nothing_and or no_status",
    )
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_ADDOPTS", None)

    ran = subprocess.run(  # noqa: S603 - our own command
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )

    assert re.search(r"^1 failed, 5 passed, \d+ deselected in", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr
    # What was compared is shown: asserts are rewritten there too.
    assert "AssertionError: connect() sends nothing" in ran.stdout
    assert "Left contains one more item: ReceivedRequest(method='POST', path='/short', body=b'{}')" in ran.stdout
