"""The one place where JSON becomes values (cattrs).

Responses are parsed leniently. A field that cannot be read as its type is left out and kept, as received, in
``extra`` under its wire name; only what a value cannot be without (an id) is an UnexpectedResponseError.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from operator import eq
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
from yarl import URL

from vidgen_async.errors import UnexpectedResponseError
from vidgen_async.redaction.known_values import KnownValues, as_known_values
from vidgen_async.redaction.messages import excerpt, showable
from vidgen_async.types.http import Headers
from vidgen_async.types.resources import (
    ACTIVE_STATES,
    Account,
    Catalog,
    CatalogModel,
    ReferenceAsset,
    TaskStatus,
    TerminalStatus,
    VideoTask,
)

if TYPE_CHECKING:
    from cattrs.converters import Converter

T = TypeVar("T")

#: Arrays and objects in values of the service are nested at most so deep.
DEEPEST = 100

_decode = json.JSONDecoder().decode


# -- reading values --------------------------------------------------------------------------------------------------


def read_json(body: bytes) -> Any:
    """The JSON value; ValueError, or RecursionError, if it is none. Arrays and objects at the level ``DEEPEST`` are
    empty: what is nested deeper cannot be pickled or written as JSON in every place in a program."""
    try:
        value = _decode(body.decode())  # faster than json.loads, which finds out the encoding first
    except ValueError:
        value = json.loads(body)
    if body.count(b"[") + body.count(b"{") > DEEPEST:
        level = _containers([value])
        for _ in range(DEEPEST - 1):
            level = [inner for outer in level for inner in _containers(outer)]
        for deepest in level:
            deepest.clear()
    return value


def _containers(outer: Any) -> list[Any]:
    items = outer.values() if isinstance(outer, dict) else outer
    return [item for item in items if isinstance(item, list | dict)]


def _integer(value: Any) -> int:
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


def _moment(value: Any) -> datetime:
    """Timestamps are in seconds (2.5)."""
    return datetime.fromtimestamp(_integer(value), UTC)


def _items(read: Callable[[Any], T]) -> Callable[[Any, Any], tuple[T, ...]]:
    def read_all(value: Any, _: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple(read(item) for item in value)

    return read_all


def _or_none(read: Callable[[Any], T]) -> Callable[[Any, Any], T | None]:
    return lambda value, _: None if value is None else read(value)


def _text_or_none(value: Any, _: Any = None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError


def _as_it_came(value: Any, _: Any = None) -> Any:
    return value


_HOOKS: dict[Any, Callable[[Any, Any], Any]] = {
    bool: _truth,
    str: _text,
    bool | None: _or_none(_truth),
    str | None: _text_or_none,
    TaskStatus | None: _text_or_none,
    int | None: _or_none(_integer),
    datetime | None: _or_none(_moment),
    tuple[int, ...]: _items(_integer),
    tuple[str, ...]: _items(_text),
}


@cache
def _converter() -> "Converter":
    from cattrs.converters import Converter  # noqa: PLC0415 - a client needs it for its first answer

    converter = Converter(detailed_validation=False)
    for kind, hook in _HOOKS.items():
        if isinstance(kind, type):
            converter.register_structure_hook(kind, hook)
        else:
            converter.register_structure_hook_func(partial(eq, kind), hook)
    return converter


#: Fields of values that are not fields of the JSON object.
_NOT_IN_JSON = frozenset({"extra", "request_id", "uploaded_at"})


class _Reader(Generic[T]):
    """Reads one resource class from a JSON object: in one step if possible, otherwise field by field."""

    def __init__(self, cls: Callable[..., T], *, identity: str, **wire: str) -> None:
        self._cls = cls
        self._identity = identity
        shape: Any = cls
        kinds = {attribute.name: attribute.type for attribute in attrs.fields(shape)}
        own = _NOT_IN_JSON & kinds.keys()
        kinds = {name: kind for name, kind in kinds.items() if name not in own}
        self._own = own
        self._names = {name: wire.get(name, name) for name in kinds}
        self._known = frozenset(self._names.values())
        self._fields = {name: _HOOKS.get(kind, _as_it_came) for name, kind in kinds.items()} | {identity: _identifier}

    @cached_property
    def _read(self) -> Callable[[Any, Any], T]:
        """The function that cattrs generates for the class."""
        from cattrs.gen import make_dict_structure_fn, override  # noqa: PLC0415 - as above

        overrides = {name: override(rename=wire_name) for name, wire_name in self._names.items()}
        overrides[self._identity] = override(rename=self._names[self._identity], struct_hook=_identifier)
        overrides |= {name: override(struct_hook=_as_it_came) for name in self._own}
        make: Any = make_dict_structure_fn  # its signature does not allow for fields by name beside its own options
        read: Callable[[Any, Any], T] = make(self._cls, _converter(), _cattrs_detailed_validation=False, **overrides)
        return read

    def __call__(self, data: Mapping[str, Any], **own: Any) -> T:
        """Raises KeyError when the identity is missing or unusable. ``own`` are fields that are not in the JSON."""
        known = self._known
        extra: dict[str, Any] = {}
        own["extra"] = extra
        named = own.copy()
        for name, value in data.items():
            (named if name in known else extra)[name] = value
        read = self._read
        try:
            return read(named, self._cls)
        except Exception:  # noqa: BLE001 - a malformed value can raise anything here; read field by field
            return self._field_by_field(data, own)

    def _field_by_field(self, data: Mapping[str, Any], values: dict[str, Any]) -> T:
        extra = values["extra"]
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
        return self._cls(**values)


_read_model = _Reader(
    CatalogModel,
    identity="code",
    max_reference_images="maxReferenceImages",
    max_reference_audios="maxReferenceAudios",
    max_reference_videos="maxReferenceVideos",
)
_read_asset = _Reader(ReferenceAsset, identity="id")
_read_task = _Reader(VideoTask, identity="id")
_NO_STATES: Mapping[str, TerminalStatus] = MappingProxyType({})


# -- answers ---------------------------------------------------------------------------------------------------------

_REQUEST_IDS = (
    "X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-RequestId", "X-Amz-Request-Id", "X-Trace-Id", "CF-Ray",
)  # fmt: skip


@attrs.define(eq=False, repr=False)
class Answer:
    """One complete answer of the service. ``known`` are values that no message may show: the API key, a prompt, an
    Idempotency-Key. ``sent`` is the body of the request, which the answer may quote."""

    op: str
    status: int
    headers: Headers
    body: bytes
    url: URL = attrs.field(kw_only=True)
    known: KnownValues = attrs.field(factory=KnownValues, converter=as_known_values, kw_only=True)
    sent: bytes = attrs.field(default=b"", kw_only=True)

    def json(self) -> Any:
        """The body as JSON; UnexpectedResponseError quotes a body that is not."""
        try:
            return read_json(self.body)
        except (ValueError, RecursionError) as error:
            cause = showable(error, self.known)  # the arguments of a UnicodeDecodeError have the body
        raise self.unexpected("is not JSON") from cause

    def object(self) -> dict[str, Any]:
        data = self.json()
        if not isinstance(data, dict):
            raise self.unexpected("is not a JSON object")
        return data

    def unexpected(self, what: str) -> UnexpectedResponseError:
        """The error for a body that cannot be used, quoting it."""
        quoted = excerpt(self.body, self.known) or "it is empty"
        return UnexpectedResponseError(
            f"{self.op}: the answer ({self.status}) {what}: {quoted}{shown_request_id(self.headers, self.known)}",
            status=self.status,
            body=self.body,
            request_id=request_id_of(self.headers, self.known),
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
    """POST /files (4.3). ``image_id`` and ``id`` are interchangeable; ``absolute`` puts the host before a path."""
    data = answer.object()
    ids = {name: text for name in ("id", "image_id") if (text := id_or_none(data.get(name))) is not None}
    if not ids:
        raise answer.unexpected("has neither id nor image_id")
    first = next(iter(ids.values()))
    asset = _read_asset({**data, "id": first, "image_id": first, **ids})
    return attrs.evolve(asset, url=None if asset.url is None else absolute(asset.url))


def read_task(answer: Answer, task_id: str, terminal_states: Mapping[str, TerminalStatus] = _NO_STATES) -> VideoTask:
    """GET /videos/{id} (4.5): the task. Its ``id`` is the requested one, which the answer must have as its ``id`` or
    its ``task_id`` (2.5). Another value of either is kept in ``extra``, and so is a status in ``terminal_states``,
    which maps it to the status to use."""
    task = _read_asked_task(answer, task_id)
    if task.status is not None and (end := terminal_states.get(task.status)) is not None:
        task = attrs.evolve(task, status=end, extra={**task.extra, "status": task.status})
    if task.failure_reason is None and (reason := task.extra.get("failure_reason")):
        # It is no string, as 2.5 says.
        task = attrs.evolve(task, failure_reason=json.dumps(reason, ensure_ascii=False))
    return task


def _read_asked_task(answer: Answer, task_id: str) -> VideoTask:
    data = answer.object()
    request_id = request_id_of(answer.headers)
    if _is_of(data, task_id):
        data.pop("task_id", None)
        return _read_task(data, request_id=request_id)
    ids = {name: id_or_none(data.get(name)) for name in ("id", "task_id")}
    if task_id not in ids.values():
        raise answer.unexpected("has neither id nor task_id" if not any(ids.values()) else "is about another task")
    others = {name: data[name] for name, value in ids.items() if name in data and value not in (None, task_id)}
    rest = {name: value for name, value in data.items() if name not in ids}
    task = _read_task({**rest, "id": task_id}, request_id=request_id)
    return attrs.evolve(task, extra={**task.extra, **others}) if others else task


def _is_of(data: Mapping[str, Any], task_id: str) -> bool:
    """Whether the answer has the requested id and no other one, as nearly every answer."""
    return data.get("id") == task_id and data.get("task_id") in (None, task_id)


def id_or_none(value: Any) -> str | None:
    try:
        return _identifier(value)
    except TypeError:
        return None


def read_poll(
    answer: Answer,
    task_id: str,
    seen: int | None,
    *,
    is_task_needed: bool = True,
    terminal_states: Mapping[str, TerminalStatus] = _NO_STATES,
) -> tuple[VideoTask | str | None, int]:
    """GET /videos/{id} for polls: the task, or None if the body is the one of the mark ``seen``; and the mark of this
    body. If the task is not needed, and is queued or running, only its state is returned."""
    mark = hash(answer.body)
    if mark == seen:
        return None, mark
    if not is_task_needed:
        data = answer.object()
        if (state := data.get("status")) in ACTIVE_STATES and _is_of(data, task_id):
            return state, mark
    return read_task(answer, task_id, terminal_states), mark


def read_created_id(body: bytes) -> tuple[str | None, dict[str, Any]]:
    """The task id in the answer to a create (4.4), and the other fields: ``id``, else ``task_id``, a non-empty string
    or an integer. None when there is none: nothing else stands for it (an ``upstream_task_id`` does not)."""
    try:
        data = read_json(body)
    except (ValueError, RecursionError):
        return None, {}
    if not isinstance(data, dict):
        return None, {}
    ids = (id_or_none(data.get(name)) for name in ("id", "task_id"))
    task_id = next((found for found in ids if found is not None), None)
    rest = {name: value for name, value in data.items() if name not in {"id", "task_id"}}
    return (None, {}) if task_id is None else (task_id, rest)


def is_json_object(body: bytes) -> bool:
    """Whether the body of an error looks like the service's own format: all its bodies are JSON (section 1)."""
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def request_id_of(headers: Headers, known: KnownValues | None = None) -> str | None:
    """The service's, or its gateway's, own id of the request; no header for it is documented. ``known`` values are
    hidden in it: it is logged."""
    for name in _REQUEST_IDS:
        if request_id := headers.get(name):
            return request_id if known is None else known.hide(request_id)
    return None


def shown_request_id(headers: Headers, known: KnownValues) -> str:
    request_id = request_id_of(headers)
    return "" if request_id is None else f" (request {excerpt(request_id, known, limit=100)})"
