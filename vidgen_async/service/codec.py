"""The one place where JSON becomes values and values become JSON (cattrs), and where answers become errors.

Answers are read as far as they can be. A field that cannot be read as its type is left out and kept, as it came, in
``extra`` under its wire name; only what a value cannot be without (an id) is an UnexpectedResponseError.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import eq
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import attrs
from cattrs import BaseConverter
from cattrs.converters import Converter
from cattrs.gen import make_dict_structure_fn, override
from yarl import URL

from vidgen_async import errors
from vidgen_async.errors import InvalidRequestError, ServiceError, UnexpectedResponseError
from vidgen_async.redaction.messages import LONGEST_READ, excerpt, hide_secrets, is_plain_word
from vidgen_async.service.json_encoding import why_not_json, write_json
from vidgen_async.types.http import Headers, make_headers
from vidgen_async.types.limits import retry_after
from vidgen_async.types.orders import Attempt, AttemptOutcome, Evidence
from vidgen_async.types.resources import Account, Catalog, CatalogModel, Extra, ReferenceAsset, VideoRequest, VideoTask

T = TypeVar("T")


# -- reading values --------------------------------------------------------------------------------------------------


def _integer(value: Any, _: Any = None) -> int:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, int):
        return value
    if isinstance(value, float | str):
        number = float(value)
        if number.is_integer():
            return int(value) if isinstance(value, str) and value.strip().lstrip("+-").isdigit() else int(number)
    raise TypeError


def _text(value: Any, _: Any = None) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _identifier(value: Any, _: Any = None) -> str:
    """An id: a non-empty string, or an integer."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise TypeError


def _truth(value: Any, _: Any = None) -> bool:
    if isinstance(value, bool):
        return value
    named = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if named is None or not isinstance(value, int | str):
        raise TypeError
    return named


def _moment(value: Any, _: Any = None) -> datetime:
    """Timestamps are in seconds (2.5)."""
    return datetime.fromtimestamp(_integer(value), UTC)


def _items(read: Callable[[Any], T]) -> Callable[[Any, Any], tuple[T, ...]]:
    def read_all(value: Any, _: Any = None) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple(read(item) for item in value)

    return read_all


