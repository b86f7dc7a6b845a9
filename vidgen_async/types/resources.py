"""The service's resources as frozen values (section 2 of the service description), independent of JSON.

``extra`` holds, unchanged and under their wire names, the fields that the description does not name, and values that
cannot be converted to the type of their field; without what is nested more than 100 levels deep.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from math import isfinite
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, Literal, TypeAlias, TypedDict, TypeGuard, get_args

from attrs import field, fields, frozen

from vidgen_async.redaction.messages import excerpt, hide_secrets
from vidgen_async.types.serialization import MAY_CONTAIN_SECRETS, SECRET, Serializable

Extra: TypeAlias = Mapping[str, Any]
"""Fields that the service description does not name, unchanged."""

# The values that the description lists: type checkers propose them, and report others. Nothing is enforced at run time.
Ratio: TypeAlias = Literal["9:16", "1:1", "3:4", "4:3", "16:9"]
"""The values of ``ratio`` (2.4)."""
Resolution: TypeAlias = Literal["720p", "768p", "auto"] | str  # noqa: PYI051 - the first part is for completion
"""The values of ``resolution`` in the description (2.1), or any other: the live catalog decides."""
_ActiveStatus: TypeAlias = Literal["queued", "running"]
TerminalStatus: TypeAlias = Literal["completed", "failed"]
"""The states that never change again (section 3)."""
TaskStatus: TypeAlias = Literal[_ActiveStatus, TerminalStatus]
"""The states of a task (section 3). Should the service return another one, it is unchanged, although not of this type:
compare it as ``str(task.status) == "…"``."""

_NOTHING: Extra = MappingProxyType({})


def _show_url(url: str | None) -> str:
    return repr(url if url is None else hide_secrets(url))


def _show_kind(value: object) -> str:
    return repr(value) if value is None else f"<{type(value).__name__}>"


def _show_text(text: object) -> str:
    """Shorten a text of the service, which may contain anything, and hide secrets in it."""
    return repr(excerpt(text)) if isinstance(text, str) else _show_kind(text)


def _show_extra(extra: object, levels: int = 2) -> str:
    """Show the names of undocumented fields, and values that are numbers and no secrets: of texts nothing is known."""
    if not isinstance(extra, Mapping):
        return _show_kind(extra)
    shown = (f"{_show_text(str(name))}: {_show_value(name, value, levels)}" for name, value in extra.items())
    return f"{{{', '.join(shown)}}}"


def _show_value(name: object, value: object, levels: int) -> str:
    from vidgen_async.redaction.secret_names import Kind, kind_of  # noqa: PLC0415 - few programs print resources

    if kind_of(str(name)) not in (Kind.PLAIN, Kind.COUNT):
        return "…"
    if isinstance(value, Mapping) and levels:
        return _show_extra(value, levels - 1)
    return repr(value) if isinstance(value, bool) or _is_number(value) else _show_kind(value)


def _extra(metadata: Mapping[str, str] = MAY_CONTAIN_SECRETS) -> Any:
    def convert(value: Any) -> Any:
        return dict(value) if isinstance(value, Mapping) else value  # the validation reports other types

    return field(default=_NOTHING, repr=_show_extra, converter=convert, hash=False, metadata=metadata)


@frozen(kw_only=True)
class CatalogModel(Serializable):
    """One model of the catalog (2.1). A limit of None is not stated by the catalog; 0 means not supported."""

    _computed: ClassVar = ("is_usable",)

    code: str
    """The model ID, the value for ``model`` of a create."""
    name: str = field(default="", repr=_show_text, metadata=MAY_CONTAIN_SECRETS)
    enabled: bool | None = None
    """None if the catalog does not state it."""
    maintenance: bool = False
    durations: tuple[int, ...] = ()
    """Allowed durations in seconds."""
    resolutions: tuple[str, ...] = ()
    max_reference_images: int | None = None
    max_reference_audios: int | None = None
    max_reference_videos: int | None = None
    extra: Extra = _extra()
    """All other fields of the entry, such as prices, whose names are not documented."""

    @property
    def min_reference_images(self) -> int:
        """How many reference images it needs (2.4, rule 4). The catalog does not state it."""
        return 1 if self.code == "vendorh3" else 0

    @property
    def is_usable(self) -> bool:
        """Whether it is enabled and not under maintenance (section 3)."""
        return self.enabled is True and not self.maintenance


@frozen(kw_only=True)
class Catalog(Serializable):
    """All models available to the API key, in the service's order.

    It supports iteration, ``len(catalog)``, ``catalog["vendorh3"]`` and ``"vendorh3" in catalog``.
    """

    models: tuple[CatalogModel, ...]
    extra: Extra = _extra()

    def __iter__(self) -> Iterator[CatalogModel]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def __contains__(self, code: object) -> bool:
        return any(model.code == code for model in self.models)

    def __getitem__(self, code: str) -> CatalogModel:
        """Return the model with this ID.

        Raises:
            KeyError: The catalog has no such model; the message lists the models it has.
        """
        model = self.find(code)
        if model is not None:
            return model
        raise KeyError(f"no model {code!r} in the catalog; there are: {', '.join(model.code for model in self.models)}")

    def find(self, code: str) -> CatalogModel | None:
        """Return the model with this ID, or None. Of several with the same ID, a usable one is returned."""
        return max((model for model in self.models if model.code == code), key=lambda m: m.is_usable, default=None)

    @property
    def usable(self) -> tuple[CatalogModel, ...]:
        """The models that are enabled and not under maintenance."""
        return tuple(model for model in self.models if model.is_usable)


#: The names of the account's fields are not documented (2.2). ``balance`` is the first of these that is a number.
BALANCE_NAMES = ("balance", "credits", "points", "credit_balance", "creditBalance", "remaining_credits")
_MAX_NUMBERS = 100


@frozen(kw_only=True)
class Account(Serializable):
    """The account (2.2). The names of its fields are not documented: ``extra`` holds the whole response."""

    _computed: ClassVar = ("balance",)

    extra: Extra = _extra()

    def __repr__(self) -> str:
        return f"Account(balance={self.balance!r}, extra={_show_extra(self.extra)})"

    @property
    def balance(self) -> float | None:
        """The remaining credits: the first field of ``BALANCE_NAMES`` that is a number, else None."""
        for name in BALANCE_NAMES:
            value = self.extra.get(name)
            if isinstance(value, str):
                with suppress(ValueError):
                    value = float(value)
            if _is_number(value):
                return value
        return None

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers in the response by their paths, ``{"wallet.credits": 120}``, at most 100, and the balance."""
        numbers = dict(islice(_numbers_in(self.extra, ""), _MAX_NUMBERS))
        if self.balance is not None and numbers.keys().isdisjoint(BALANCE_NAMES):
            numbers["balance"] = self.balance
        return numbers


