"""What can be said about a request before money is spent (section 2.4): by itself, and against an entry of the catalog
(2.1). A limit that the entry does not give refuses nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from attrs import evolve
from yarl import URL

from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.endpoints import ALIASES, problems_in_json
from vidgen_async.service.references import is_placeholder, problem_of_url
from vidgen_async.types.resources import RATIOS, Catalog, CatalogModel, VideoRequest

#: Names of an upstream protocol, which the service does not take (2.4, rule 1).
UPSTREAM_NAMES = {"images": "image_urls, image_ids or reference_images", "audios": "audio_urls or reference_audios"}
_FIELDS = (*VideoRequest.field_names(), "extra")
#: Arguments of methods that take fields, too.
_ARGUMENTS = {
    "request": "pass it without a name",
    **dict.fromkeys(("order_id", "on_receipt", "on_progress", "validate"), "create and generate have this argument"),
    **dict.fromkeys(("to", "on_update", "timeout"), "generate has this argument"),
}
URL_LISTS = ("image_urls", "video_urls", "audio_urls")
OBJECT_LISTS = ("reference_images", "reference_videos", "reference_audios")

#: How many models a message names, and with how many a misspelt one is compared.
MOST_NAMED = 20
MOST_COMPARED = 500

#: The fields that count together towards one limit of a catalog entry.
_REFERENCES = {
    "image": ("max_reference_images", ("image_ids", "image_urls", "reference_images")),
    "audio": ("max_reference_audios", ("audio_urls", "reference_audios")),
    "video": ("max_reference_videos", ("video_urls", "reference_videos")),
}


def problems_of(
    request: VideoRequest, service: URL | None = None, now: datetime | None = None, *, found: Sequence[str] = ()
) -> list[str]:
    """All that is wrong with the request in itself, each naming the field, the value and what is allowed; ``service``
    and ``now`` are for links. ``found`` are problems that are known already, of other fields than the rest."""
    fields = set(map(field_of, found))
    problems = [*found, *(one for check in _CHECKS for one in check(request) if field_of(one) not in fields)]
    for name, value in _urls(request):
        problem = problem_of_url(value, service, now)
        if problem is not None:
            problems.append(f"{name}: {problem}")
    wrong = set(map(field_of, problems))
    return [*problems, *(problem for problem in problems_in_json(request) if field_of(problem) not in wrong)]


def make_request(
    given: Sequence[object], fields: Mapping[str, Any], absolute: Callable[[str], str] = str
) -> tuple[VideoRequest | None, list[str]]:
    """The request that was ``given`` without a name, or as its fields (what is missing is empty), or None; and what of
    that cannot be used. ``absolute`` completes the URLs of the service's own assets."""
    match given:
        case [VideoRequest() as request] if not fields:
            return _with_absolute_urls(request, absolute), []
        case [VideoRequest()]:
            return None, [f"pass either a VideoRequest or its fields, not both: {', '.join(sorted(fields))}"]
        case [Mapping()]:
            return None, ["pass the fields of a mapping by name: **fields"]
        case [_, *_]:
            kinds = ", ".join(type(one).__name__ for one in given)
            return None, [f'pass the fields by name, model="vendorh3", prompt="…", or one VideoRequest; not {kinds}']
    known = {name: value for name, value in fields.items() if name in _FIELDS}
    problems = [f"{name}: {_problem_of_argument(name)}" for name in fields if name not in known]
    problems += [f"{name}: required" for name in ("model", "prompt") if name not in fields]
    return _with_absolute_urls(VideoRequest(**{"model": "", "prompt": "", **known}), absolute), problems


def _problem_of_argument(name: str) -> str:
    if name in _ARGUMENTS:
        return f"not a field of a request; {_ARGUMENTS[name]}"
    return problem_of_name(name, _FIELDS, "pass undocumented fields in extra={…}")