def _text_or_none(value: Any, _: Any = None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError


def _integer_or_none(value: Any, _: Any = None) -> int | None:
    return None if value is None else _integer(value)


def _moment_or_none(value: Any, _: Any = None) -> datetime | None:
    return None if value is None else _moment(value)


def _as_it_came(value: Any, _: Any = None) -> Any:
    return value


_HOOKS: dict[Any, Callable[[Any, Any], Any]] = {
    bool: _truth,
    str: _text,
    str | None: _text_or_none,
    int | None: _integer_or_none,
    datetime | None: _moment_or_none,
    tuple[int, ...]: _items(_integer),
    tuple[str, ...]: _items(_text),
}

_converter: BaseConverter = Converter(detailed_validation=False)
for _kind, _hook in _HOOKS.items():
    if isinstance(_kind, type):
        _converter.register_structure_hook(_kind, _hook)
    else:
        _converter.register_structure_hook_func(partial(eq, _kind), _hook)


#: Fields of values that are not fields of the JSON object.
_NOT_READ = frozenset({"extra", "request_id"})


class _Reader(Generic[T]):
    """Reads one resource class from a JSON object: at one go when all is well, field by field when it is not."""

    def __init__(self, cls: Callable[..., T], *, identity: str, **wire: str) -> None:
        self._cls = cls
        self._identity = identity
        shape: Any = cls
        kinds = {attribute.name: attribute.type for attribute in attrs.fields(shape) if attribute.name not in _NOT_READ}
        names = {name: wire.get(name, name) for name in kinds}
        self._names = names
        self._known = frozenset(names.values())
        overrides = {name: override(rename=wire_name) for name, wire_name in names.items()}
        overrides[identity] = override(rename=names[identity], struct_hook=_identifier)
        overrides["extra"] = override(struct_hook=_as_it_came)
        overrides["request_id"] = override(omit=True)
        make: Any = make_dict_structure_fn  # its signature does not allow for fields by name beside its own options
        self._read: Callable[[Any, Any], T] = make(cls, _converter, _cattrs_detailed_validation=False, **overrides)
        self._fields = {name: _HOOKS.get(kind, _as_it_came) for name, kind in kinds.items()} | {identity: _identifier}

    def __call__(self, data: Mapping[str, Any]) -> T:
        """Raises KeyError when the identity is missing or unusable."""
        known = self._known
        extra = {name: value for name, value in data.items() if name not in known}
        try:
            return self._read({**data, "extra": extra}, self._cls)
        except Exception:  # noqa: BLE001 - generated code raises whatever the odd value provokes; read it slowly
            return self._field_by_field(data, extra)

    def _field_by_field(self, data: Mapping[str, Any], extra: dict[str, Any]) -> T:
        values: dict[str, Any] = {}
        for name, wire_name in self._names.items():
            value = data.get(wire_name)
            if value is None:
                continue
            try:
                values[name] = self._fields[name](value, None)
            except (TypeError, ValueError, OverflowError, OSError):
                extra[wire_name] = value
        if self._identity not in values:
            raise KeyError(self._names[self._identity])
        return self._cls(**values, extra=extra)


_read_model = _Reader(
    CatalogModel,
    identity="code",
    max_reference_images="maxReferenceImages",
    max_reference_audios="maxReferenceAudios",
    max_reference_videos="maxReferenceVideos",
)
_read_asset = _Reader(ReferenceAsset, identity="id")
_read_task = _Reader(VideoTask, identity="id")
_NO_STATES: Mapping[str, str] = MappingProxyType({})


# -- answers ---------------------------------------------------------------------------------------------------------


class Answer:
    """One complete answer of the service, with what is needed to turn it into a value or an error.

    ``known`` are values that no message may show: the API key, a prompt, an Idempotency-Key.
    """

    __slots__ = ("body", "headers", "known", "op", "status", "url")

    def __init__(
        self, op: str, status: int, headers: Headers, body: bytes, *, url: URL, known: Iterable[str] = ()
    ) -> None:
        self.op: str = op
        self.status: int = status
        self.headers: Headers = headers
        self.body: bytes = body
        self.url: URL = url
        self.known: tuple[str, ...] = tuple(known)

    def json(self) -> Any:
        """The body as JSON; UnexpectedResponseError quotes what came instead."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise self.unexpected("is not JSON") from error

    def object(self) -> dict[str, Any]:
        """The body as a JSON object."""
        data = self.json()
        if not isinstance(data, dict):
            raise self.unexpected("is not a JSON object")
        return data

    def unexpected(self, what: str) -> UnexpectedResponseError:
        """The error for a body that cannot be used, quoting it."""
        quoted = excerpt(self.body, self.known)
        request = _shown_request_id(self.headers, self.known)
        message = f"{self.op}: the answer ({self.status}) {what}: {quoted or 'it is empty'}{request}"
        return UnexpectedResponseError(
            message, status=self.status, body=self.body, request_id=request_id_of(self.headers)
        )


def read_catalog(answer: Answer) -> Catalog:
    """GET /models (4.1). An entry without a code cannot be named in a create: it is kept in ``extra["unreadable"]``."""
    data = answer.object()
    entries = data.get("models")
    if not isinstance(entries, list):
        raise answer.unexpected("has no array of models")
    models: list[CatalogModel] = []
    unreadable: list[Any] = []
    for entry in entries:
        try:
            models.append(_read_model(entry))
        except (KeyError, TypeError, AttributeError):
            unreadable.append(entry)
    extra = {name: value for name, value in data.items() if name != "models"}
    if unreadable:
        extra["unreadable"] = unreadable
    return Catalog(models=tuple(models), extra=extra)


def read_account(answer: Answer) -> Account:
    """GET /account (4.2)."""
    return Account(extra=answer.object())


def read_asset(answer: Answer, absolute: Callable[[str], str]) -> ReferenceAsset:
    """POST /files (4.3). ``image_id`` and ``id`` stand for each other; ``absolute`` puts the host before a path."""
    data = answer.object()
    given = dict(data)
    given.setdefault("id", data.get("image_id"))
    given.setdefault("image_id", data.get("id"))
    try:
        asset = _read_asset(given)
    except KeyError as error:
        raise answer.unexpected("has neither id nor image_id") from error
    except TypeError:
        # Field by field, image_id was unreadable: the two have the same meaning (2.3).
        asset = _read_asset({**given, "image_id": _identifier(given["id"])})
    return attrs.evolve(asset, url=None if asset.url is None else absolute(asset.url))


def read_task(answer: Answer, task_id: str, terminal_states: Mapping[str, str] = _NO_STATES) -> VideoTask:
    """GET /videos/{id} (4.5) for this task: its ``id`` is the one that was asked for, which the answer must give as its
    ``id`` or its ``task_id`` (2.5). Another value of either stays in ``extra``; so does a state in ``terminal_states``,
    which gives the state that it counts as."""
    task = _read_asked_task(answer, task_id)
    changes: dict[str, Any] = {}
    if (request_id := request_id_of(answer.headers)) is not None:
        changes["request_id"] = request_id
    if task.status is not None and (end := terminal_states.get(task.status)) is not None:
        changes |= {"status": end, "extra": {**task.extra, "status": task.status}}
    return attrs.evolve(task, **changes) if changes else task


def _read_asked_task(answer: Answer, task_id: str) -> VideoTask:
    data = answer.object()
    if data.get("id") == task_id and data.get("task_id") in (None, task_id):  # as every poll
        data.pop("task_id", None)
        return _read_task(data)
    ids = {name: _id_or_none(data.get(name)) for name in ("id", "task_id")}
    if task_id not in ids.values():
        raise answer.unexpected("has neither id nor task_id" if not any(ids.values()) else "is about another task")
    others = {name: data[name] for name, value in ids.items() if name in data and value not in (None, task_id)}
    task = _read_task({**{name: value for name, value in data.items() if name not in ids}, "id": task_id})
    return attrs.evolve(task, extra={**task.extra, **others}) if others else task


def _id_or_none(value: Any) -> str | None:
    try:
        return _identifier(value)
    except TypeError:
        return None


def read_look(
    answer: Answer, task_id: str, seen: int | None, terminal_states: Mapping[str, str] = _NO_STATES
) -> tuple[VideoTask | None, int]:
    """GET /videos/{id} for who looks often: the task, or None where the answer is the one with the mark ``seen``, byte
    for byte; and the mark of this one."""
    mark = hash(answer.body)
    return (None if mark == seen else read_task(answer, task_id, terminal_states)), mark


def read_created_id(body: bytes) -> tuple[str | None, dict[str, Any]]:
    """The task id in the answer to a create (4.4), and what else the answer held.

    ``id``, else ``task_id``; a non-empty string or an integer. None when there is none: nothing else stands for it
    (an ``upstream_task_id`` does not).
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None, {}
    if not isinstance(data, dict):
        return None, {}
    for name in ("id", "task_id"):
        try:
            return _identifier(data.get(name)), {
                key: value for key, value in data.items() if key not in {"id", "task_id"}
            }
        except TypeError:
            continue
    return None, {}


#: Compatibility aliases in requests, and the fields that they stand for (section 9).
_ALIASES = {"seconds": "duration", "aspect_ratio": "ratio"}

# -- requests --------------------------------------------------------------------------------------------------------


def create_body(request: VideoRequest) -> bytes:
    """The body of a create: the documented fields that are set, then ``extra``; the same bytes for the same request.

    Keys are sorted, numbers must be finite and aliases (section 9) are sent under the name that they stand for, so that
    equal requests have equal digests. InvalidRequestError names what JSON cannot hold.
    """
    data = {name: value for name in VideoRequest.field_names() if (value := getattr(request, name)) is not None}
    if isinstance(request.extra, Mapping):
        data.update(request.extra)
    _replace_aliases(data)
    if isinstance(request.extra, Mapping):
        with suppress(TypeError, ValueError, RecursionError):
            return write_json(data)
    # Raised out here: as a cause the error would quote the request.
    problems = list(_not_json(data, request.extra))
    raise InvalidRequestError(f"the request was not sent: {'; '.join(problems)}", problems=problems)


def _replace_aliases(data: dict[str, Any]) -> None:
    """Put values under the names that the aliases stand for (section 9); two different values stay as they are."""
    for alias, name in _ALIASES.items():
        if alias in data and repr(data.get(name, data[alias])) == repr(data[alias]):  # 5 is not 5.0, and 1 is not true
            data[name] = data.pop(alias)


def is_same_request(body: bytes, other: bytes) -> bool:
    """Whether two bodies of creates ask for the same: also where one was stored with the alias of a field."""
    return body == other or _canonical(body) == _canonical(other)


def _canonical(body: bytes) -> bytes:
    data: dict[str, Any] = json.loads(body)
    _replace_aliases(data)
    return write_json(data)


def _not_json(data: Mapping[str, Any], extra: Extra) -> Iterator[str]:
    if not isinstance(extra, Mapping):
        yield f"extra: must be an object, not {type(extra).__name__}"
    for name, value in data.items():
        if not isinstance(name, str):
            yield f"extra: its names must be strings, not {type(name).__name__}"
        elif (why := why_not_json(name) or why_not_json(value)) is not None:
            yield f"{name if name.isprintable() else 'extra'}: {why}"


def read_request(body: bytes) -> VideoRequest:
    """The request that :func:`create_body` wrote."""
    data = json.loads(body)
    known = {name: data.pop(name) for name in VideoRequest.field_names() if name in data}
    return VideoRequest(**{"model": "", "prompt": "", **known}, extra=data)


def prompt_of(body: bytes) -> str:
    """The prompt in the body of a create: what no message may show."""
    prompt = json.loads(body).get("prompt")
    return prompt if isinstance(prompt, str) else ""


def is_json_object(body: bytes) -> bool:
    """Whether an error's body has the form of the service's own: all its bodies are JSON (section 1)."""
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


# -- errors ----------------------------------------------------------------------------------------------------------

_REFERENCE_CODES: dict[str, type[ServiceError]] = {
    "EMPTY_REFERENCE_ASSET": errors.EmptyReferenceAssetError,
    "INVALID_REFERENCE_IMAGE": errors.InvalidReferenceImageError,
    "REFERENCE_ASSET_EXPIRED": errors.ReferenceAssetExpiredError,
    "UNSUPPORTED_REFERENCE_URL": errors.UnsupportedReferenceURLError,
}
_BY_STATUS: dict[int, type[ServiceError]] = {
    400: errors.BadRequestError,
    401: errors.AuthenticationError,
    402: errors.InsufficientCreditsError,
    404: errors.NotFoundError,
    409: errors.NotReadyError,
    429: errors.RateLimitError,
    502: errors.GatewayError,
    503: errors.ServiceUnavailableError,
    504: errors.GatewayError,
}
_REJECTED: dict[type[ServiceError], type[errors.RejectedError]] = {
    errors.BadRequestError: errors.RejectedBadRequestError,
    errors.EmptyReferenceAssetError: errors.RejectedEmptyReferenceAssetError,
    errors.InvalidReferenceImageError: errors.RejectedInvalidReferenceImageError,
    errors.ReferenceAssetExpiredError: errors.RejectedReferenceAssetExpiredError,
    errors.UnsupportedReferenceURLError: errors.RejectedUnsupportedReferenceURLError,
    errors.AuthenticationError: errors.RejectedAuthenticationError,
    errors.InsufficientCreditsError: errors.RejectedInsufficientCreditsError,
    errors.NotFoundError: errors.RejectedNotFoundError,
    errors.RateLimitError: errors.RejectedRateLimitError,
}
_MEANING = {
    errors.EmptyReferenceAssetError: "the uploaded content is empty; upload the original file again",
    errors.InvalidReferenceImageError: "the image cannot be decoded, or its format is invalid",
    errors.ReferenceAssetExpiredError: "the asset is deleted, expired or not owned by this account; upload it again",
    errors.UnsupportedReferenceURLError: "only the account's own assets are reused; other URLs belong into image_urls",
    errors.BadRequestError: "invalid parameters",
    errors.InsufficientCreditsError: "not enough credits",
    errors.NotFoundError: "the path or task does not exist or is not yours; check the /openapi/v1 prefix and the id",
    errors.NotReadyError: "the video is not completed or not available",
    errors.RateLimitError: "the submission frequency or a channel's capacity limit is reached",
    errors.ServiceUnavailableError: "model in maintenance, or channel temporarily unavailable",
    errors.GatewayError: "gateway or upstream fault; query the original task, do not create a duplicate",
}
_REQUEST_IDS = (
    "X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-RequestId", "X-Amz-Request-Id", "X-Trace-Id", "CF-Ray",
)  # fmt: skip
#: Who refused with a 401, and what to do then (5.7).
_REFUSED_BY = {
    "service key": ("the API key was refused", "Check that VIDGEN_API_KEY (or api_key) is the complete, current key."),
    "signed link": ("the signed link was refused", "Get the task again for a fresh video_url."),
    "upstream": ("an upstream host refused", "Get the task again for a fresh video_url."),
}


def service_error(answer: Answer, *, origin: str, wall: datetime) -> ServiceError:
    """The error that an answer stands for (section 7). ``origin`` is the service's own; ``wall`` dates Retry-After."""
    code, words = _code_and_words(answer)
    kind = _BY_STATUS.get(answer.status, UnexpectedResponseError)
    if answer.status == 400:
        kind = _REFERENCE_CODES.get(code or "", kind)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": code,
        "body": answer.body,
        "request_id": request_id_of(answer.headers),
        "retry_after": retry_after(answer.headers.get("Retry-After"), wall),
    }
    meaning = _MEANING.get(kind, "")
    if kind is errors.AuthenticationError:
        facts["source"] = _refuser(answer.url, origin)
        meaning, facts["advice"] = _REFUSED_BY[facts["source"]]
    elif kind is errors.NotReadyError:
        facts["advice"] = "Wait for the task first: videos.wait(…)."
    shown = f"{answer.op}: {answer.status}" + (f" {code}" if code else "")
    said = f" (the service says: {words})" if words else ""
    said += _shown_request_id(answer.headers, answer.known)
    stop = "." if "advice" in facts else ""
    return kind(f"{shown}: {meaning or 'unexpected answer'}{said}{stop}", **facts)