def _is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number in the range of a float."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:
        return False


def _numbers_in(value: object, path: str) -> Iterator[tuple[str, float]]:
    if _is_number(value):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers_in(inner, f"{path}.{name}" if path else str(name))


#: The path of the service's own assets (2.3).
ASSETS_PATH = "/api/reference-assets/"
#: For how long the service stores an ordinary asset (2.3, section 8).
ASSET_RETENTION = timedelta(hours=72)


@frozen(kw_only=True)
class ReferenceAsset(Serializable):
    """An uploaded image (2.3). The service stores ordinary assets for 72 hours (section 8)."""

    _computed: ClassVar = ("expires_at",)

    id: str
    image_id: str
    """The value for ``image_ids`` of a create."""
    url: str | None = field(default=None, repr=_show_url)
    """The absolute URL; its query, including the token, is exactly as the service sent it."""
    mime: str | None = field(default=None, repr=_show_text, metadata=MAY_CONTAIN_SECRETS)
    name: str | None = field(default=None, repr=_show_text, metadata=MAY_CONTAIN_SECRETS)
    uploaded_at: datetime | None = field(default=None, eq=False)
    """When this client uploaded it. None for an asset that was reused by its URL: the service does not state it."""
    extra: Extra = _extra()

    @property
    def expires_at(self) -> datetime | None:
        """Until when the service stores it (2.3); None if it is unknown when it was uploaded."""
        return None if self.uploaded_at is None else self.uploaded_at + ASSET_RETENTION


