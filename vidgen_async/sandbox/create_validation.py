"""Validates the body of POST /videos (2.4).

The field names are repeated here on purpose: the sandbox takes nothing from the SDK, so that it can find its errors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.media.video_content import DEFAULT_RATIO, RATIOS
from vidgen_async.sandbox.responses import Refusal

Body = Mapping[str, Any]

UPSTREAM_FIELDS = {"images": "image_urls or image_ids", "audios": "audio_urls", "videos": "video_urls"}
URL_LISTS = ("image_urls", "video_urls", "audio_urls")
OBJECT_LISTS = ("reference_images", "reference_videos", "reference_audios")
FIELDS = frozenset(
    {
        "model",
        "prompt",
        "duration",
        "seconds",
        "aspect_ratio",
        "ratio",
        "resolution",
        "mode",
        "attachments",
        "image_ids",
    }
    | {*URL_LISTS, *OBJECT_LISTS}
)
#: Reserved hosts (rule 2: placeholders must not be submitted).
EXAMPLE_DOMAINS = ("example.com", "example.org", "example.net", "example")


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


def read_body(body: object, *, allow_unknown_fields: bool = False) -> Body:
    """Return the body if it is an object with a model and only known fields; raise a Refusal (400) otherwise."""
    if not isinstance(body, dict):
        raise _invalid("the body must be a JSON object")
    for name in body:
        if name in UPSTREAM_FIELDS:
            raise _invalid(f"{name}: an upstream field name; use {UPSTREAM_FIELDS[name]}")
        if name not in FIELDS and not allow_unknown_fields:
            raise _invalid(f"{name}: no such field")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise _invalid("model: required, a string")
    return body


def read_request(body: Body, entry: CatalogEntry) -> CreateRequest:
    """Return the request, checked against the model; raise a Refusal (400) that names every problem."""
    problems = [problem for check in _CHECKS for problem in check(body, entry)]
    if problems:
        raise _invalid("; ".join(problems))
    return CreateRequest(
        prompt=body["prompt"],
        seconds=int(_either(body, "duration", "seconds") or entry.durations[0]),
        ratio=_either(body, "ratio", "aspect_ratio") or DEFAULT_RATIO,
        resolution=body.get("resolution") or entry.resolutions[0],
        image_ids=tuple(body.get("image_ids") or ()),
        image_urls=_urls(body, "image_urls", "reference_images"),
        audios=len(_urls(body, "audio_urls", "reference_audios")),
        videos=len(_urls(body, "video_urls", "reference_videos")),
    )


def _check_nulls(body: Body, _: CatalogEntry) -> Iterator[str]:
    """Optional fields may be absent; 2.4 allows null for none of them."""
    for name, value in body.items():
        if name in FIELDS and value is None:
            yield f"{name}: must not be null; leave it out"


def _check_texts(body: Body, entry: CatalogEntry) -> Iterator[str]:
    if not isinstance(body.get("prompt"), str) or not body["prompt"]:
        yield "prompt: required, a string of at least one character"
    if not isinstance(body.get("mode", ""), str):
        yield "mode: must be a string"
    resolution = body.get("resolution")
    if resolution is not None and resolution not in entry.resolutions:
        yield f"resolution: {entry.code} accepts only {', '.join(entry.resolutions)}"


def _check_duration(body: Body, entry: CatalogEntry) -> Iterator[str]:
    given = [body[name] for name in ("duration", "seconds") if body.get(name) is not None]
    if not all(_is_integer(value) for value in given):
        yield "duration: must be an integer of seconds"
    elif any(value not in entry.durations for value in given):
        yield f"duration: {entry.code} accepts only {', '.join(map(str, entry.durations))}"
    elif len(set(given)) > 1:
        yield "seconds: the alias of duration has another value"


def _check_ratio(body: Body, _: CatalogEntry) -> Iterator[str]:
    given = [body[name] for name in ("ratio", "aspect_ratio") if body.get(name) is not None]
    if any(not isinstance(value, str) or value not in RATIOS for value in given):
        yield f"ratio: must be one of {', '.join(RATIOS)}"
    elif len(set(given)) > 1:
        yield "aspect_ratio: the alias of ratio has another value"


def _check_lists(body: Body, _: CatalogEntry) -> Iterator[str]:
    for name in (*URL_LISTS, *OBJECT_LISTS, "image_ids", "attachments"):
        items = _items(body, name)
        if body.get(name) is not None and not isinstance(body[name], list):
            yield f"{name}: must be an array"
        elif name in URL_LISTS:
            yield from _problems_of_urls(name, items)
        elif name in OBJECT_LISTS:
            yield from _problems_of_urls(name, [item.get("url") if isinstance(item, dict) else None for item in items])
        elif name == "image_ids" and not all(isinstance(item, str) and item for item in items):
            yield "image_ids: must hold image ids"
        elif name == "attachments" and not all(isinstance(item, dict) for item in items):
            yield "attachments: must hold objects"


def _check_numbers(body: Body, entry: CatalogEntry) -> Iterator[str]:
    names = {"image": ("image_urls", "reference_images", "image_ids")} | {
        kind: (f"{kind}_urls", f"reference_{kind}s") for kind in ("audio", "video")
    }
    numbers = {kind: sum(len(_items(body, name)) for name in fields) for kind, fields in names.items()}
    limits = {
        "image": entry.max_reference_images,
        "audio": entry.max_reference_audios,
        "video": entry.max_reference_videos,
    }
    for kind, limit in limits.items():
        if limit is not None and numbers[kind] > limit:
            yield f"{entry.code} takes at most {limit} reference {kind}s" if limit else f"{entry.code} takes no {kind}s"
    if numbers["image"] < entry.min_reference_images:
        yield f"{entry.code} needs at least {entry.min_reference_images} reference image"


_CHECKS: Sequence[Callable[[Body, CatalogEntry], Iterator[str]]] = (
    _check_nulls,
    _check_texts,
    _check_duration,
    _check_ratio,
    _check_lists,
    _check_numbers,
)


def _problems_of_urls(name: str, values: Sequence[object]) -> Iterator[str]:
    for at, value in enumerate(values):
        try:
            parts = urlsplit(value) if isinstance(value, str) else None
            host = (parts.hostname or "") if parts else ""
        except ValueError:
            parts, host = None, ""
        if parts is None or parts.scheme not in ("http", "https") or not host:
            yield f"{name}[{at}]: must be a public http or https URL"
        elif any(host == domain or host.endswith(f".{domain}") for domain in EXAMPLE_DOMAINS):
            yield f"{name}[{at}]: a placeholder, not a real file"


def _items(body: Body, name: str) -> list[Any]:
    value = body.get(name)
    return value if isinstance(value, list) else []


def _urls(body: Body, plain: str, objects: str) -> tuple[str, ...]:
    return (*_items(body, plain), *(item["url"] for item in _items(body, objects)))


def _is_integer(value: object) -> bool:
    """Return whether a JSON number is an integer; 5.0 is one."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _either(body: Body, name: str, alias: str) -> Any:
    return body[name] if body.get(name) is not None else body.get(alias)


def _invalid(message: str) -> Refusal:
    return Refusal(400, "INVALID_PARAMETER", message)
