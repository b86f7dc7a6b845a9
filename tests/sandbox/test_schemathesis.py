"""Schemathesis generates requests from the OpenAPI document, valid and invalid ones, and checks the answers."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from vidgen_async.sandbox import Sandbox
from vidgen_async.sandbox.request_log import ReceivedRequest
from vidgen_async.sandbox.web.pages import openapi_document

pytestmark = pytest.mark.needs_dev

SETTINGS = Path(__file__).with_name("schemathesis.toml")
COMMAND = (sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS), "run", "--no-color")

Reached = set[tuple[str, int]]

BOAT = {"model": "gen-2.0", "prompt": "A paper boat"}
#: Answers that no generated request causes: the status, the options of the sandbox, the path, and the body of the POST.
REFUSALS: list[tuple[int, dict[str, Any], str, dict[str, Any]]] = [
    (402, {"balance": 0}, "/videos", BOAT),
    (429, {"submission_limit": 0}, "/videos", BOAT),
    (503, {}, "/videos", BOAT | {"model": "gen-2.5"}),
    (413, {}, "/videos", {"prompt": "x" * (2 << 20)}),
    (413, {}, "/files", {"image_b64": "x" * (65 << 20)}),
]
#: Statuses of the content that generated requests cause by chance only: the seconds since the create.
CONTENTS = {409: 0.0, 307: 60.0}
#: The sandbox has no gateway: these are answered for planned faults only.
GATEWAY = {502, 504}
#: Statuses of large bodies and full disks, which are not generated: each has a test below.
APART = {413, 503}


@frozen
class Run:
    """One run of schemathesis: its exit code, its report, and the answers in the log of the sandbox."""

    code: int
    report: str
    reached: Reached


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return asyncio.run(run_schemathesis(tmp_path_factory.mktemp("schemathesis")))


async def run_schemathesis(directory: Path) -> Run:
    """Advance the clock by a second per answer, so that tasks end and the submission limit is not reached."""

    def on_request(request: ReceivedRequest) -> None:
        if request.is_over:
            service.clock.advance(1)

    async with Sandbox(speed=0, balance=1_000_000, on_request=on_request) as service:
        address = service.base_url.removesuffix("/openapi/v1") + "/openapi.json"
        variables = {**os.environ, "SANDBOX_KEY": service.api_key}
        process = await asyncio.create_subprocess_exec(
            *COMMAND, address, cwd=directory, env=variables, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        try:
            report, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        reached = {(request.op, request.status) for request in service.requests if request.status is not None}
    return Run(process.returncode, report.decode(errors="replace"), reached)


@cache
def described() -> Any:
    """Return the loaded document, which is slow to load. It is valid for every address of the service."""
    import schemathesis  # noqa: PLC0415 - of the extra dev

    return schemathesis.openapi.from_dict(openapi_document("http://service.test/openapi/v1"))


async def send(service: Sandbox, path: str, method: str, **arguments: Any) -> Any:
    """Return the answer to one request, after comparing its status, headers, media type and body with the document."""
    operation = described()[path][method]
    case = operation.Case(headers={"Authorization": f"Bearer {service.api_key}"}, **arguments)
    answer = await asyncio.to_thread(case.call, base_url=service.base_url)
    operation.validate_response(answer)
    return answer


async def post(service: Sandbox, path: str, body: dict[str, Any]) -> Any:
    return await send(service, path, "POST", body=body, media_type="application/json")


def test_every_answer_matches_its_description(run):
    assert run.code == 0, run.report


def test_every_described_status_is_answered(run):
    listed = {
        (operation["operationId"], int(status))
        for path in openapi_document("http://service.test/openapi/v1")["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
        for status in operation["responses"]
    }

    brought_about = {("videos.create", status) for status in (402, 429, 503)}
    brought_about |= {("videos.content", status) for status in CONTENTS}
    not_generated = {(op, status) for op, status in listed if status in GATEWAY | APART}
    assert listed - brought_about - not_generated - run.reached == set()


def test_methods_that_are_not_described_are_tested_too(run):
    assert ("unknown", 405) in run.reached


@pytest.mark.parametrize(("status", "options", "path", "body"), REFUSALS, ids=range(len(REFUSALS)))
async def test_a_refusal_that_no_generated_request_causes_matches_its_description(status, options, path, body):
    async with Sandbox(speed=0, **options) as service:
        assert (await post(service, path, body)).status_code == status
        assert service.tasks == {}


@pytest.mark.parametrize("status", CONTENTS)
async def test_content_that_is_redirected_or_not_available_matches_its_description(status):
    async with Sandbox(speed=0) as service:
        created = await post(
            service, "/videos", BOAT | {"model": "vendorh3", "image_urls": ["https://pics.test/boat.png"]}
        )
        service.clock.advance(CONTENTS[status])

        answer = await send(service, "/videos/{id}/content", "GET", path_parameters={"id": created.json()["id"]})

    assert answer.status_code == status


@pytest.mark.parametrize(
    ("path", "method", "arguments"),
    [
        ("/models", "GET", {}),
        ("/account", "GET", {}),
        ("/files", "POST", {"body": {"image_b64": "x"}, "media_type": "application/json"}),
        ("/videos", "POST", {"body": {"model": "gen-2.0", "prompt": "x"}, "media_type": "application/json"}),
        ("/videos/{id}", "GET", {"path_parameters": {"id": "task_1"}}),
        ("/videos/{id}/content", "GET", {"path_parameters": {"id": "task_1"}}),
    ],
)
async def test_the_answer_when_the_state_could_not_be_stored_matches_its_description(tmp_path, path, method, arguments):
    async with Sandbox(speed=2, state=tmp_path) as service:  # up to speed 1, reads store nothing
        database = service._state_file._db
        database.execute("PRAGMA query_only = 1")
        answer = await send(service, path, method, **arguments)
        database.execute("PRAGMA query_only = 0")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STATE_NOT_STORED")
    assert "503" in openapi_document("http://service.test/openapi/v1")["paths"][path][method.lower()]["responses"]