#: The aspect ratios, width to height (2.4).
RATIOS: tuple[str, ...] = get_args(Ratio)

ImageSource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | ReferenceAsset
"""How calls accept an image of this machine: a path, its bytes, a binary file, a data URI or plain Base64; or the asset
of an earlier upload."""

GenerateStage: TypeAlias = Literal["upload", "order", _ActiveStatus, "download"]
"""What ``generate`` is doing: uploading the local images, sending the order, waiting for the task (in two states), or
saving the video."""
OnStage: TypeAlias = Callable[[GenerateStage, float | None], None]
"""Called with the stage, and the fraction of this stage that is done, from 0.0 to 1.0; None if that is unknown."""


class _OptionalFields(TypedDict, total=False):
    duration: int | None
    seconds: int | None
    aspect_ratio: Ratio | None
    ratio: Ratio | None
    resolution: Resolution | None
    mode: str | None
    attachments: Sequence[Mapping[str, Any]] | None
    reference_images: Sequence[Mapping[str, Any] | ReferenceAsset] | None
    image_urls: Sequence[str | ReferenceAsset] | None
    image_ids: Sequence[str | ReferenceAsset] | None
    reference_videos: Sequence[Mapping[str, Any]] | None
    video_urls: Sequence[str] | None
    reference_audios: Sequence[Mapping[str, Any]] | None
    audio_urls: Sequence[str] | None
    extra: Mapping[str, Any]


class VideoFields(_OptionalFields):
    """The fields of a create as keyword arguments: ``create(model="vendorh3", prompt="…", duration=8)``."""

    model: str
    prompt: str


class RequestFields(_OptionalFields, total=False):
    """The same where a VideoRequest may stand in their place."""

    model: str
    prompt: str


def _tuple(value: Any) -> Any:
    # A str is iterable too; the validation reports it with the name of the field.
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping | PurePath)
    return tuple(value) if is_list else value


# Of a field with a converter, type checkers use the type of the converter's argument.


def _seconds(value: int | None) -> int | None:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _texts(value: Sequence[str] | None) -> Any:
    return _tuple(value)


def _objects(value: Sequence[Mapping[str, Any]] | None) -> Any:
    return _tuple(value)


def _image_ids(value: Sequence[str | ReferenceAsset] | None) -> Any:
    return _replace_assets(_tuple(value), lambda asset: asset.image_id)


def _image_urls(value: Sequence[str | ReferenceAsset] | None) -> Any:
    return _replace_assets(_tuple(value), lambda asset: asset.url)


def _images(value: Sequence[Mapping[str, Any] | ReferenceAsset] | None) -> Any:
    return _replace_assets(_tuple(value), lambda asset: {"url": asset.url})


def _replace_assets(items: Any, replace: Callable[[ReferenceAsset], Any]) -> Any:
    is_needed = isinstance(items, tuple) and any(isinstance(item, ReferenceAsset) for item in items)
    return tuple(replace(item) if isinstance(item, ReferenceAsset) else item for item in items) if is_needed else items


def _show_count(items: object) -> str:
    return f"<{len(items)}>" if isinstance(items, tuple) else _show_kind(items)


