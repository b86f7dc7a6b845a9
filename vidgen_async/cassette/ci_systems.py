"""Whether this process runs on a CI system, by the variables that these systems set."""

import os

#: One is enough: many systems do not set CI, and a container or a tool may pass on only some of the variables.
VARIABLES = (
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


def find_ci_variable() -> str | None:
    """The variable that says that this is a run of a CI system, or None."""
    return next((name for name in VARIABLES if os.environ.get(name, "").strip().lower() not in _NO), None)


_NO = ("", "0", "false", "no", "off")
