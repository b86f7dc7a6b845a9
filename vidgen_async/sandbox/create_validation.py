"""Validates the body of POST /videos (2.4).

The field names are repeated here on purpose: the sandbox takes nothing from the SDK, so that it can find its errors.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Required, TypedDict
from urllib.parse import urlsplit

from attrs import frozen

from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.input_rules import OBJECT, InvalidInputError, Rule, one_of, string, structure
from vidgen_async.sandbox.media.video_content import DEFAULT_RATIO, RATIOS

UPSTREAM_FIELDS = {"images": "image_urls or image_ids", "audios": "audio_urls", "videos": "video_urls"}
#: Reserved hosts (rule 2: placeholders must not be submitted).
EXAMPLE_DOMAINS = ("example.com", "example.org", "example.net", "example")


def _is_public_url(value: object) -> bool:
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        host = parts.hostname or ""
    except ValueError:
        return False
    is_example = any(f".{host}".endswith(f".{domain}") for domain in EXAMPLE_DOMAINS)
    return parts.scheme in ("http", "https") and bool(host) and not is_example


URL = Rule("a public http or https URL and no placeholder", _is_public_url)
REFERENCE = Rule(
    "an object whose url is a public http or https URL and no placeholder",
    lambda value: type(value) is dict and _is_public_url(value.get("url")),
)
#: In JSON 5.0 is an integer too.
SECONDS = Rule("an integer of seconds", lambda value: type(value) in (int, float) and value == value // 1)
ARRAY = Rule("an array", lambda value: type(value) is list)
NOT_EMPTY = string(r".+", "a string of at least one character")

Seconds = Annotated[float, SECONDS]
Ratio = Annotated[str, one_of(RATIOS)]
Urls = Annotated[list[Annotated[str, URL]], ARRAY]
References = Annotated[list[Annotated[Any, REFERENCE]], ARRAY]


class CreateFields(TypedDict, total=False):
    """The body. An optional field may be absent; 2.4 allows null for none of them."""

    model: Required[Annotated[str, NOT_EMPTY]]
    prompt: Required[Annotated[str, NOT_EMPTY]]
    duration: Seconds
    seconds: Seconds
    aspect_ratio: Ratio
    ratio: Ratio
    resolution: str
    mode: str
    attachments: Annotated[list[Annotated[Any, OBJECT]], ARRAY]
    reference_images: References
    image_urls: Urls
    image_ids: Annotated[list[Annotated[str, NOT_EMPTY]], ARRAY]
    reference_videos: References
    video_urls: Urls
    reference_audios: References
    audio_urls: Urls


@frozen
class CreateRequest:
    """A valid body with its aliases resolved and its defaults filled in."""

    prompt: str
    seconds: int
    ratio: str
    resolution: str
    image_ids: tuple[str, ...]
    image_urls: tuple[str, ...]
    audios: int
    videos: int


def read_fields(body: object, *, allow_unknown_fields: bool = False) -> CreateFields:
    """Return the body's fields; raise an InvalidInputError that names every field that is wrong for every model."""
    if not isinstance(body, dict):
        raise InvalidInputError("the body must be a JSON object")
    problems = [
        f"{name}: an upstream field name; use {UPSTREAM_FIELDS[name]}" for name in UPSTREAM_FIELDS.keys() & body
    ]
    ignored = {*UPSTREAM_FIELDS} | (body.keys() - CreateFields.__annotations__ if allow_unknown_fields else set())
    return structure({name: body[name] for name in body if name not in ignored}, CreateFields, problems)


def read_request(fields: CreateFields, entry: CatalogEntry) -> CreateRequest:
    """Return the request, checked against the model; raise an InvalidInputError that names every problem."""
    audios = len(fields.get("audio_urls", ())) + len(fields.get("reference_audios", ()))
    videos = len(fields.get("video_urls", ())) + len(fields.get("reference_videos", ()))
    request = CreateRequest(
        prompt=fields["prompt"],
        seconds=int(fields.get("duration", fields.get("seconds", entry.durations[0]))),
        ratio=fields.get("ratio", fields.get("aspect_ratio", DEFAULT_RATIO)),
        resolution=fields.get("resolution", entry.resolutions[0]),
        image_ids=tuple(fields.get("image_ids", ())),
        image_urls=(*fields.get("image_urls", ()), *(item["url"] for item in fields.get("reference_images", ()))),
        audios=audios,
        videos=videos,
    )
    if problems := [*_problems_of_aliases(fields), *_problems_with_model(request, entry)]:
        raise InvalidInputError("; ".join(problems))
    return request


def _problems_of_aliases(fields: CreateFields) -> Iterator[str]:
    if "seconds" in fields and fields["seconds"] != fields.get("duration", fields["seconds"]):
        yield "seconds: the alias of duration has another value"
    if "aspect_ratio" in fields and fields["aspect_ratio"] != fields.get("ratio", fields["aspect_ratio"]):
        yield "aspect_ratio: the alias of ratio has another value"


def _problems_with_model(request: CreateRequest, entry: CatalogEntry) -> Iterator[str]:
    if request.seconds not in entry.durations:
        yield f"duration: {entry.code} accepts only {', '.join(map(str, entry.durations))}"
    if request.resolution not in entry.resolutions:
        yield f"resolution: {entry.code} accepts only {', '.join(entry.resolutions)}"
    images = len(request.image_ids) + len(request.image_urls)
    for kind, number, limit in (
        ("image", images, entry.max_reference_images),
        ("audio", request.audios, entry.max_reference_audios),
        ("video", request.videos, entry.max_reference_videos),
    ):
        if limit is not None and number > limit:
            yield f"{entry.code} takes at most {limit} reference {kind}s" if limit else f"{entry.code} takes no {kind}s"
    if images < entry.min_reference_images:
        yield f"{entry.code} needs at least {entry.min_reference_images} reference image"