def rejected_error(error: ServiceError, message: str | None = None, **order: Any) -> errors.RejectedError:
    """The refusal of a create as a RejectedError that is also the service error it came as. ``order`` names it."""
    kind = _REJECTED.get(type(error), errors.RejectedUnexpectedResponseError)
    facts = {name: getattr(error, name) for name in ("status", "code", "body", "request_id", "retry_after")}
    if isinstance(error, errors.AuthenticationError):
        facts["source"] = error.source
    usual = f"order {order['order_id']!r} was refused, nothing is charged: {error.summary}"
    return kind(message or usual, advice=error.advice, **facts, **order)


def recorded_refusal(attempt: Attempt, *, origin: str, wall: datetime, **order: Any) -> errors.RejectedError:
    """The refusal of a create that another process sent, by what is on record of it. ``order`` names the order."""
    evidence = attempt.evidence or Evidence(outcome=AttemptOutcome.REJECTED, at=attempt.sent_at)
    answer = Answer("videos.create", evidence.status or 0, make_headers(), b"", url=URL(origin))
    error = service_error(answer, origin=origin, wall=wall)
    message = f"order {order['order_id']!r} was refused when another process sent it, nothing is charged"
    return rejected_error(error, f"{message}: {evidence.cause or error.summary}", **order)


