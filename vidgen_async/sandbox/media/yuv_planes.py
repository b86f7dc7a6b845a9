"""Images in the colour format of the encoder, so that frames are composed without conversions."""

from attrs import field, frozen
from PIL import Image

#: From the full range of an image to the narrower one of video (ITU-R BT.601).
_LUMA = [round(16 + value * 219 / 255) for value in range(256)]
_CHROMA = [round(128 + (value - 128) * 224 / 255) for value in range(256)]


@frozen(eq=False)
class Planes:
    """Luma at full size and two chroma planes at half of it (4:2:0)."""

    y: Image.Image = field(repr=False)
    u: Image.Image = field(repr=False)
    v: Image.Image = field(repr=False)

    @classmethod
    def of(cls, image: Image.Image) -> "Planes":
        y, u, v = image.convert("RGB").convert("YCbCr").split()
        return cls(y.point(_LUMA), u.reduce(2).point(_CHROMA), v.reduce(2).point(_CHROMA))

    @property
    def size(self) -> tuple[int, int]:
        return self.y.size

    def each(self) -> tuple[Image.Image, Image.Image, Image.Image]:
        return self.y, self.u, self.v

    def window(self, left: int, top: int, width: int, height: int) -> "Planes":
        """Return a copy of a part. ``width`` and ``height`` must be even; pixels beyond the image are undefined."""
        half = (left // 2, top // 2, left // 2 + width // 2, top // 2 + height // 2)
        return Planes(self.y.crop((left, top, left + width, top + height)), self.u.crop(half), self.v.crop(half))

    def blend(self, other: "Planes", share: float) -> "Planes":
        """Return a mix of two images: ``share`` 0 is this one, 1 the other."""
        y, u, v = (Image.blend(mine, theirs, share) for mine, theirs in zip(self.each(), other.each(), strict=True))
        return Planes(y, u, v)


@frozen(eq=False)
class Overlay:
    """An image with transparency that can be drawn onto others."""

    planes: Planes
    mask: Image.Image = field(repr=False)
    half_mask: Image.Image = field(repr=False)

    @classmethod
    def of(cls, image: Image.Image) -> "Overlay":
        mask = image.getchannel("A")
        return cls(Planes.of(image), mask, mask.reduce(2))

    @property
    def size(self) -> tuple[int, int]:
        return self.mask.size

    def put(self, onto: Planes, left: int, top: int) -> None:
        """Draw it at a position; parts outside are cut off."""
        onto.y.paste(self.planes.y, (left, top), self.mask)
        onto.u.paste(self.planes.u, (left // 2, top // 2), self.half_mask)
        onto.v.paste(self.planes.v, (left // 2, top // 2), self.half_mask)
