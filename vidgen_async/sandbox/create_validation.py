"""Validates the body of POST /videos (2.4).

The field names, and the patterns of URLs that no service could read, are repeated here on purpose: the sandbox takes
nothing from the SDK, so that it can find its errors. Hosts of private networks are accepted: it runs in one.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Required, TypedDict
from urllib.parse import parse_qsl, unquote, urlsplit

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

_EXAMPLE_HOST = re.compile(
    r"(.*\.)?(example(\.(com|org|net|edu))?|invalid|placeholder\.(com|co)|placehold\.(co|it)"
    r"|(your[-_]?)?domain\.(com|org|net|tld))\.?|your[-_]?(host|domain|site|server|bucket|cdn)|your[-_]bucket([-_]name)?\..*",
    re.IGNORECASE,
)
#: Parts of a URL that were to be filled in.
_UNFILLED = re.compile(
    r"<[^<>/]*>|\{[a-z_. -]*\}|%3C[a-z_ -]*%3E|%24%7B[a-z_. -]*%7D|/path/to/your[-_/ ]|/(\.{3}|…)(?=[/?#]|$)"
    r"|/reference-assets/(\$?(asset|image)[-_]?id/|[^/]*/content/file[-_]?name(?=[?#]|$))"
    r"|(?<=[/=])(([a-z]{2,12}[-_])+x{8,}|x{8}(-x{4}){3}-x{12})(?=[/?&#.]|$)",
    re.IGNORECASE,
)
#: Parameters that give access, and values of them that were to be filled in.
_ACCESS = re.compile(r"(.*[-_.])?(token|sig|signature)", re.IGNORECASE)
_NO_SECRET = re.compile(
    r"<[^<>]*>|\$\w+|\$?\{+[a-z_. -]*\}+|%[a-z_]+%|\[[a-z_ -]*\]|.*(\.{3}|…)|\*{3,}|([a-z]{2,12}[-_])*x{3,}([-_]x+)*"
    r"|todo|tbd|changeme|replace[-_ ]?me|placeholder|null|none|undefined|your[-_ ].*|token|signature|sig|string|secret",
    re.IGNORECASE,
)
#: Parameters with the end of a link, in seconds or milliseconds since 1970.
_END_NAMES = {"exp", "expires", "expire", "expiry", "expires_at", "expiresat", "expiration"}

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


def problem_of_url(value: object, now: float) -> str | None:
    """Return why the service could not read this URL, or None. Signed links expire in real time, too."""
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and "\\" not in parts.netloc
        _ = parts.port  # ValueError if it is no port
    except ValueError:
        is_http = False
    if not isinstance(value, str) or not is_http or value != value.strip():
        return "must be a public http or https URL"
    query = parse_qsl(parts.query, keep_blank_values=True)
    secrets = [text.strip() for name, text in query if _ACCESS.fullmatch(name)]
    is_example = _EXAMPLE_HOST.fullmatch(parts.hostname or "")
    if parts.username or parts.password is not None:
        return "must be readable without a login"
    if unquote(parts.path).lower().endswith((".html", ".htm")):
        return "must lead to a file and no HTML page"
    if is_example or _UNFILLED.search(value) or any(map(_NO_SECRET.fullmatch, secrets)):
        return "must be the URL of a real file and no placeholder"
    if secrets and any(end.timestamp() <= min(now, time.time()) for end in _ends(query)):
        return "must be a link that has not expired"
    return None


def _ends(parameters: Iterable[tuple[str, str]]) -> Iterator[datetime]:
    """Return when a signed link expires, as its service states it: Azure, S3, Google Cloud and others."""
    query = {name.lower(): text for name, text in parameters}
    for name in _END_NAMES & query.keys():
        if re.fullmatch(r"\d{10}|\d{13}", query[name]):
            yield datetime.fromtimestamp(int(query[name][:10]), UTC)
    with suppress(KeyError, ValueError):
        yield datetime.fromisoformat(query["se"]).replace(tzinfo=UTC)
    for prefix in ("x-amz-", "x-goog-", "x-oss-", "x-tos-"):
        with suppress(KeyError, ValueError, OverflowError):
            start = datetime.strptime(query[f"{prefix}date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            yield start + timedelta(seconds=int(query[f"{prefix}expires"]))
