"""The model catalog: the ten entries of the snapshot of version 2026.10.19 (section 2.1)."""

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
        entry = {name: getattr(self, field) for name, field in WIRE_NAMES.items()}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in entry.items()
            if value is not None
        }


SNAPSHOT = (
    CatalogEntry(
        code="tierb-video-345b30093bb2",
        name="Tier B Video",
        durations=(15, 30),
        max_reference_images=9,
        max_reference_audios=0,
        max_reference_videos=0,
        points=57,
        member_points=55,
    ),
    CatalogEntry(
        code="vendorh3",
        name="Vendor H3 2K",
        durations=tuple(range(5, 16)),
        resolutions=("768p",),
        max_reference_images=8,
        max_reference_audios=3,
        max_reference_videos=0,
        min_reference_images=1,
        points=15,
        member_points=12,
        delivery="signed link",
    ),
    CatalogEntry(
        code="sd2_480p_real",
        name="SD 2 Real",
        durations=(15,),
        max_reference_images=9,
        max_reference_audios=3,
        max_reference_videos=3,
        points=50,
        member_points=45,
        delivery="no ranges",
    ),
    CatalogEntry(
        code="sd_2_5_once_720p",
        name="SD 2.5 Once",
        durations=(30,),
        max_reference_images=30,
        max_reference_audios=10,
        max_reference_videos=10,
        points=90,
        member_points=80,
    ),
    CatalogEntry(code="gen-2.0", name="Gen 2.0", durations=(5, 10, 15)),
    CatalogEntry(code="gen-2.5", name="Gen 2.5", durations=(10, 16, 20, 30), enabled=False, maintenance=True),
    CatalogEntry(
        code="gen-2.5-special",
        name="Gen 2.5 Special",
        durations=(30,),
        resolutions=("auto",),
        enabled=False,
        maintenance=True,
    ),
    CatalogEntry(code="gen-2.5-workflow", name="Gen 2.5 Workflow", durations=(30,), enabled=False, maintenance=True),
    CatalogEntry(code="promo_gen25_discount_720p", name="Gen 2.5 Promotion", durations=(15, 30), enabled=False),
    CatalogEntry(
        code="alt-sd2.5",
        name="Alt SD 2.5",
        durations=(30,),
        enabled=False,
        maintenance=True,
        max_reference_images=30,
        max_reference_audios=3,
        max_reference_videos=0,
    ),
)
