"""Validates the body of POST /videos (2.4).

The field names are repeated here on purpose: the sandbox takes nothing from the SDK, so that it can find its errors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Required, TypedDict

from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.input_rules import OBJECT, InvalidInputError, Rule, one_of, show, string, structure
from vidgen_async.sandbox.media import DEFAULT_RATIO, RATIOS

UPSTREAM_FIELDS = {"images": "image_urls or image_ids", "audios": "audio_urls", "videos": "video_urls"}
URL_ARRAYS = ("image_urls", "video_urls", "audio_urls")
REFERENCE_ARRAYS = ("reference_images", "reference_videos", "reference_audios")
#: Section 9: the fields that aliases stand for.
ALIASES = {"seconds": "duration", "aspect_ratio": "ratio"}
#: Returns why a URL, or what is in its place, is refused.
CheckURL = Callable[[object], str | None]

#: In JSON 5.0 is an integer too.
SECONDS = Rule("an integer of seconds", lambda value: type(value) in (int, float) and value == value // 1)
REFERENCE = Rule("an object with a url", lambda value: type(value) is dict and "url" in value)
ARRAY = Rule("an array", lambda value: type(value) is list)
NOT_EMPTY = string(r".+", "a string of at least one character")
NOT_BLANK = string(r".*\S.*", "a string of more than white space")

Seconds = Annotated[float, SECONDS]
Ratio = Annotated[str, one_of(RATIOS)]
#: The URLs in both are checked by a CheckURL.
Urls = Annotated[list[Any], ARRAY]
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
    image_ids: Annotated[list[Annotated[str, NOT_BLANK]], ARRAY]
    reference_videos: References
    video_urls: Urls
    reference_audios: References
    audio_urls: Urls


def read_fields(body: object, problem_of_url: CheckURL, *, allow_unknown_fields: bool = False) -> CreateFields:
    """Return the body's fields; raise an InvalidInputError that names every field that is wrong for every model."""
    if not isinstance(body, dict):
        raise InvalidInputError("the body must be a JSON object")
    problems = [
        f"{name}: an upstream field name; use {UPSTREAM_FIELDS[name]}" for name in UPSTREAM_FIELDS.keys() & body
    ]
    problems += _problems_of_urls(body, problem_of_url)
    ignored = {*UPSTREAM_FIELDS} | (body.keys() - CreateFields.__annotations__ if allow_unknown_fields else set())
    return structure({name: body[name] for name in body if name not in ignored}, CreateFields, problems)


def _problems_of_urls(body: dict[str, Any], problem_of_url: CheckURL) -> Iterator[str]:
    urls = {f"{name}[{at}]": item for name in URL_ARRAYS for at, item in _items(body, name)}
    for name in REFERENCE_ARRAYS:
        urls |= {f"{name}[{at}].url": item["url"] for at, item in _items(body, name) if REFERENCE.allows(item)}
    for path, url in urls.items():
        if problem := problem_of_url(url):
            yield f"{path}: {problem}, not {show(url)}"


def _items(body: dict[str, Any], name: str) -> Iterable[tuple[int, Any]]:
    items = body.get(name)
    return enumerate(items if isinstance(items, list) else ())


def resolve_aliases(body: Any) -> Any:
    """Return the body with the names that aliases stand for, to compare it; contradicting aliases stay."""
    if not isinstance(body, dict):
        return body
    resolved = dict(body)
    for alias, name in ALIASES.items():
        if alias in body and body.get(name, body[alias]) == body[alias]:
            resolved[name] = resolved.pop(alias)
    return resolved


def read_request(fields: CreateFields, entry: CatalogEntry) -> dict[str, Any]:
    """Return the fields without aliases and with defaults; an InvalidInputError names every problem with the model."""
    defaults = {"duration": entry.durations[0], "ratio": DEFAULT_RATIO, "resolution": entry.resolutions[0]}
    request: dict[str, Any] = defaults | resolve_aliases(fields)
    problems = [f"{alias}: the alias of {ALIASES[alias]} has another value" for alias in ALIASES if alias in request]
    if problems := [*problems, *_problems_with_model(request, entry)]:
        raise InvalidInputError("; ".join(problems))
    return request


def count(request: Mapping[str, Any], kind: str) -> int:
    """Return the number of references to images, audios or videos."""
    return sum(len(request.get(name, ())) for name in (f"{kind}_urls", f"{kind}_ids", f"reference_{kind}s"))


def _problems_with_model(request: Mapping[str, Any], entry: CatalogEntry) -> Iterator[str]:
    if request["duration"] not in entry.durations:
        yield f"duration: {entry.code} accepts only {', '.join(map(str, entry.durations))}"
    if request["resolution"] not in entry.resolutions:
        yield f"resolution: {entry.code} accepts only {', '.join(entry.resolutions)}"
    for kind, limit in (
        ("image", entry.max_reference_images),
        ("audio", entry.max_reference_audios),
        ("video", entry.max_reference_videos),
    ):
        if limit is not None and count(request, kind) > limit:
            yield f"{entry.code} takes at most {limit} reference {kind}s" if limit else f"{entry.code} takes no {kind}s"
    # What an attachment contains is not documented: it could be the image.
    if count(request, "image") < entry.min_reference_images and not request.get("attachments"):
        yield f"{entry.code} needs at least {entry.min_reference_images} reference image"
