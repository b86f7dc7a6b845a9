"""The service as an OpenAPI 3.1 document: the six endpoints of section 4, as this sandbox answers them."""

from copy import deepcopy
from typing import Any

from vidgen_async.sandbox.web.json_schemas import SCHEMAS, ref

#: The published interface description that this follows (section 9).
VERSION = "2026.10.19"

Node = dict[str, Any]

_ABOUT = """\
Asynchronous video generation: a create answers with a task id, and the task is queried until it is completed or failed.

This is the sandbox of the service. Where the published interface leaves something open and the sandbox had to decide,
it says *the sandbox's own*: do not rely on that elsewhere. Among it are the shape of errors, the names of the
account's and the prices' fields, the header `X-Request-Id`, 409 for a create, 413 for a body and 416 for a range.

A create that ends without an answer, or with 502, 503 or 504, may have made and charged a task: never send it again
automatically."""

_PICTURE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR42mO4I2LzfwEDAArAAswu3eYyAAAAAElFTkSuQmCC"
)


def describe(base_url: str) -> dict[str, Any]:
    """The document for a service at ``base_url``, which ends in ``/openapi/v1``; a new one with every call."""
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Video generation service (sandbox)", "version": VERSION, "description": _ABOUT},
        "servers": [{"url": base_url}],
        "security": [{"ApiKey": []}],
        "paths": {
            "/models": {"get": _LIST_MODELS},
            "/account": {"get": _GET_ACCOUNT},
            "/files": {"post": _CREATE_FILE},
            "/videos": {"post": _CREATE_VIDEO},
            "/videos/{id}": {"parameters": [_TASK_ID], "get": _GET_VIDEO},
            "/videos/{id}/content": {"parameters": [_TASK_ID], "get": _GET_CONTENT},
        },
        "components": {
            "securitySchemes": {"ApiKey": _API_KEY},
            "headers": _HEADERS,
            "responses": _RESPONSES,
            "links": _LINKS,
            "schemas": SCHEMAS,
        },
    }
    return deepcopy(document)


def _component(kind: str, name: str) -> Node:
    return {"$ref": f"#/components/{kind}/{name}"}


def _answer(
    meaning: str, content: Node | None = None, headers: tuple[str, ...] = (), links: tuple[str, ...] = ()
) -> Node:
    """A response. Whatever the sandbox answers carries an id of the request."""
    answer: Node = {
        "description": meaning,
        "headers": {name: _component("headers", name) for name in ("X-Request-Id", *headers)},
    }
    if content is not None:
        answer["content"] = content
    if links:
        answer["links"] = {name: _component("links", name) for name in links}
    return answer


def _json(schema: str) -> Node:
    return {"application/json": {"schema": ref(schema)}}


def _refusal(meaning: str, *headers: str) -> Node:
    return _answer(meaning, _json("Error"), headers)


def _body(schema: str, **examples: Node) -> Node:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"required": True, "content": {"application/json": {"schema": ref(schema), "examples": named}}}


def _operation(op: str, purpose: str, answers: Node, **more: Any) -> Node:
    """An operation with its own answers by status, and those that every one has."""
    shared = {"401": "Unauthorized", "502": "GatewayFault", "503": "NotKept", "504": "GatewayFault"}
    if "requestBody" in more:
        shared["413"] = "BodyTooLarge"
    responses = {status: _component("responses", name) for status, name in shared.items()} | answers
    return {
        "operationId": op,
        "tags": [op.partition(".")[0]],
        "summary": purpose,
        **more,
        "responses": dict(sorted(responses.items())),
    }


_API_KEY: Node = {
    "type": "http",
    "scheme": "bearer",
    "description": "A complete API key of the service, in this header alone and never in a URL.",
}

