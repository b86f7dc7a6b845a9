"""The model catalog: the ten entries of the snapshot of version 2026.10.19 (section 2.1), and changes of entries."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args

from attrs import evolve, fields, frozen

from vidgen_async.sandbox.input_rules import array_of, one_of, string, structure, whole_number

#: How the content endpoint returns a model's videos (4.6).
Delivery = Literal["ranges", "no ranges", "signed link"]


@frozen(kw_only=True)
class CatalogEntry:
    """One model. A maximum of None is absent on the wire, and is not checked.

    ``min_reference_images``, ``delivery`` and the names of the prices are the sandbox's own: the description has a
    minimum for vendorh3 only, deliveries as examples, and no names of price fields. A task costs ``points``.
    """

    code: str
    name: str
    durations: tuple[int, ...]
    resolutions: tuple[str, ...] = ("720p",)
    enabled: bool = True
    maintenance: bool = False
    max_reference_images: int | None = None
    max_reference_audios: int | None = None
    max_reference_videos: int | None = None
    min_reference_images: int = 0
    points: int = 20
    member_points: int | None = None
    delivery: Delivery = "ranges"

    @property
    def is_usable(self) -> bool:
        """Whether a task can be created: the model is enabled and not in maintenance (section 3)."""
        return self.enabled and not self.maintenance

    def as_json(self) -> dict[str, Any]:
        """Return the entry as GET /models shows it: fields without a value are absent, not null."""
        shown = {name: getattr(self, field) for name, field in WIRE_NAMES.items() if field not in NEVER_SENT}
        return {name: value for name, value in shown.items() if value is not None}


NEVER_SENT = ("min_reference_images", "delivery")
#: The fields of an entry by their names on the wire.
WIRE_NAMES = {re.sub("_(.)", lambda found: found[1].upper(), each.name): each.name for each in fields(CatalogEntry)}
_SECONDS = whole_number(1, 600)
#: The number is the shorter side of the rendered video.
_RESOLUTION = string(r"auto|(?:[1-9]\d{2}|1\d{3}|2[01]\d{2})p", "auto or 100p to 2199p")
_Limit = Annotated[int, whole_number(0, 1000)]
_Points = Annotated[int, whole_number(0, 1_000_000_000)]
Changes = TypedDict(  # noqa: UP013 - the names are those of the wire
    "Changes",
    {
        "name": Annotated[str, string(r".{1,200}", "a string of 1 to 200 characters")],
        "enabled": bool,
        "maintenance": bool,
        "durations": Annotated[tuple[Annotated[int, _SECONDS], ...], array_of(_SECONDS)],
        "resolutions": Annotated[tuple[Annotated[str, _RESOLUTION], ...], array_of(_RESOLUTION)],
        "maxReferenceImages": _Limit | None,
        "maxReferenceAudios": _Limit | None,
        "maxReferenceVideos": _Limit | None,
        "minReferenceImages": _Limit,
        "points": _Points,
        "memberPoints": _Points | None,
        "delivery": Annotated[Delivery, one_of(get_args(Delivery))],
    },
    total=False,
)


def changed_entry(changes: Mapping[str, Any], entry: CatalogEntry) -> CatalogEntry:
    """Return an entry with changes from outside, by the names on the wire; an InvalidInputError names every problem."""
    checked: Mapping[str, Any] = structure(changes, Changes)
    return evolve(entry, **{WIRE_NAMES[name]: value for name, value in checked.items()})


def _entry(
    code: str, name: str, durations: Iterable[int], limits: tuple[int | None, ...] = (None, None, None), **more: Any
) -> CatalogEntry:
    more |= zip(("max_reference_images", "max_reference_audios", "max_reference_videos"), limits, strict=True)
    return CatalogEntry(code=code, name=name, durations=tuple(durations), **more)


_MAINTENANCE: Mapping[str, Any] = {"enabled": False, "maintenance": True}
#: The models of a sandbox: the ten of the catalog when the description was written.
SNAPSHOT = (
    _entry("tierb-video-345b30093bb2", "Tier B Video", (15, 30), (9, 0, 0), points=57, member_points=55),
    _entry(
        "vendorh3",
        "Vendor H3 2K",
        range(5, 16),
        (8, 3, 0),
        resolutions=("768p",),
        min_reference_images=1,
        points=15,
        member_points=12,
        delivery="signed link",
    ),
    _entry("sd2_480p_real", "SD 2 Real", (15,), (9, 3, 3), points=50, member_points=45, delivery="no ranges"),
    _entry("sd_2_5_once_720p", "SD 2.5 Once", (30,), (30, 10, 10), points=90, member_points=80),
    _entry("gen-2.0", "Gen 2.0", (5, 10, 15)),
    _entry("gen-2.5", "Gen 2.5", (10, 16, 20, 30), **_MAINTENANCE),
    _entry("gen-2.5-special", "Gen 2.5 Special", (30,), resolutions=("auto",), **_MAINTENANCE),
    _entry("gen-2.5-workflow", "Gen 2.5 Workflow", (30,), **_MAINTENANCE),
    _entry("promo_gen25_discount_720p", "Gen 2.5 Promotion", (15, 30), enabled=False),
    _entry("alt-sd2.5", "Alt SD 2.5", (30,), (30, 3, 0), **_MAINTENANCE),
)
