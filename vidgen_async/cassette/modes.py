"""The transport for each mode of a cassette; that of ``append`` replays what is on it, and records the rest."""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from attrs import evolve

from vidgen_async.cassette.recorder import Recorder
from vidgen_async.cassette.recording import InteractionRecorder, RecordingTransport
from vidgen_async.cassette.replay import ReplayTransport
from vidgen_async.cassette.request_matching import Claim
from vidgen_async.cassette.settings import Cassette, Mode, ModeName, as_cassette
from vidgen_async.errors import CassetteExhaustedError, CassetteMissError, CassetteNotFoundError
from vidgen_async.events import Event
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Request

logger = logging.getLogger(__name__)

_CREATE = "videos.create"
_NOT_RECORDED = (CassetteMissError, CassetteExhaustedError)


class _Recorded(ReplayTransport):
    """The interactions that were recorded before, each once, without those whose caller was cancelled."""

    def __init__(self, cassette: Cassette, recorder: Recorder) -> None:
        super().__init__(evolve(cassette, exhausted="error"))
        self._clock = recorder.clock
        recorder.append_to(self._document)
        self.has_create: bool = any(interaction.op == _CREATE for interaction in self._document.interactions)

    async def _claim(self, request: Request) -> Claim:
        while (claim := await super()._claim(request)).interaction.is_cancelled:
            pass
        return claim


class AppendingTransport(RecordingTransport):
    """Returns the responses of the cassette; sends all other requests with ``inner``, and appends them.

    What this transport records it never replays. Time is real, and so are the requests that it sends: a create that is
    not on the cassette is made and charged. Replayed orders were never made, so a client keeps all its orders in memory
    if the cassette has a create; a create that is then sent is logged as a warning. Make a new recording for orders
    that must be stored. Without a cassette this is a recording.
    """

    goes_out = True

    def __init__(
        self, inner: Transport, cassette: Cassette | str | os.PathLike[str], *, auto_publish: bool = True
    ) -> None:
        super().__init__(inner, cassette, auto_publish=auto_publish)
        self._recorded: _Recorded | None = None
        if self.cassette.exists():
            self._recorded = _Recorded(self.cassette, self._recorder)
            #: Replayed orders were never made: if the cassette has one, no durable journal stores any.
            self.is_replay |= self._recorded.has_create

    async def send(self, request: Request) -> Response:
        """Replay the response, or send the request with the inner transport and record it."""
        if self._recorded is not None:
            self._check_open(request)
            with suppress(*_NOT_RECORDED):
                return await self._recorded.send(request)
        return await super().send(request)

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """As :meth:`send`; ``connection.is_replay`` is whether the response is replayed."""
        async with AsyncExitStack() as stack:
            connection = None
            if self._recorded is not None:
                self._check_open(request)
                with suppress(*_NOT_RECORDED):
                    connection = await stack.enter_async_context(self._recorded.connect(request))
            if connection is None:
                connection = await stack.enter_async_context(super().connect(request))
            yield connection

    async def _begin(self, request: Request) -> InteractionRecorder:
        interaction = await super()._begin(request)
        if self._recorded is not None and self.is_replay and request.op == _CREATE:
            Event.CASSETTE_LIVE_CREATE.log(logger, path=self.cassette.path)
        return interaction

    async def aclose(self) -> None:
        if self._recorded is not None:
            await self._recorded.aclose()
        await super().aclose()


#: One is enough to know a CI system by: many do not set CI, and a container or a tool may pass on only some of them.
CI_VARIABLES = (
    *("CI", "CONTINUOUS_INTEGRATION", "BUILD_NUMBER"),  # of many systems
    *("TF_BUILD", "SYSTEM_TEAMFOUNDATIONCOLLECTIONURI"),  # Azure Pipelines
    *("JENKINS_URL", "HUDSON_URL"),
    "TEAMCITY_VERSION",
    *("CODEBUILD_BUILD_ID", "CODEBUILD_BUILD_ARN"),  # AWS CodeBuild
    *("BITBUCKET_BUILD_NUMBER", "BITBUCKET_COMMIT"),
    *("bamboo_planKey", "bamboo_buildKey", "bamboo_buildNumber"),
    *("GO_PIPELINE_NAME", "GO_PIPELINE_LABEL"),  # GoCD
    "BUILDER_OUTPUT",  # Google Cloud Build
    *("PROW_JOB_ID", "TASKCLUSTER_ROOT_URL", "ZUUL_PIPELINE", "CONCOURSE_URL", "ATC_EXTERNAL_URL"),
    *("HARNESS_BUILD_ID", "CF_BUILD_ID", "CM_BUILD_ID", "BUDDY_WORKSPACE_ID", "JB_SPACE_EXECUTION_NUMBER"),
    *("BITRISE_IO", "APPCENTER_BUILD_ID", "AC_APPCIRCLE", "CI_XCODE_PROJECT", "EAS_BUILD", "HEROKU_TEST_RUN_ID"),
    *("GITHUB_ACTIONS", "GITEA_ACTIONS", "GITLAB_CI", "TRAVIS", "CIRCLECI", "CIRRUS_CI", "APPVEYOR", "BUILDKITE"),
    *("DRONE", "SEMAPHORE", "SCREWDRIVER", "SAILCI", "VELA", "CI_NAME", "NETLIFY", "VERCEL", "NOW_BUILDER"),
)  # fmt: skip
_NO = ("", "0", "false", "no", "off")


def on_cassette(
    cassette: Cassette | str | os.PathLike[str],
    mode: Mode | ModeName = Mode.REPLAY,
    *,
    live: Callable[[], Transport] = DirectTransport,
    auto_publish: bool = True,
) -> ReplayTransport | RecordingTransport:
    """Make the transport for a cassette in a :class:`Mode`. ``live`` makes the transport that is recorded; it is not
    called for a replay.

    Raises:
        ConfigurationError: The mode is unknown.
        CassetteNotFoundError: There is no cassette to replay; with ``auto``, on a CI system.
    """
    mode, cassette = Mode.named(mode), as_cassette(cassette)
    if mode is Mode.AUTO:
        mode, why = resolve_auto(cassette)
        if mode is Mode.REPLAY and not cassette.exists():
            message = f"there is no cassette at {cassette.path}{why}"
            advice = "Record it on your machine and commit it."
            raise CassetteNotFoundError(message, path=str(cassette.path), advice=advice)
    if mode is Mode.APPEND:
        return AppendingTransport(live(), cassette, auto_publish=auto_publish)
    if mode is Mode.RECORD:
        return RecordingTransport(live(), cassette, auto_publish=auto_publish)
    return ReplayTransport(cassette)


def resolve_auto(cassette: Cassette) -> tuple[Mode, str]:
    """The mode that ``auto`` means for this cassette; and why it does not record here, to follow a sentence."""
    variable = next((name for name in CI_VARIABLES if os.environ.get(name, "").strip().lower() not in _NO), None)
    if variable is not None:
        return Mode.REPLAY, f"; nothing is recorded on a CI system ({variable} is set)"
    return Mode.REPLAY if cassette.exists() else Mode.RECORD, ""
