"""The model catalog: the ten entries of the snapshot of version 2026.10.19 (section 2.1)."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import frozen

#: How the content endpoint returns a model's videos (4.6).
Delivery = Literal["ranges", "no ranges", "signed link"]

#: The names of an entry's fields on the wire.
WIRE_NAMES = {
    "code": "code",
    "name": "name",
    "enabled": "enabled",
    "maintenance": "maintenance",
    "durations": "durations",
    "resolutions": "resolutions",
    "maxReferenceImages": "max_reference_images",
    "maxReferenceAudios": "max_reference_audios",
    "maxReferenceVideos": "max_reference_videos",
    "points": "points",
    "memberPoints": "member_points",
}


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
        return {name: value for name, field in WIRE_NAMES.items() if (value := getattr(self, field)) is not None}


def _entry(
    code: str,
    name: str,
    durations: Iterable[int],
    limits: tuple[int | None, int | None, int | None] = (None, None, None),
    **more: Any,
) -> CatalogEntry:
    """Return an entry with its limits of reference images, audios and videos."""
    images, audios, videos = limits
    return CatalogEntry(
        code=code,
        name=name,
        durations=tuple(durations),
        max_reference_images=images,
        max_reference_audios=audios,
        max_reference_videos=videos,
        **more,
    )


_MAINTENANCE: Mapping[str, Any] = {"enabled": False, "maintenance": True}
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
