"""The service's resources as frozen values (section 2 of the service description). They know no JSON.

Fields that the description does not name are kept in ``extra`` as they came, under their wire names; so is a value
that cannot be read as the field's type.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import isfinite
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict

from attrs import field, fields, frozen

from vidgen_async.redaction.messages import excerpt, hide_secrets

Extra: TypeAlias = Mapping[str, Any]

_NOTHING: Extra = MappingProxyType({})


def _show_url(url: str | None) -> str:
    return repr(url if url is None else hide_secrets(url))


def _show_urls(urls: object) -> str:
    return repr([hide_secrets(str(url)) for url in urls]) if isinstance(urls, tuple) else _show_kind(urls)


def _show_kind(value: object) -> str:
    return repr(value) if value is None else f"<{type(value).__name__}>"


def _show_text(text: object) -> str:
    """What the service says in its own words: they may hold anything."""
    return repr(excerpt(text)) if isinstance(text, str) else _show_kind(text)


def _show_names(extra: object) -> str:
    """The names only: nobody knows what an undocumented field holds."""
    return repr(sorted(map(str, extra))) if isinstance(extra, Mapping) else _show_kind(extra)


def _dict(value: Any) -> Any:
    # Like _tuple: what is none is named by the validation.
    return dict(value) if isinstance(value, Mapping) else value


def _extra() -> Any:
    return field(default=_NOTHING, repr=_show_names, converter=_dict, hash=False)


@frozen(kw_only=True)
class CatalogModel:
    """One entry of the catalog (2.1). A limit of None means that the entry does not say; 0 means not supported."""

    code: str
    """The model ID: what goes into ``model`` of a create."""
    name: str = ""
    enabled: bool = False
    maintenance: bool = False
    durations: tuple[int, ...] = ()
    """Allowed durations in seconds."""
    resolutions: tuple[str, ...] = ()
    max_reference_images: int | None = None
    max_reference_audios: int | None = None
    max_reference_videos: int | None = None
    extra: Extra = _extra()
    """Everything else the entry holds, prices among it (their names are not documented)."""

    @property
    def is_usable(self) -> bool:
        """Section 3: enabled, and not under maintenance."""
        return self.enabled and not self.maintenance


@frozen(kw_only=True)
class Catalog:
    """All models of the calling key, in the service's order: iterable, ``len()``, ``catalog["vendorh3"]``, ``in``."""

    models: tuple[CatalogModel, ...]
    extra: Extra = _extra()

    def __iter__(self) -> Iterator[CatalogModel]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def __contains__(self, code: object) -> bool:
        return any(model.code == code for model in self.models)

    def __getitem__(self, code: str) -> CatalogModel:
        """The model with this ID; a KeyError names the ones there are."""
        model = self.get(code)
        if model is not None:
            return model
        message = f"no model {code!r} in the catalog; there are: {', '.join(model.code for model in self.models)}"
        raise KeyError(message)

    def get(self, code: str) -> CatalogModel | None:
        """The model with this ID, of several the one that can be used; None when the catalog has none."""
        return max((model for model in self.models if model.code == code), key=lambda m: m.is_usable, default=None)

    @property
    def usable(self) -> tuple[CatalogModel, ...]:
        """The models that can be used now."""
        return tuple(model for model in self.models if model.is_usable)


#: The account's field names are not documented (2.2). ``balance`` reads the first of exactly these that is a number.
BALANCE_NAMES = ("balance", "credits", "points", "credit_balance", "creditBalance", "remaining_credits")
_MOST_NUMBERS = 100


