"""The six endpoints (section 4) as requests: where they go, the one header that holds the key, the body of a create."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import quote

from attrs import Factory, evolve, field, frozen
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from vidgen_async.errors import InvalidRequestError
from vidgen_async.redaction.messages import is_plain_word
from vidgen_async.service.api_keys import KeyRing
from vidgen_async.types.http import Body, Headers, Request, Timeouts, make_headers
from vidgen_async.types.orders import OrderContent
from vidgen_async.types.resources import ASSETS_PATH, TaskLike, VideoRequest, task_id_of

#: Bytes in UTF-8. PostgreSQL indexes at most 2,700 bytes, of which an order's account and id may need 1,600.
LONGEST_TASK_ID = 500
#: A task id that is its own path segment.
_PLAIN_ID = re.compile(rf"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{{0,{LONGEST_TASK_ID - 1}}}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
#: Compatibility aliases in requests, and the fields that they stand for (section 9).
ALIASES = {"seconds": "duration", "aspect_ratio": "ratio"}


@frozen
class Endpoints:
    """Builds every request to the service. The key goes into the Authorization header of these requests only, and so do
    the headers of the user into theirs."""

    base_url: URL
    """Without a trailing slash; ends in ``/openapi/v1`` (section 9)."""
    api_key: str | KeyRing = field(repr=False)
    """The key; or where the sender of a request gets it, who then calls :meth:`KeyRing.add_to`."""
    timeouts: Timeouts = field(factory=Timeouts)
    user_headers: Headers = field(factory=make_headers, repr=False)
    """Are sent to the service with every request."""
    user_agent: str = ""
    is_for_polls: bool = False
    """Whether its reads are polls, which have connections of their own."""
    _read_headers: Headers = field(
        default=Factory(lambda self: self._headers({}), takes_self=True), init=False, repr=False
    )
    _unlimited: Timeouts = field(
        default=Factory(lambda self: evolve(self.timeouts, answer=None), takes_self=True), init=False, repr=False
    )
    """For videos, however long they are, and for creates, which have a time limit of their own."""

    @property
    def key_ring(self) -> KeyRing | None:
        return self.api_key if isinstance(self.api_key, KeyRing) else None

    @property
    def secret_values(self) -> tuple[str, ...]:
        """The values that no message may show: the key, and what the user's headers hold."""
        key = (self.api_key,) if isinstance(self.api_key, str) else ()
        return (*key, *self.user_headers.values())

    @property
    def origin(self) -> str:
        """``scheme://host[:port]`` of the service."""
        return str(self.base_url.origin())

    def is_own(self, url: URL) -> bool:
        own = self.base_url
        return (url.scheme, (url.host or "").lower(), url.port) == (own.scheme, (own.host or "").lower(), own.port)

    def _headers(self, more: Mapping[str, str]) -> Headers:
        key = self.api_key if isinstance(self.api_key, str) else ""
        own = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        if self.user_agent:
            own["User-Agent"] = self.user_agent
        return CIMultiDictProxy(CIMultiDict([*self.user_headers.items(), *{**own, **more}.items()]))

    def _url(self, path: str) -> URL:
        # Not parsed as a whole: this is done for each poll.
        return self.base_url.with_path(self.base_url.raw_path + path, encoded=True)

    def _get(self, op: str, path: str) -> Request:
        pool: Literal["polls", "reads"] = "polls" if self.is_for_polls else "reads"
        headers, timeouts = self._read_headers, self.timeouts
        return Request(op=op, method="GET", url=self._url(path), headers=headers, timeouts=timeouts, pool=pool)

    def _post(self, op: str, path: str, body: Body, headers: Headers, timeouts: Timeouts) -> Request:
        return Request(op=op, method="POST", url=self._url(path), headers=headers, body=body, timeouts=timeouts)

    def list_models(self) -> Request:
        return self._get("models.list", "/models")

    def get_account(self) -> Request:
        return self._get("account.get", "/account")

    def get_video(self, task: TaskLike) -> Request:
        return self._get("videos.get", f"/videos/{quoted_task_id(task)}")

    def get_content(self, task: TaskLike, *, byte_range: str | None = None, validator: str | None = None) -> Request:
        """The video itself (4.6), uncompressed, so that lengths and ranges mean what they say."""
        more = {"Accept": "*/*", "Accept-Encoding": "identity"}
        if byte_range is not None:
            more["Range"] = byte_range
        if validator is not None:
            more["If-Range"] = validator
        read = self._get("videos.content", f"/videos/{quoted_task_id(task)}/content")
        return evolve(read, headers=self._headers(more), timeouts=self._unlimited, pool="streams")

    def create_file(self, body: Body) -> Request:
        return self._post("files.create", "/files", body, self._read_headers, self.timeouts)

    def create_video(self, body: Body, idempotency_key: str) -> Request:
        # Uncompressed: what is received is read as it is, whatever its label.
        headers = self._headers({"Idempotency-Key": idempotency_key, "Accept-Encoding": "identity"})
        return self._post("videos.create", "/videos", body, headers, self._unlimited)

    def absolute(self, url: str) -> str:
        """2.3: an address that starts with ``/`` gets the service's host; nothing else of it changes."""
        return f"{self.origin}{url}" if url.startswith("/") and not url.startswith("//") else url

    def absolute_asset(self, url: str) -> str:
        """The same for the address of an asset only: another one that starts with ``/`` may be a local path."""
        return self.absolute(url) if url.startswith(ASSETS_PATH) else url