@frozen(kw_only=True)
class VideoRequest(Serializable):
    """The fields of a create (2.4). Fields that are None are not sent. The ``repr`` shows no prompt and no secrets.

    ``to_dict()`` is complete, so that ``VideoRequest(**request.to_dict())`` is the same request.
    """

    model: str
    prompt: str = field(repr=lambda prompt: f"<{len(prompt)} characters>" if isinstance(prompt, str) else "<…>")
    duration: int | None = field(default=None, converter=_seconds)
    """Seconds; ``seconds`` is its alias."""
    seconds: int | None = field(default=None, converter=_seconds)
    aspect_ratio: Ratio | None = None
    """The alias of ``ratio``."""
    ratio: Ratio | None = None
    resolution: Resolution | None = None
    mode: str | None = None
    attachments: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_objects, repr=_show_count)
    reference_images: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_images, repr=_show_count)
    image_urls: Sequence[str] | None = field(default=None, converter=_image_urls, repr=_show_count)
    image_ids: Sequence[str] | None = field(default=None, converter=_image_ids)
    reference_videos: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_objects, repr=_show_count)
    video_urls: Sequence[str] | None = field(default=None, converter=_texts, repr=_show_count)
    reference_audios: Sequence[Mapping[str, Any]] | None = field(default=None, converter=_objects, repr=_show_count)
    audio_urls: Sequence[str] | None = field(default=None, converter=_texts, repr=_show_count)
    extra: Extra = _extra(metadata={})
    """Undocumented fields, which are sent unchanged in addition to the others."""

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the documented fields, in the order of the description."""
        return _VIDEO_FIELDS


_VIDEO_FIELDS = tuple(attribute.name for attribute in fields(VideoRequest) if attribute.name != "extra")

#: A tuple: the service may return a value that no set can contain.
ACTIVE_STATES: tuple[_ActiveStatus, ...] = get_args(_ActiveStatus)
TERMINAL_STATES: frozenset[str] = frozenset(get_args(TerminalStatus))
KNOWN_STATES: frozenset[str] = frozenset(get_args(TaskStatus))


@frozen(kw_only=True)
class VideoTask(Serializable):
    """A video task as returned by one response (2.5)."""

    _computed: ClassVar = ("is_terminal",)

    id: str
    status: TaskStatus | None = field(default=None, repr=_show_text)
    """``queued``, ``running``, ``completed`` or ``failed``; any other value is unchanged, and not terminal."""
    model: str | None = None
    points: int | None = None
    """The charged credits."""
    video_url: str | None = field(default=None, repr=_show_url)
    """The complete URL of the video; its ``exp`` and ``sig`` are unchanged."""
    failure_reason: str | None = field(default=None, repr=_show_text, metadata=MAY_CONTAIN_SECRETS)
    """The service's text; messages and ``repr`` show it shortened, and without secrets."""
    upstream_task_id: str | None = None
    """For diagnosis only, never for queries."""
    provider: Any = field(default=None, repr=_show_text, hash=False, metadata=MAY_CONTAIN_SECRETS)
    """Unchanged, because its type is not documented."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    request_id: str | None = field(default=None, repr=_show_text, eq=False)
    """The service's own id of the request that returned it, if the response contains one."""
    extra: Extra = _extra()

    @property
    def is_terminal(self) -> bool:
        """Whether it is completed or failed, which never changes again (section 3)."""
        return self.status in TERMINAL_STATES


@frozen(kw_only=True)
class Receipt(Serializable):
    """Proof that the service accepted an order. It contains the task id."""

    order_id: str
    idempotency_key: str = field(repr=False, metadata=SECRET)
    task_id: str
    accepted_at: datetime
    request_id: str | None = field(default=None, eq=False)
    """The service's own id of the create, if the response contains one."""
    extra: Extra = _extra()
    """All other fields of the response to the create."""


#: Section 7, rule 2: nothing else shows whether a failed task was refunded.
CHECK_REFUND = "check the refund in the credit ledger"
NO_REASON = "no failure reason was given"


def failure_text(reason: str | None) -> str:
    """Return why a task failed, given its ``failure_reason``, and what to check (section 7, rules 1 and 2)."""
    return f"{(reason or '').strip() or NO_REASON}; {CHECK_REFUND}"


TaskLike: TypeAlias = str | Receipt | VideoTask
"""How calls accept a task: its id, its receipt, or the task itself."""


def task_id_of(task: TaskLike) -> str:
    """Return the id of a task; TypeError for what is none."""
    if isinstance(task, str):
        return task
    if isinstance(task, Receipt):
        return task.task_id
    if isinstance(task, VideoTask):
        return task.id
    # Reached by users without a type checker.
    raise TypeError(f"a task is a task id, a Receipt or a VideoTask, not {type(task).__name__}")
