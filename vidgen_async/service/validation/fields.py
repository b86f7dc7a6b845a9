"""What can be said about a request by itself (section 2.4), without asking the service."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from yarl import URL

from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.request_body import why_not_json
from vidgen_async.service.validation.references import is_placeholder, problem_of_url
from vidgen_async.service.validation.value_repr import shown
from vidgen_async.types.resources import VideoRequest

RATIOS = ("9:16", "1:1", "3:4", "4:3", "16:9")

#: Names of an upstream protocol, which the service does not take (2.4, rule 1).
UPSTREAM_NAMES = {"images": "image_urls, image_ids or reference_images", "audios": "audio_urls or reference_audios"}
URL_LISTS = ("image_urls", "video_urls", "audio_urls")
OBJECT_LISTS = ("reference_images", "reference_videos", "reference_audios")


def problems_of(request: VideoRequest, service: URL | None = None, now: datetime | None = None) -> list[str]:
    """All that is wrong with the request in itself, each naming the field, the value and what is allowed. ``service``
    is where it would go to: one that is not on the public internet may reach what others cannot. ``now`` tells whether
    a link has expired."""
    problems = [problem for check in _CHECKS for problem in check(request)]
    for name, value in _urls(request):
        problem = problem_of_url(value, service, now)
        if problem is not None:
            problems.append(f"{name}: {problem}")
    values = {name: getattr(request, name) for name in (*VideoRequest.field_names(), "extra")}
    if why_not_json(values) is not None:
        wrong = set(map(field_of, problems))
        for name, value in values.items():
            problem = why_not_json(value) if name not in wrong else None
            if problem is not None:
                problems.append(f"{name}: {problem}")
    return problems


def refuse(problems: Sequence[str]) -> None:
    """Raise InvalidRequestError if there are problems."""
    if problems:
        raise InvalidRequestError(f"the request was not sent: {'; '.join(problems)}", problems=problems)


def make_request(request: VideoRequest | None, fields: Mapping[str, Any]) -> VideoRequest:
    """The request that was given as an object or as its fields; not both. Unknown fields are named."""
    if request is not None:
        if fields:
            problem = f"give a VideoRequest or its fields, not both: {', '.join(sorted(fields))}"
            raise InvalidRequestError(problem, problems=[problem])
        return request
    problems = [
        f"{name}: no such field; {UPSTREAM_NAMES.get(name, 'an undocumented one goes into extra={…}')}"
        if name not in UPSTREAM_NAMES
        else f"{name}: not a field of this service; use {UPSTREAM_NAMES[name]}"
        for name in fields
        if name not in (*VideoRequest.field_names(), "extra")
    ]
    problems += [f"{name}: required" for name in ("model", "prompt") if name not in fields]
    refuse(problems)
    return VideoRequest(**fields)


def _check_texts(request: VideoRequest) -> Iterator[str]:
    for name in ("model", "prompt"):
        value = getattr(request, name)
        if not isinstance(value, str):
            yield f"{name}: must be a string, not {type(value).__name__}"
        elif not value.strip():
            yield f"{name}: must not be empty"
    for name in ("resolution", "mode"):
        value = getattr(request, name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            yield f"{name}: must be a non-empty string: {shown(value)}"


def _check_duration(request: VideoRequest) -> Iterator[str]:
    for name in ("duration", "seconds"):
        value = getattr(request, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield f"{name}: must be a whole number of seconds, 1 or more: {shown(value)}"
    if None not in (request.duration, request.seconds) and request.duration != request.seconds:
        yield f"seconds: the alias of duration, but {shown(request.seconds)} is not {shown(request.duration)}"


def _check_ratio(request: VideoRequest) -> Iterator[str]:
    for name in ("ratio", "aspect_ratio"):
        value = getattr(request, name)
        if value is not None and value not in RATIOS:
            yield f"{name}: must be one of {', '.join(RATIOS)}: {shown(value)}"
    if None not in (request.ratio, request.aspect_ratio) and request.ratio != request.aspect_ratio:
        yield f"aspect_ratio: the alias of ratio, but {shown(request.aspect_ratio)} is not {shown(request.ratio)}"


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
            yield f"image_ids[{at}]: must be the image_id of an upload: {shown(value)}"
        elif is_placeholder(value):
            yield f"image_ids[{at}]: a placeholder, not the image_id of an upload: {shown(value)}"


def _check_extra(request: VideoRequest) -> Iterator[str]:
    if not isinstance(request.extra, Mapping):
        yield f"extra: must be an object, not {type(request.extra).__name__}"
        return
    for name in request.extra:
        if not isinstance(name, str):
            yield f"extra: its names must be strings, not {type(name).__name__}"
        elif name in UPSTREAM_NAMES:
            yield f"extra[{name!r}]: not a field of this service; use {UPSTREAM_NAMES[name]}"
        elif name in VideoRequest.field_names():
            yield f"extra[{name!r}]: a documented field; give it as {name}=…"


_CHECKS: tuple[Callable[[VideoRequest], Iterator[str]], ...] = (
    _check_texts,
    _check_duration,
    _check_ratio,
    _check_lists,
    _check_ids,
    _check_extra,
)


def _items(request: VideoRequest, name: str) -> Iterator[tuple[int, Any]]:
    value: Sequence[Any] | None = getattr(request, name)
    return enumerate(value if isinstance(value, tuple) else ())


def field_of(problem: str) -> str:
    """The field that a problem names first."""
    return problem.partition(":")[0].partition("[")[0]