def problem_of_name(name: object, names: Iterable[str], advice: str) -> str:
    """What is wrong with the name of a field that is none of ``names``. The advice is given if nothing like it is known
    of other services."""
    if isinstance(name, str) and name in UPSTREAM_NAMES:
        return f"not a field of this service; use {UPSTREAM_NAMES[name]}"
    near = get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"no such field{hint}; {advice}"


def _with_absolute_urls(request: VideoRequest, absolute: Callable[[str], str]) -> VideoRequest:
    def complete(item: Any) -> Any:
        if isinstance(item, Mapping) and "url" in item:
            return {**item, "url": complete(item["url"])}
        return absolute(item) if isinstance(item, str) else item

    changes: dict[str, Any] = {}
    for name in ("image_urls", "reference_images"):
        items = tuple(complete(item) for _, item in _items(request, name))
        if items and items != getattr(request, name):
            changes[name] = items
    return evolve(request, **changes) if changes else request


def _check_texts(request: VideoRequest) -> Iterator[str]:
    for name in ("model", "prompt"):
        value = getattr(request, name)
        if not isinstance(value, str):
            yield f"{name}: must be a string, not {type(value).__name__}"
        elif not value or (name == "model" and not value.strip()):
            yield f"{name}: must not be empty"
    if request.resolution is not None and (not isinstance(request.resolution, str) or not request.resolution):
        yield f"resolution: must be a non-empty string: {show_value(request.resolution)}"
    if request.mode is not None and not isinstance(request.mode, str):
        yield f"mode: must be a string: {show_value(request.mode)}"


