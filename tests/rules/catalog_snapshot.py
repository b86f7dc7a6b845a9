"""Tables of the service description for the tests of both sides: the catalog snapshot and the prices (2.1)."""

from typing import Any

from attrs import frozen

IMAGE = "https://pics.net/a.png"
AUDIO = "https://sounds.net/a.mp3"
VIDEO = "https://films.net/a.mp4"


@frozen
class SnapshotRow:
    """One model of the snapshot. A limit of None: absent."""

    code: str
    enabled: bool
    maintenance: bool
    durations: tuple[int, ...]
    resolution: str = "720p"
    images: int | None = None
    audios: int | None = None
    videos: int | None = None

    def __str__(self) -> str:
        return self.code


SNAPSHOT = (
    SnapshotRow("tierb-video-345b30093bb2", True, False, (15, 30), images=9, audios=0, videos=0),
    SnapshotRow("vendorh3", True, False, tuple(range(5, 16)), "768p", images=8, audios=3, videos=0),
    SnapshotRow("sd2_480p_real", True, False, (15,), images=9, audios=3, videos=3),
    SnapshotRow("sd_2_5_once_720p", True, False, (30,), images=30, audios=10, videos=10),
    SnapshotRow("gen-2.0", True, False, (5, 10, 15)),
    SnapshotRow("gen-2.5", False, True, (10, 16, 20, 30)),
    SnapshotRow("gen-2.5-special", False, True, (30,), "auto"),
    SnapshotRow("gen-2.5-workflow", False, True, (30,)),
    SnapshotRow("promo_gen25_discount_720p", False, False, (15, 30)),
    SnapshotRow("alt-sd2.5", False, True, (30,), images=30, audios=3, videos=0),
)

#: Standard prices in points: regular, member.
PRICES = {
    "vendorh3": (15, 12),
    "tierb-video-345b30093bb2": (57, 55),
    "sd2_480p_real": (50, 45),
    "sd_2_5_once_720p": (90, 80),
}

RATIOS = ("9:16", "1:1", "3:4", "4:3", "16:9")

#: A value for every field of a create (2.4), all of which sd2_480p_real takes; image_ids need an upload.
GOOD_FIELDS: dict[str, Any] = {
    "model": "sd2_480p_real",
    "prompt": "x",
    "duration": 15,
    "seconds": 15,
    "aspect_ratio": "3:4",
    "ratio": "9:16",
    "resolution": "720p",
    "mode": "any word",
    "attachments": [{"any": ["shape"]}],
    "reference_images": [{"url": IMAGE}],
    "image_urls": [IMAGE],
    "reference_videos": [{"url": VIDEO}],
    "video_urls": [VIDEO],
    "reference_audios": [{"url": AUDIO}],
    "audio_urls": [AUDIO],
}