def _refuser(url: URL, origin: str) -> str:
    """5.7: the failing address tells whose word a 401 is."""
    if {"sig", "exp"} & set(url.query):
        return "signed link"
    return "service key" if str(url.origin()) == origin else "upstream"


def request_id_of(headers: Headers) -> str | None:
    """The service's, or its gateway's, own id of the request; no header for it is documented."""
    return next((value for name in _REQUEST_IDS if (value := headers.get(name))), None)


def _shown_request_id(headers: Headers, known: tuple[str, ...]) -> str:
    """For messages: what support asks for; it may hold anything."""
    request_id = request_id_of(headers)
    return "" if request_id is None else f" (request {excerpt(request_id, known, limit=100)})"


def _code_and_words(answer: Answer) -> tuple[str | None, str]:
    """Code and message from the common shapes of error bodies; the description shows none."""
    try:
        data = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None, excerpt(_without_markup(answer.body), answer.known)
    if isinstance(data, dict) and isinstance(data.get("error"), dict):
        data = data["error"]
    if not isinstance(data, dict):
        return None, excerpt(data if isinstance(data, str) else answer.body, answer.known)
    code = _code(data, answer.known)
    for name in ("message", "detail", "error", "msg", "title"):
        value = data.get(name)
        if value:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if code is None and name == "error" and text in _REFERENCE_CODES:
                return text, ""
            return code, excerpt(text, answer.known)
    return code, "" if code else excerpt(answer.body, answer.known)


