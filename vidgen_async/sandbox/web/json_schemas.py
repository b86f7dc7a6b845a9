"""What the service takes and gives, as JSON Schemas (section 2), each once and by name.

A schema closes what the service's description closes, and leaves open what it leaves open: answers may carry more
fields, states and error codes than are known.
"""

from typing import Any

from vidgen_async.sandbox.media.video_content import RATIOS

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """The schema of this name, where it is used."""
    return {"$ref": f"#/components/schemas/{name}"}


def _of(kind: str | list[str], meaning: str, **rules: Any) -> Schema:
    return {"type": kind, "description": meaning, **rules}


def _array(items: Schema, meaning: str) -> Schema:
    return _of("array", meaning, items=items)


def _object(meaning: str, required: list[str], properties: dict[str, Schema], **rules: Any) -> Schema:
    return _of("object", meaning, required=required, properties=properties, **rules)


#: The case of a scheme does not count.
_WEB_ADDRESS: Schema = {"type": "string", "format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"}
_ASSET_ID: Schema = {"type": "string", "minLength": 1}
_REFERENCE = _object("A reference by its address.", ["url"], {"url": _WEB_ADDRESS})
_SECONDS = {"minimum": 1, "examples": [5]}
_RATIO = {"enum": sorted(RATIOS)}


def _limit(kind: str) -> Schema:
    return _of("integer", f"The most reference {kind}; 0: none are taken; absent: the entry does not say.", minimum=0)


_CATALOG_ENTRY = _object(
    "One model of the calling key. It is usable when it is enabled and not in maintenance.",
    ["code", "name", "enabled", "maintenance", "durations", "resolutions"],
    {
        "code": _of("string", "The model ID: the value of `model` in a create."),
        "name": _of("string", "The display name. Not a parameter, and no promise."),
        "enabled": _of("boolean", "Whether the model can be used."),
        "maintenance": _of("boolean", "Whether the model is in maintenance."),
        "durations": _array({"type": "integer"}, "The durations that it takes, in seconds."),
        "resolutions": _array({"type": "string"}, "The resolutions that it takes, e.g. `720p`, `768p`, `auto`."),
        "maxReferenceImages": _limit("images"),
        "maxReferenceAudios": _limit("audios"),
        "maxReferenceVideos": _limit("videos"),
        "points": _of("integer", "What a task costs with this key. The sandbox's own name: none is published."),
        "memberPoints": _of("integer", "What a task costs members. The sandbox's own name: none is published."),
    },
)

_CATALOG = _object(
    "The live catalog of the calling key; it decides about models, states, abilities and prices.",
    ["models"],
    {"models": _array(ref("CatalogEntry"), "One entry per model. New ones may appear at any time.")},
)

_ACCOUNT = _object(
    "The account of the calling key. No field names are published: these are the sandbox's own.",
    ["account", "credits"],
    {
        "account": _of("string", "The account's name."),
        "credits": _of("integer", "The credits (points) that are left."),
    },
)

_FILE_UPLOAD = _object(
    "An image, or the address of an own asset; at least one of the two.",
    [],
    {
        "image_b64": _of(
            "string",
            "A complete data URI, or plain Base64, of a real image; its format is recognised from the content. "
            "The full URL of an own asset is accepted here as well.",
        ),
        "image_url": _of("string", "The full URL of an asset that the caller has uploaded. No other URL is fetched."),
    },
    anyOf=[{"required": ["image_b64"]}, {"required": ["image_url"]}],
)

_REFERENCE_ASSET = _object(
    "An uploaded image. It is kept for 72 hours and must then be uploaded again.",
    ["id", "image_id", "url", "mime", "name"],
    {
        "id": _of("string", "The asset's id."),
        "image_id": _of("string", "The same id: the value for `image_ids` of a create."),
        "url": _of(
            "string",
            "The asset's address. When it starts with `/`, the service's host is put in front; every query parameter "
            "(the token) is kept.",
            format="uri-reference",
        ),
        "mime": _of("string", "The media type of the image."),
        "name": _of("string", "The file's name."),
    },
)