_HEADERS: Node = {
    "X-Request-Id": {
        "description": "A new id for every answer. The sandbox's own.",
        "required": True,
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {
        "description": "Always `Bearer`. The sandbox's own.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds until a create is taken again. The sandbox's own.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    },
    "Location": {
        "description": "The complete address of the result, with its `exp` and `sig`. It takes no key.",
        "required": True,
        "schema": {"type": "string", "format": "uri"},
    },
    "Content-Range": {
        "description": "The part, or, when there is no such part, the size: `bytes 0-99/1234`, `bytes */1234`.",
        "required": True,
        "schema": {"type": "string", "pattern": r"^bytes (\d+-\d+|\*)/\d+$"},
    },
    "Accept-Ranges": {
        "description": "`bytes` where the channel supports ranges.",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "The same for the same video, where the channel supports ranges.",
        "schema": {"type": "string"},
    },
}

_RESPONSES: Node = {
    "Unauthorized": _refusal("The API key is missing or invalid.", "WWW-Authenticate"),
    "NoSuchTask": _refusal("The task does not exist or does not belong to the current user."),
    "BodyTooLarge": _refusal(
        "The body has more bytes than are taken: 64 MiB of an upload, 1 MiB else. The sandbox's own."
    ),
    "NotKept": _refusal(
        "`STATE_NOT_KEPT`: what the sandbox holds could not be written to its file. The sandbox's own."
    ),
    "GatewayFault": {
        "description": "A fault of the gateway or upstream, with any body. After a create, query before anything else: "
        "the task may have been made. The sandbox answers this only when it is told to.",
    },
}

_LINKS: Node = {
    "Create": {
        "operationId": "videos.create",
        "requestBody": {
            "model": "vendorh3",
            "prompt": "The boat of the picture sails at dawn",
            "image_ids": ["$response.body#/image_id"],
        },
        "description": "A video of the uploaded image.",
    },
    "Task": {
        "operationId": "videos.get",
        "parameters": {"id": "$response.body#/id"},
        "description": "The task, as it is at the time.",
    },
    "Content": {
        "operationId": "videos.content",
        "parameters": {"id": "$response.body#/id"},
        "description": "The video, once the task is completed.",
    },
}

_TASK_ID: Node = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The task id of the service that a create answered with; never an upstream id.",
    "schema": {"type": "string", "minLength": 1},
}

_IDEMPOTENCY_KEY: Node = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "One unique key per business order; a repetition of the same order carries the same key and gives "
    "the same task. The sandbox refuses a used key with another body, and lets a refused create use up no key.",
    "schema": {"type": "string", "minLength": 8, "maxLength": 100},
}

_RANGE: Node = {
    "name": "Range",
    "in": "header",
    "description": "A byte range. Not every channel supports ranges: the answer may be the whole video.",
    "schema": {"type": "string"},
    "examples": {"first": {"value": "bytes=0-99"}, "beyond": {"value": "bytes=999999999-"}},
}

_LIST_MODELS = _operation(
    "models.list",
    "The catalog, its models' states and the caller's prices",
    {"200": _answer("The catalog.", _json("Catalog"))},
)

_GET_ACCOUNT = _operation(
    "account.get",
    "The credit balance",
    {"200": _answer("The account.", _json("Account"))},
)

_CREATE_FILE = _operation(
    "files.create",
    "Upload an image or reuse an own asset",
    {
        "200": _answer("The asset is saved.", _json("ReferenceAsset"), links=("Create",)),
        "400": _refusal(
            "`EMPTY_REFERENCE_ASSET`: the image is empty. `INVALID_REFERENCE_IMAGE`: it cannot be decoded, or "
            "has more than 50 megapixels (the sandbox's own limit). "
            "`REFERENCE_ASSET_EXPIRED`: the asset is deleted, expired or not owned by the account. "
            "`UNSUPPORTED_REFERENCE_URL`: only the caller's own assets are reused. Other codes: the body is invalid."
        ),
    },
    requestBody=_body("FileUpload", picture={"image_b64": _PICTURE}),
)

_CREATE_VIDEO = _operation(
    "videos.create",
    "Create a task",
    {
        "202": _answer("The task is created.", _json("CreatedTask"), links=("Task", "Content")),
        "400": _refusal("Invalid parameters."),
        "402": _refusal("Not enough credits."),
        "409": _refusal("The Idempotency-Key was used with another body. The sandbox's own."),
        "429": _refusal("More than 100 submissions of the user within 60 seconds.", "Retry-After"),
        "503": _refusal(
            "The model is in maintenance or not enabled. Elsewhere also: the channel is unavailable for now, or it is "
            "not known whether the create was received. `STATE_NOT_KEPT`, the sandbox's own: what it holds, also "
            "a task that was made, could not be written to its file."
        ),
    },
    parameters=[_IDEMPOTENCY_KEY],
    requestBody=_body(
        "VideoRequest",
        text={"model": "gen-2.0", "prompt": "A paper boat sails at dawn", "duration": 5, "ratio": "16:9"},
    ),
)

_GET_VIDEO = _operation(
    "videos.get",
    "Read a task",
    {
        "200": _answer("The task, with its latest result address.", _json("VideoTask"), links=("Content",)),
        "404": _component("responses", "NoSuchTask"),
    },
)

_GET_CONTENT = _operation(
    "videos.content",
    "Read or download the video",
    {
        "200": _answer("The whole video.", {"video/mp4": {}}, ("Accept-Ranges", "ETag")),
        "206": _answer("A part of the video.", {"video/mp4": {}}, ("Content-Range", "Accept-Ranges", "ETag")),
        "307": _answer("The video is at another address.", headers=("Location",)),
        "404": _component("responses", "NoSuchTask"),
        "409": _refusal("The video is not completed or not available."),
        "416": _refusal("The video has no such range. The sandbox's own.", "Content-Range"),
    },
    parameters=[_RANGE],
)