def checked_task_id(task: TaskLike) -> str:
    """Return the task id. InvalidRequestError if it is empty, blank, ``.`` or ``..`` (which would address another
    path), longer than :data:`LONGEST_TASK_ID`, or not valid text."""
    task_id = task_id_of(task)
    if not is_task_id(task_id):
        rule = f"a task id must be text of at most {LONGEST_TASK_ID} bytes, and not empty, blank or dots"
        raise InvalidRequestError(f"{rule}: {task_id[:100]!r}")
    return task_id


def is_task_id(text: str) -> bool:
    """Whether this is a valid task id: not blank, dots or too long. A lone surrogate is not valid text."""
    return _PLAIN_ID.fullmatch(text) is not None or (
        text.strip() not in {"", ".", ".."}
        and _LONE_SURROGATE.search(text) is None
        and len(text.encode()) <= LONGEST_TASK_ID
    )


def quoted_task_id(task: TaskLike) -> str:
    if isinstance(task, str) and _PLAIN_ID.fullmatch(task):
        return task
    return quote(checked_task_id(task), safe="")


def write_json(value: object) -> bytes:
    """The same bytes for equal values. TypeError, ValueError or RecursionError for what JSON cannot hold."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode()


def why_not_json(value: object) -> str | None:
    """Why the value cannot be written; None when it can. It is not quoted."""
    try:
        write_json(value)
    except UnicodeError:
        return "cannot be written as JSON: it holds a lone surrogate"
    except (TypeError, ValueError, RecursionError) as error:
        return f"cannot be written as JSON: {error}"
    return None


def create_body(request: VideoRequest) -> bytes:
    """The body of a create: the fields that are set, and ``extra``, aliases (section 9) under the name that they stand
    for, so that equal requests have equal digests. InvalidRequestError names what JSON cannot hold."""
    data = {name: value for name in VideoRequest.field_names() if (value := getattr(request, name)) is not None}
    if isinstance(request.extra, Mapping):
        data.update(request.extra)
        _replace_aliases(data)
        with suppress(TypeError, ValueError, RecursionError):
            return write_json(data)
    raise refusal(problems_in_json(request))  # out here: as a cause the error would quote the request


def refusal(problems: Sequence[str]) -> InvalidRequestError:
    return InvalidRequestError(f"the request was not sent: {'; '.join(problems)}", problems=problems)


def problems_in_json(request: VideoRequest) -> list[str]:
    """What of the request JSON cannot hold, by its fields."""
    extra: object = request.extra
    if not isinstance(extra, Mapping):
        why: str | None = f"must be an object, not {type(extra).__name__}"
    elif others := [name for name in extra if not isinstance(name, str)]:
        why = f"its names must be strings, not {type(others[0]).__name__}"
    else:
        why = why_not_json(extra)
    reasons = {"extra": why} | {name: why_not_json(getattr(request, name)) for name in VideoRequest.field_names()}
    return [f"{name}: {why}" for name, why in reasons.items() if why is not None]


def _replace_aliases(data: dict[str, Any]) -> None:
    """Put values under the names that the aliases stand for (section 9); two different values stay as they are."""
    for alias, name in ALIASES.items():
        if alias in data and repr(data.get(name, data[alias])) == repr(data[alias]):  # 5 is not 5.0, and 1 is not true
            data[name] = data.pop(alias)


def is_same_request(one: OrderContent, other: OrderContent) -> bool:
    """Whether both ask for the same: also where one was stored with the alias of a field, and where the same local
    images were uploaded twice, so that they have different ids."""
    return one.body == other.body or _canonical(one) == _canonical(other)


def changed_fields(one: OrderContent, other: OrderContent) -> list[str]:
    """The names of the fields in which the two differ, none if both ask for the same."""
    first, second = (
        {name: write_json(value) for name, value in json.loads(_canonical(content)).items()} for content in (one, other)
    )
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _canonical(content: OrderContent) -> bytes:
    data: dict[str, Any] = json.loads(content.body)
    _replace_aliases(data)
    if content.local_images:
        data["image_ids"] = content_of_images(content, data["image_ids"])
    return write_json(data)


def content_of_images(content: OrderContent, image_ids: Iterable[Any]) -> list[Any]:
    """The SHA-256 of each local image of the order, and the ids of all others, by which images are compared."""
    return [content.local_images.get(each, each) if isinstance(each, str) else each for each in image_ids]


def add_image_ids(request: VideoRequest, ids: Iterable[str]) -> VideoRequest:
    """The request with more images, after its own. InvalidRequestError if its own ``image_ids`` are no list, or are in
    ``extra``, which would replace the others."""
    if isinstance(request.extra, Mapping) and "image_ids" in request.extra:
        raise refusal(["extra: image_ids in it would replace the ids of the local images: pass them as image_ids"])
    own = () if request.image_ids is None else request.image_ids
    if not isinstance(own, tuple):
        raise refusal([f"image_ids: must be a list, not {type(own).__name__}"])
    return evolve(request, image_ids=(*own, *ids))


def read_request(body: bytes) -> VideoRequest:
    """The request that :func:`create_body` wrote."""
    data = json.loads(body)
    known = {name: data.pop(name) for name in VideoRequest.field_names() if name in data}
    return VideoRequest(**{"model": "", "prompt": "", **known}, extra=data)


def model_of(body: bytes) -> str | None:
    """The model in the body of a create, if it is one plain word, as the service's are."""
    model = json.loads(body).get("model")
    return model if isinstance(model, str) and is_plain_word(model) else None


def prompt_of(body: bytes) -> str:
    """The prompt in the body of a create: what no message may show."""
    prompt = json.loads(body).get("prompt")
    return prompt if isinstance(prompt, str) else ""