def _code(data: Mapping[str, Any], known: tuple[str, ...]) -> str | None:
    """The code of an error body: one short word without secrets; anything else is no code, and stays in the body."""
    codes = (str(data[name]) for name in ("code", "error_code", "type") if isinstance(data.get(name), str | int))
    return next((code for code in codes if is_plain_word(code, known)), None)


def _without_markup(body: bytes) -> str:
    """The readable text of the beginning of an HTML page; other text as it is."""
    text = body[: 4 * LONGEST_READ].decode("utf-8", "replace")
    if "<" not in text:
        return text
    parts, inside = [], False
    for char in text:
        inside = char == "<" or (inside and char != ">")
        parts.append(" " if inside or char == ">" else char)
    return "".join(parts)


def describe_outcome(answer: Answer, outcome: AttemptOutcome, *, is_complete: bool = True) -> str:
    """One sentence, without secrets, about the answer to a create, for the journal and for errors."""
    code, words = _code_and_words(answer)
    shown = f"{answer.status}" + (f" {code}" if code else "")
    if 200 <= answer.status < 300 and outcome is AttemptOutcome.UNCERTAIN:
        problem = "holds no task id" if is_complete else "broke off"
        return f"the answer ({shown}) {problem}: {excerpt(answer.body, answer.known) or 'it is empty'}"
    broke_off = "" if is_complete else " (it broke off)"
    return hide_secrets(f"the service answered {shown}" + (f": {words}" if words else ""), answer.known) + broke_off