@frozen(kw_only=True)
class Account:
    """The account (2.2). Its field names are not documented: ``extra`` holds the whole answer."""

    extra: Extra = _extra()

    @property
    def balance(self) -> float | None:
        """Credits (points) left: the first of ``BALANCE_NAMES`` that holds a number, else None."""
        for name in BALANCE_NAMES:
            value = self.extra.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
            if isinstance(value, str):
                try:
                    return float(value)
                except ValueError:
                    continue
        return None

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers in the answer by their paths, ``{"wallet.credits": 120}``, at most 100; and the balance."""
        found = dict(islice(_numbers_in(self.extra, ""), _MOST_NUMBERS))
        if self.balance is not None and found.keys().isdisjoint(BALANCE_NAMES):
            found["balance"] = self.balance
        return found


def _numbers_in(value: object, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers_in(inner, f"{path}.{name}" if path else str(name))


@frozen(kw_only=True)
class ReferenceAsset:
    """An uploaded image (2.3). The service keeps ordinary assets for 72 hours (section 8)."""

    id: str
    image_id: str
    """The value for ``image_ids`` of a create."""
    url: str | None = field(default=None, repr=_show_url)
    """Absolute; every query parameter (its token too) as the service sent it, byte for byte."""
    mime: str | None = None
    name: str | None = None
    extra: Extra = _extra()


class VideoFields(TypedDict, total=False):
    """The fields of a create as keyword arguments: ``create(model="vendorh3", prompt="…", duration=8)``."""

    model: str
    prompt: str
    duration: int | None
    seconds: int | None
    aspect_ratio: str | None
    ratio: str | None
    resolution: str | None
    mode: str | None
    attachments: Sequence[Mapping[str, Any]] | None
    reference_images: Sequence[Mapping[str, Any]] | None
    image_urls: Sequence[str] | None
    image_ids: Sequence[str] | None
    reference_videos: Sequence[Mapping[str, Any]] | None
    video_urls: Sequence[str] | None
    reference_audios: Sequence[Mapping[str, Any]] | None
    audio_urls: Sequence[str] | None
    extra: Mapping[str, Any]


def _tuple(value: Any) -> Any:
    # A str is iterable too; the check that names the field comes with the validation.
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping | PurePath)
    return tuple(value) if is_list else value


def _show_count(items: object) -> str:
    return f"<{len(items)}>" if isinstance(items, tuple) else _show_kind(items)


@frozen(kw_only=True)
class VideoRequest:
    """What a create asks for (2.4). Fields left at None are not sent. Its repr shows neither prompt nor URLs."""

    model: str
    prompt: str = field(repr=lambda prompt: f"<{len(prompt)} characters>" if isinstance(prompt, str) else "<…>")
    duration: int | None = None
    """Seconds; ``seconds`` is its alias."""
    seconds: int | None = None
    aspect_ratio: str | None = None
    """The alias of ``ratio``."""
    ratio: str | None = None
    resolution: str | None = None
    mode: str | None = None
    attachments: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_tuple, repr=_show_count)
    reference_images: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_tuple, repr=_show_count)
    image_urls: Sequence[str] | None = field(default=None, converter=_tuple, repr=_show_urls)
    image_ids: Sequence[str] | None = field(default=None, converter=_tuple)
    reference_videos: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_tuple, repr=_show_count)
    video_urls: Sequence[str] | None = field(default=None, converter=_tuple, repr=_show_urls)
    reference_audios: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_tuple, repr=_show_count)
    audio_urls: Sequence[str] | None = field(default=None, converter=_tuple, repr=_show_urls)
    extra: Extra = _extra()
    """Undocumented fields, sent as they are beside the others."""

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The documented fields, in the description's order."""
        return _VIDEO_FIELDS


_VIDEO_FIELDS = tuple(attribute.name for attribute in fields(VideoRequest) if attribute.name != "extra")

#: Section 3: the states that are never left again.
TERMINAL_STATES = frozenset({"completed", "failed"})
KNOWN_STATES = TERMINAL_STATES | {"queued", "running"}


@frozen(kw_only=True)
class VideoTask:
    """A video task as one answer showed it (2.5)."""

    id: str
    status: str | None = field(default=None, repr=_show_text)
    """queued, running, completed, failed; anything else is kept as it came and is not terminal."""
    model: str | None = None
    points: int | None = None
    """Credits charged."""
    video_url: str | None = field(default=None, repr=_show_url)
    """The complete result address; its ``exp`` and ``sig`` are kept byte for byte."""
    failure_reason: str | None = field(default=None, repr=_show_text)
    """As the service said it; messages and ``repr`` show it shortened, and without secrets."""
    upstream_task_id: str | None = None
    """For diagnosis only; never for queries."""
    provider: Any = field(default=None, repr=_show_text, hash=False)
    """Its type is not documented: kept as it came."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    request_id: str | None = field(default=None, repr=_show_text, eq=False)
    """The service's own id of the request that showed it, if the answer gave one."""
    extra: Extra = _extra()

    @property
    def is_terminal(self) -> bool:
        """Section 3: completed or failed, and never anything else again."""
        return self.status in TERMINAL_STATES


@frozen(kw_only=True)
class Receipt:
    """Proof that the service took an order: it holds the task id."""

    order_id: str
    idempotency_key: str = field(repr=False)
    task_id: str
    accepted_at: datetime
    request_id: str | None = field(default=None, eq=False)
    """The service's own id of the create, if its answer gave one."""
    extra: Extra = _extra()
    """What else the answer to the create held."""


TaskLike: TypeAlias = str | Receipt | VideoTask
"""Wherever a task is meant: its id, its receipt, or the task itself."""


def task_id_of(task: TaskLike) -> str:
    """The id of what was given; other types are a TypeError that names what is accepted."""
    if isinstance(task, str):
        return task
    if isinstance(task, Receipt):
        return task.task_id
    if isinstance(task, VideoTask):
        return task.id
    # Users without a type checker come here.
    message = f"a task is a task id, a Receipt or a VideoTask, not {type(task).__name__}"
    raise TypeError(message)