def _check_duration(request: VideoRequest) -> Iterator[str]:
    for name in ("duration", "seconds"):
        value = getattr(request, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield f"{name}: must be a whole number of seconds, 1 or more: {show_value(value)}"


def _check_ratio(request: VideoRequest) -> Iterator[str]:
    for name in ("ratio", "aspect_ratio"):
        value = getattr(request, name)
        if value is not None and value not in RATIOS:
            yield f"{name}: must be one of {', '.join(RATIOS)}: {show_value(value)}"


def _check_aliases(request: VideoRequest) -> Iterator[str]:
    for alias, name in ALIASES.items():
        one, other = getattr(request, name), getattr(request, alias)
        if None not in (one, other) and one != other:
            values = f"{show_value(one)} and {show_value(other)}"
            yield f"{alias}: an alias of {name}, but they differ ({values}); pass only one"


def _urls(request: VideoRequest) -> Iterator[tuple[str, object]]:
    for name in URL_LISTS:
        for at, value in _items(request, name):
            yield f"{name}[{at}]", value
    for name in OBJECT_LISTS:
        for at, value in _items(request, name):
            if isinstance(value, Mapping) and "url" in value:
                yield f"{name}[{at}].url", value["url"]


def _check_lists(request: VideoRequest) -> Iterator[str]:
    for name in (*URL_LISTS, *OBJECT_LISTS, "image_ids", "attachments"):
        value = getattr(request, name)
        if value is not None and not isinstance(value, tuple):
            yield f"{name}: must be a list, not {type(value).__name__}"
    for name in OBJECT_LISTS:
        for at, value in _items(request, name):
            if not isinstance(value, Mapping) or "url" not in value:
                yield f"{name}[{at}]: must be an object with a url, not {type(value).__name__}"
    for at, value in _items(request, "attachments"):
        if not isinstance(value, Mapping):
            yield f"attachments[{at}]: must be an object, not {type(value).__name__}"


def _check_ids(request: VideoRequest) -> Iterator[str]:
    for at, value in _items(request, "image_ids"):
        if not isinstance(value, str) or not value.strip():
            yield f"image_ids[{at}]: must be the image_id of an upload: {show_value(value)}"
        elif is_placeholder(value):
            yield f"image_ids[{at}]: a placeholder, not the image_id of an upload: {show_value(value)}"


def _check_extra(request: VideoRequest) -> Iterator[str]:
    for name in request.extra if isinstance(request.extra, Mapping) else ():
        if name in UPSTREAM_NAMES:
            yield f"extra[{name!r}]: not a field of this service; use {UPSTREAM_NAMES[name]}"
        elif name in VideoRequest.field_names():
            yield f"extra[{name!r}]: a regular field; pass it as {name}=…"


_CHECKS: tuple[Callable[[VideoRequest], Iterator[str]], ...] = (
    _check_texts,
    _check_duration,
    _check_ratio,
    _check_aliases,
    _check_lists,
    _check_ids,
    _check_extra,
)


def _items(request: VideoRequest, name: str) -> Iterator[tuple[int, Any]]:
    value: Sequence[Any] | None = getattr(request, name)
    return enumerate(value if isinstance(value, tuple) else ())


def show_value(value: object) -> str:
    """A text in quotes, shortened and without secrets; a number as it is; of anything else the type."""
    if isinstance(value, str):
        return repr(excerpt(value, limit=80))
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**40 else "a number of very many digits"
    return f"<{type(value).__name__}>"


def field_of(problem: str) -> str:
    """The field that a problem names first."""
    return problem.partition(":")[0].partition("[")[0]


# -- against an entry of the catalog ----------------------------------------------------------------------------------


def problems_in_catalog(request: VideoRequest, catalog: Catalog) -> list[str]:
    """Why the model cannot be used now (section 3), or all in the request that it does not take. What the catalog does
    not state, or what of it cannot be read, refuses nothing."""
    code, model = request.model, catalog.find(request.model)
    if model is None:
        if "unreadable" in catalog.extra:
            return []
        near = get_close_matches(code, [model.code for model in catalog.usable[:MOST_COMPARED]], n=1)
        why = "not available with this API key" + (f" (did you mean {near[0]!r}?)" if near else "")
    elif model.maintenance or model.enabled is False:
        why = "in maintenance" if model.maintenance else "not enabled"
    else:
        checks = (_check_model_duration, _check_model_resolution, _check_references)
        return [problem for check in checks for problem in check(request, model)]
    codes = [model.code for model in catalog.usable]
    more = f" and {len(codes) - MOST_NAMED} more" if len(codes) > MOST_NAMED else ""
    usable = (", ".join(codes[:MOST_NAMED]) or "none") + more
    return [f"model: {show_value(code)} is {why}; available models: {usable}"]


def _check_model_duration(request: VideoRequest, model: CatalogModel) -> Iterator[str]:
    for name in ("duration", "seconds"):
        value = getattr(request, name)
        if value is not None and model.durations and value not in model.durations:
            allowed = ", ".join(map(str, model.durations))
            yield f"{name}: {model.code} supports {allowed} seconds, not {show_value(value)}"


def _check_model_resolution(request: VideoRequest, model: CatalogModel) -> Iterator[str]:
    value = request.resolution
    if value is not None and model.resolutions and value not in model.resolutions:
        allowed = ", ".join(model.resolutions)
        yield f"resolution: {model.code} supports {allowed}, not {show_value(value)}"


def _check_references(request: VideoRequest, model: CatalogModel) -> Iterator[str]:
    counts = {name: len([*_items(request, name)]) for _, fields in _REFERENCES.values() for name in fields}
    for kind, (limit_name, fields) in _REFERENCES.items():
        number = sum(counts[name] for name in fields)
        limit: int | None = getattr(model, limit_name)
        if limit is not None and 0 <= limit < number:
            takes = f"takes at most {limit} reference {kind}s" if limit else f"takes no reference {kind}s"
            yield f"{' + '.join(name for name in fields if counts[name])}: {number} given; {model.code} {takes}"
    wanted = model.min_reference_images
    _, fields = _REFERENCES["image"]
    # What an attachment may hold is not documented: it could be the image.
    if not request.attachments and sum(counts[name] for name in fields) < wanted:
        names = f"local_images, {', '.join(fields[:-1])} or {fields[-1]}"
        yield f"image_ids: {model.code} needs at least {wanted} image, in {names}"
