"""The local images of a create: read once to compare them, and once more when they are uploaded."""

import hashlib
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from attrs import define, field, frozen

from vidgen_async.errors import InvalidRequestError, ServiceError, TransportError
from vidgen_async.media.transfer import OnSent
from vidgen_async.media.upload import ImageBody, Uploads, image_body, is_url
from vidgen_async.redaction.messages import excerpt
from vidgen_async.types.resources import ImageSource, ReferenceAsset

#: Types of an image, besides binary files.
_ONE_IMAGE = (str, bytes, bytearray, memoryview, os.PathLike, ReferenceAsset)


def _is_image(thing: object) -> bool:
    return isinstance(thing, _ONE_IMAGE) or hasattr(thing, "read")


@frozen
class LocalImage:
    """An image that was read. Its data is not kept in memory if it can be read again."""

    source: str | os.PathLike[str] | bytes = field(repr=False)
    digest: str
    """SHA-256 of the image itself, in hexadecimal: it does not depend on the form in which it was given."""
    size: int
    path: str | None


@define(eq=False, repr=False)
class LocalImages:
    """The images of one create, to :meth:`read` first. ``on_progress`` gets the fraction of all of them."""

    _uploads: Uploads
    _on_progress: Callable[[float], None] | None = field(default=None, kw_only=True)
    _images: list[LocalImage | ReferenceAsset] = field(factory=list, init=False)
    problems: tuple[str, ...] = field(default=(), init=False)
    """Why images cannot be used, with their positions."""
    keys: tuple[str, ...] = field(default=(), init=False)
    """What each is compared by: the SHA-256 of its content, or the image id of an asset. For an image that cannot
        be used, a stand-in."""

    async def read(self, images: Iterable[ImageSource]) -> None:
        """Read them one after the other, in a thread, and compute their digests. Nothing is sent."""
        if _is_image(images) or not isinstance(images, Iterable):
            self.keys, self.problems = ("local-0",), (f"local_images: must be a list, not {type(images).__name__}",)
            return
        keys, problems = [], []
        for n, image in enumerate(images):
            try:
                found = image if isinstance(image, ReferenceAsset) else await self._read(image)
            except InvalidRequestError as error:
                problems += [f"local_images[{n}]: {problem}" for problem in error.problems]
                keys.append(f"local-{n}")
            else:
                self._images.append(found)
                keys.append(found.image_id if isinstance(found, ReferenceAsset) else found.digest)
        self.keys, self.problems = tuple(keys), tuple(problems)

    async def _read(self, image: Any) -> LocalImage:
        problem = None if _is_image(image) else f"must be a path, bytes or a binary file, not {type(image).__name__}"
        if isinstance(image, str) and is_url(image):
            problem = f"{excerpt(image)!r} is a URL, not a local image: pass it in image_urls"
        if problem:
            raise InvalidRequestError(problem)
        # A copy of what the caller may change meanwhile.
        source = bytes(image) if isinstance(image, bytearray | memoryview) else image
        return await self._uploads.run(_read, source)

    async def upload(self) -> tuple[str, ...]:
        """Upload one after the other, and return the ids; InvalidRequestError if a file was changed since."""
        total = sum(image.size for image in self._images if isinstance(image, LocalImage))
        done = 0
        ids = []
        for n, image in enumerate(self._images):
            if isinstance(image, ReferenceAsset):
                ids.append(image.image_id)
                continue
            try:
                ids.append(await self._upload(image, partial(self._report, done, total)))
            except InvalidRequestError as error:
                problems = [f"local_images[{n}]: {problem}" for problem in error.problems]
                raise InvalidRequestError(f"the request was not sent: {problems[0]}", problems=problems) from None
            except (ServiceError, TransportError) as error:
                which = f"local_images[{n}]" + (f" ({image.path!r})" if image.path else "")
                error.args = (f"{which} was not uploaded, so nothing was ordered or charged: {error.message}",)
                raise
            done += image.size
        return tuple(ids)

    async def _upload(self, image: LocalImage, on_progress: OnSent) -> str:
        body = await self._uploads.run(_read_again, image)
        return (await self._uploads.upload_body(body, on_progress=on_progress)).image_id

    def _report(self, before: int, total: int, sent: int, _: int) -> None:
        if self._on_progress is not None:
            self._on_progress((before + sent) / total)


# -- in a thread -----------------------------------------------------------------------------------------------------


def _read(source: Any) -> LocalImage:
    data = image_body(source).data
    # A binary file may be readable only once.
    kept = source if isinstance(source, str | os.PathLike | bytes) else data
    is_path = isinstance(source, str | os.PathLike) and os.path.isfile(source)  # noqa: PTH113 - raises nothing
    path = excerpt(os.fsdecode(source)) if is_path else None
    return LocalImage(kept, hashlib.sha256(data).hexdigest(), len(data), path)


def _read_again(image: LocalImage) -> ImageBody:
    body = image_body(image.source)
    if hashlib.sha256(body.data).hexdigest() != image.digest:
        raise InvalidRequestError("the file was changed while the request was checked")
    return body
