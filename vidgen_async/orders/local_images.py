"""The local images of a new order are uploaded before it is stored: until then there is no order, and no charge.

They are compared by their content, so that a stored order is found without an upload.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol
from weakref import WeakValueDictionary

from vidgen_async.orders.error_messages import conflict
from vidgen_async.service.endpoints import add_image_ids, content_of_images, create_body, read_request
from vidgen_async.types.orders import OrderContent, OrderRef
from vidgen_async.types.resources import VideoRequest


class ImagesToUpload(Protocol):
    """The local images of one request, which are not uploaded yet."""

    @property
    def keys(self) -> tuple[str, ...]:
        """What each is compared by: the SHA-256 of its content, or the image id of an asset."""
        ...

    async def upload(self) -> tuple[str, ...]:
        """Upload them, and return their image ids. Cancelling the call stops the upload."""
        ...


class ImageUploads:
    """Completes requests with the ids of their local images.

    Args:
        find: Returns what the order that has this name, or that is being submitted under it, asks for.
        locks: One for each order whose images are being uploaded; shared with the client's other accounts and keys.
    """

    def __init__(
        self,
        find: Callable[[OrderRef], Awaitable[OrderContent | None]],
        locks: WeakValueDictionary[OrderRef, asyncio.Lock],
    ) -> None:
        self._find = find
        self._locks = locks

    def lock(self, ref: OrderRef) -> asyncio.Lock:
        """Held while the images of the order are uploaded."""
        return self._locks.setdefault(ref, asyncio.Lock())

    async def complete(
        self,
        ref: OrderRef,
        request: VideoRequest,
        images: ImagesToUpload,
        check: Callable[[VideoRequest], Awaitable[object]] | None,
    ) -> OrderContent:
        """The content of the order: that of an upload by an earlier call, if there is one. Concurrent calls for one
        order upload once, provided that the caller submits the content before it awaits anything else.

        Args:
            check: Raises InvalidRequestError for a request that is not worth an upload.

        Raises:
            OrderConflictError: The order id belongs to a request with other images. Nothing was uploaded.
            InvalidRequestError: The images cannot be added to those of the request. Nothing was uploaded.
        """
        async with self.lock(ref):
            if (known := await self._find(ref)) is not None:
                return _with_known_ids(ref, request, images, known)
            planned = add_image_ids(request, images.keys)
            if check is not None:
                await check(planned)
            ids = await images.upload()
            local = {each: key for each, key in zip(ids, images.keys, strict=True) if each != key}
            return OrderContent(body=create_body(add_image_ids(request, ids)), local_images=local)


def _with_known_ids(ref: OrderRef, request: VideoRequest, images: ImagesToUpload, known: OrderContent) -> OrderContent:
    """The content with the image ids of a known order, whatever else in it may be different."""
    ids = read_request(known.body).image_ids
    asked = add_image_ids(request, images.keys).image_ids or ()
    if not isinstance(ids, tuple) or content_of_images(known, ids) != content_of_images(known, asked):
        raise conflict(ref.order_id, "was already used with other images")
    own = add_image_ids(request, ids[len(asked) - len(images.keys) :])
    return OrderContent(body=create_body(own), local_images=known.local_images)
