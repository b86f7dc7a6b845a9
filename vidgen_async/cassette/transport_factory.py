"""Makes the transport for a mode."""

import os
from collections.abc import Callable

from vidgen_async.cassette.appending import AppendingTransport
from vidgen_async.cassette.recording import RecordingTransport
from vidgen_async.cassette.replay import ReplayTransport
from vidgen_async.cassette.settings import Cassette, Mode, ModeName, as_cassette
from vidgen_async.errors import CassetteNotFoundError
from vidgen_async.transports.base import Transport
from vidgen_async.transports.direct.transport import DirectTransport

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
        mode = resolve_auto(cassette)
        if mode is Mode.REPLAY and not cassette.exists():
            message = f"there is no cassette at {cassette.path}{nothing_is_recorded()}"
            advice = "Record it on your machine and commit it."
            raise CassetteNotFoundError(message, path=str(cassette.path), advice=advice)
    if mode is Mode.APPEND:
        return AppendingTransport(live(), cassette, auto_publish=auto_publish)
    if mode is Mode.RECORD:
        return RecordingTransport(live(), cassette, auto_publish=auto_publish)
    return ReplayTransport(cassette)


def resolve_auto(cassette: Cassette) -> Mode:
    """The mode that ``auto`` means for this cassette."""
    return Mode.RECORD if not cassette.exists() and find_ci_variable() is None else Mode.REPLAY


def nothing_is_recorded() -> str:
    """Why ``auto`` does not record here; empty if it does."""
    variable = find_ci_variable()
    return f"; nothing is recorded on a CI system ({variable} is set)" if variable else ""


def find_ci_variable() -> str | None:
    """The variable that says that this is a run of a CI system, or None."""
    return next((name for name in CI_VARIABLES if os.environ.get(name, "").strip().lower() not in _NO), None)
