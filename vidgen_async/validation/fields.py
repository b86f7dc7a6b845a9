"""What can be said about a request before anything is sent (section 2.4), without asking the service."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from yarl import URL

from vidgen_async.errors import InvalidRequestError
from vidgen_async.redaction import excerpt
from vidgen_async.resources import VideoRequest

RATIOS = ("9:16", "1:1", "3:4", "4:3", "16:9")

#: Names of an upstream protocol, which the service does not take (2.4, rule 1).
UPSTREAM_NAMES = {"images": "image_urls, image_ids or reference_images", "audios": "audio_urls or reference_audios"}


def check_request(request: VideoRequest) -> None:
    """Raise InvalidRequestError with *all* the problems, each naming the field, the value and what is allowed."""
    problems = [problem for check in _CHECKS for problem in check(request)]
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
    if problems:
        raise InvalidRequestError(f"the request was not sent: {'; '.join(problems)}", problems=problems)
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
            yield f"{name}: must be a non-empty string: {value!r}"


def _check_duration(request: VideoRequest) -> Iterator[str]:
    for name in ("duration", "seconds"):
        value = getattr(request, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield f"{name}: must be a whole number of seconds, 1 or more: {value!r}"
    if None not in (request.duration, request.seconds) and request.duration != request.seconds:
        yield f"seconds: the alias of duration, but {request.seconds!r} is not {request.duration!r}"


def _check_ratio(request: VideoRequest) -> Iterator[str]:
    for name in ("ratio", "aspect_ratio"):
        value = getattr(request, name)
        if value is not None and value not in RATIOS:
            yield f"{name}: must be one of {', '.join(RATIOS)}: {value!r}"
    if None not in (request.ratio, request.aspect_ratio) and request.ratio != request.aspect_ratio:
        yield f"aspect_ratio: the alias of ratio, but {request.aspect_ratio!r} is not {request.ratio!r}"


def _check_urls(request: VideoRequest) -> Iterator[str]:
    for name in ("image_urls", "video_urls", "audio_urls"):
        for at, value in _items(request, name):
            yield from _problems_of_url(f"{name}[{at}]", value)
    for name in ("reference_images", "reference_videos", "reference_audios"):
        for at, value in _items(request, name):
            if isinstance(value, Mapping) and "url" in value:
                yield from _problems_of_url(f"{name}[{at}].url", value["url"])
            else:
                yield f"{name}[{at}]: must be an object with a url, not {type(value).__name__}"


def _check_lists(request: VideoRequest) -> Iterator[str]:
    names = [name for name in VideoRequest.field_names() if name.endswith(("_urls", "_ids", "attachments"))]
    for name in (*names, "reference_images", "reference_videos", "reference_audios"):
        value = getattr(request, name)
        if value is not None and not isinstance(value, tuple):
            yield f"{name}: must be a list, not {type(value).__name__}"
    for at, value in _items(request, "image_ids"):
        if not isinstance(value, str) or not value.strip():
            yield f"image_ids[{at}]: must be the image_id of an upload: {value!r}"
    for at, value in _items(request, "attachments"):
        if not isinstance(value, Mapping):
            yield f"attachments[{at}]: must be an object, not {type(value).__name__}"


def _check_extra(request: VideoRequest) -> Iterator[str]:
    for name in request.extra:
        if name in UPSTREAM_NAMES:
            yield f"extra[{name!r}]: not a field of this service; use {UPSTREAM_NAMES[name]}"
        elif name in VideoRequest.field_names():
            yield f"extra[{name!r}]: a documented field; give it as {name}=…"


_CHECKS: tuple[Callable[[VideoRequest], Iterator[str]], ...] = (
    _check_texts,
    _check_duration,
    _check_ratio,
    _check_lists,
    _check_urls,
    _check_extra,
)


def _items(request: VideoRequest, name: str) -> Iterator[tuple[int, Any]]:
    value: Sequence[Any] | None = getattr(request, name)
    return enumerate(value if isinstance(value, tuple) else ())


def _problems_of_url(name: str, value: object) -> Iterator[str]:
    """2.4, rule 3: the service must be able to read it; a path, file: or data: it cannot."""
    if not isinstance(value, str):
        yield f"{name}: must be a string, not {type(value).__name__}"
        return
    try:
        url = URL(value, encoded=True)
        is_public = url.scheme in ("http", "https") and bool(url.host)
    except ValueError:
        is_public = False
    if not is_public:
        yield f"{name}: must be a public http or https URL (upload a local image with files.upload): {excerpt(value)!r}"
