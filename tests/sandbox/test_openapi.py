"""The OpenAPI document: it is valid, complete and served, and agrees with the sandbox and the SDK."""

import json
import re
from importlib.resources import files
from typing import Any, get_args

import pytest
from attrs import fields

from vidgen_async.sandbox.accounts import Status
from vidgen_async.sandbox.create_validation import CreateFields
from vidgen_async.sandbox.http import PATHS, PREFIX
from vidgen_async.sandbox.media import RATIOS
from vidgen_async.sandbox.web.pages import openapi_document
from vidgen_async.types.resources import ReferenceAsset, TaskStatus, VideoRequest, VideoTask

DOCUMENT = openapi_document("http://127.0.0.1:8000/openapi/v1")
COMPONENTS = DOCUMENT["components"]
SCHEMAS = COMPONENTS["schemas"]
OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    described["operationId"]: (path, described)
    for path, item in DOCUMENT["paths"].items()
    for method, described in item.items()
    if method != "parameters"
}


def body_of(op: str) -> dict[str, Any]:
    """Return the description of the JSON body of an operation."""
    return OPERATIONS[op][1]["requestBody"]["content"]["application/json"]


def examples_of(op: str) -> list[Any]:
    return [example["value"] for example in body_of(op)["examples"].values()]


def names_of(resource: type[Any]) -> set[str]:
    """Return the fields that the service sends; ``request_id`` is a response header."""
    return {attribute.name for attribute in fields(resource)} - {"extra", "request_id"}


@pytest.mark.needs_dev
def test_the_document_is_valid_openapi_3_1():
    import schemathesis  # noqa: PLC0415 - of the extra dev

    assert DOCUMENT["openapi"].startswith("3.1.")

    schemathesis.openapi.from_dict(DOCUMENT).validate()


def test_every_reference_leads_to_a_component_and_every_component_is_referred_to():
    referred = set(re.findall(r'"\$ref": "#/components/(\w+/[\w-]+)"', json.dumps(DOCUMENT)))

    named = {f"{kind}/{name}" for kind, components in COMPONENTS.items() for name in components}
    assert referred == named - {"securitySchemes/ApiKey"}
    assert DOCUMENT["security"] == [{"ApiKey": []}]


def test_the_paths_and_methods_of_the_sandbox_are_described_and_nothing_else():
    described = {
        (path, method.upper(), operation["operationId"])
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }

    assert described == {
        (path[len(PREFIX) - 1 :], method, op)
        for path, ops in PATHS["service"].items()
        for method, op in ops.items()
        if path.startswith(PREFIX)
    }


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_operation_describes_401_and_gateway_faults(op):
    _, described = OPERATIONS[op]

    assert described["responses"].keys() >= {"401", "502", "504"}
    assert "security" not in described


def test_a_create_is_described_with_the_fields_of_the_sdk_and_of_the_sandbox():
    properties = SCHEMAS["VideoRequest"]["properties"]

    assert tuple(properties) == VideoRequest.field_names()
    assert properties.keys() == CreateFields.__annotations__.keys()


def test_a_task_and_an_asset_are_described_with_the_fields_of_the_sdk():
    assert SCHEMAS["VideoTask"]["properties"].keys() == names_of(VideoTask) | {"task_id"}
    assert SCHEMAS["ReferenceAsset"]["properties"].keys() == names_of(ReferenceAsset) - {"uploaded_at"}


def test_the_sandbox_its_document_and_its_console_have_the_states_of_the_sdk():
    states = get_args(TaskStatus)
    static = files("vidgen_async.sandbox.web") / "static"
    (listed,) = re.findall(r"^const KNOWN = (.+);$", (static / "tasks.js").read_text(), re.MULTILINE)

    assert get_args(Status) == states
    for schema in ("CreatedTask", "VideoTask"):
        assert tuple(SCHEMAS[schema]["properties"]["status"]["examples"]) == states
    assert tuple(json.loads(listed)) == states
    assert [state for state in states if f'id="icon-{state}"' not in (static / "index.html").read_text()] == []
    assert [state for state in states if f'[data-state="{state}"]' not in (static / "base.css").read_text()] == []


def test_only_what_the_description_closes_is_closed():
    enumerated = set(re.findall(r'"(\w+)": {[^{}]*"enum"', json.dumps(SCHEMAS)))
    without_more = {name for name, schema in SCHEMAS.items() if schema.get("additionalProperties") is False}

    assert enumerated == {"ratio", "aspect_ratio"}
    assert set(SCHEMAS["VideoRequest"]["properties"]["ratio"]["enum"]) == RATIOS.keys()
    assert without_more == {"VideoRequest"}


async def test_the_document_is_served_beside_the_service_without_a_key(service, api):
    reply = await api.get(service.base_url.removesuffix("/openapi/v1") + "/openapi.json", bare=True)

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert reply.json == openapi_document(service.base_url)
    assert reply.json["servers"] == [{"url": service.base_url}]
    assert service.requests == []


@pytest.mark.parametrize(("op", "status"), [("files.create", 200), ("videos.create", 202)])
async def test_the_examples_of_the_document_are_accepted(api, op, status):
    path, _ = OPERATIONS[op]

    replies = [await api.post(path, example) for example in examples_of(op)]

    assert [reply.status for reply in replies] == [status]


async def test_the_link_from_an_upload_to_a_create_works(service, api):
    (upload,) = examples_of("files.create")
    asset = (await api.post("/files", upload)).json

    body = COMPONENTS["links"]["Create"]["requestBody"] | {"image_ids": [asset["image_id"]]}
    created = await api.post("/videos", body)

    assert created.status == 202
    assert service.tasks[created.json["id"]].film.pictures == (asset["name"],)


async def test_a_field_that_may_not_be_null_is_refused_as_null(service, api):
    replies = {}
    for op, schema in (("files.create", "FileUpload"), ("videos.create", "VideoRequest")):
        path, _ = OPERATIONS[op]
        (example,) = examples_of(op)
        for name in SCHEMAS[schema]["properties"]:
            reply = await api.post(path, example | {name: None})
            replies[op, name] = (reply.status, reply.code)

    assert replies == dict.fromkeys(replies, (400, "INVALID_PARAMETER"))
    assert service.tasks == {}