_VIDEO_REQUEST = _object(
    "What a create asks for. Durations, resolutions and numbers of references are limited by the model's entry in "
    "the catalog, and placeholders are refused. No other field is published, and the sandbox refuses others.",
    ["model", "prompt"],
    {
        "model": _of(
            "string", "The model ID of the service; it must be usable.", minLength=1, examples=["gen-2.0", "vendorh3"]
        ),
        "prompt": _of("string", "What the video shall show.", minLength=1),
        "duration": _of("integer", "Seconds; one of the model's durations.", **_SECONDS),
        "seconds": _of("integer", "The alias of `duration`; the sandbox refuses another value than there.", **_SECONDS),
        "aspect_ratio": _of("string", "The alias of `ratio`; the sandbox refuses another value than there.", **_RATIO),
        "ratio": _of("string", "Width to height.", **_RATIO),
        "resolution": _of("string", "One of the model's resolutions.", minLength=1, examples=["720p", "768p"]),
        "mode": _of("string", "The mode of generation. Its values are not published."),
        "attachments": _array({"type": "object"}, "The shape of an item is not published."),
        "reference_images": _array(_REFERENCE, "Images by address; empty files are refused."),
        "image_urls": _array(_WEB_ADDRESS, "Public URLs of real, non-empty images."),
        "image_ids": _array(_ASSET_ID, "The `image_id`s of uploaded images."),
        "reference_videos": _array(_REFERENCE, "Videos by address, where the model takes videos."),
        "video_urls": _array(_WEB_ADDRESS, "Public URLs of real videos, where the model takes videos."),
        "reference_audios": _array(_REFERENCE, "Audios by address, where the model takes audios."),
        "audio_urls": _array(_WEB_ADDRESS, "Public URLs of real audios, where the model takes audios."),
    },
    additionalProperties=False,
)

_STATUS = _of(
    "string",
    "`queued` and `running`: ask again later. `completed` and `failed` are never left again. More may come.",
    examples=["queued", "running", "completed", "failed"],
)
_TASK_FIELDS: dict[str, Schema] = {
    "id": _of("string", "The task id of the service, for all later queries."),
    "task_id": _of("string", "The same id, for compatibility."),
    "status": _STATUS,
    "model": _of("string", "The model ID."),
    "points": _of("integer", "The credits that were charged for the task."),
    "upstream_task_id": _of(["string", "null"], "For diagnosis only; no query takes it. Null proves nothing."),
    "created_at": _of("integer", "When the task was made, in seconds since 1970."),
}

_CREATED_TASK = _object(
    "The receipt of a create. That it carries the task id is all that is published: the rest is the sandbox's own.",
    ["id"],
    _TASK_FIELDS,
)

_VIDEO_TASK = _object(
    "A task as it is now.",
    ["id", "task_id", "status", "model", "points", "video_url", "failure_reason", "created_at", "updated_at"],
    {
        **_TASK_FIELDS,
        "video_url": _of(
            ["string", "null"],
            "The complete address of the result; null when there is none. Either the content endpoint (key needed) "
            "or a signed link, whose `exp` and `sig` must be kept and which needs no key.",
            format="uri",
        ),
        "failure_reason": _of(["string", "null"], "Why the task failed. A refund is told by the credit ledger alone."),
        "provider": {"description": "Who generates the video. Its type is not published."},
        "updated_at": _of("integer", "When the task last changed, in seconds since 1970."),
    },
)

_ERROR = _object(
    "Why a request was refused. The shape is the sandbox's own choice: none is published.",
    ["error"],
    {
        "error": _object(
            "What went wrong.",
            ["code", "message"],
            {
                "code": _of("string", "For programs. More may come.", examples=["INVALID_PARAMETER"]),
                "message": _of("string", "For people."),
            },
        )
    },
)

SCHEMAS: dict[str, Schema] = {
    "Catalog": _CATALOG,
    "CatalogEntry": _CATALOG_ENTRY,
    "Account": _ACCOUNT,
    "FileUpload": _FILE_UPLOAD,
    "ReferenceAsset": _REFERENCE_ASSET,
    "VideoRequest": _VIDEO_REQUEST,
    "CreatedTask": _CREATED_TASK,
    "VideoTask": _VIDEO_TASK,
    "Error": _ERROR,
}
