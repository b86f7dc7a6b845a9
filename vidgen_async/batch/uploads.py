"""Uploads of reference images, each content once."""

import asyncio
import hashlib
from collections import OrderedDict
from datetime import timedelta
from weakref import WeakValueDictionary

from vidgen_async.clock import Clock
from vidgen_async.media.transfer import OnSent
from vidgen_async.media.upload import ImageBody, Uploads
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.types.resources import ReferenceAsset

#: The number of images that are remembered.
MOST_IMAGES = 1000
#: An asset that expires sooner is uploaded again: its order may wait for the submission limit.
_SHORTEST_REST = timedelta(hours=1)


class CachedUploads(Uploads):
    """Uploads an image once, also for concurrent calls, as long as the service stores it."""

    def __init__(self, reads: Reads, endpoints: Endpoints, clock: Clock) -> None:
        super().__init__(reads, endpoints, clock)
        self._assets: OrderedDict[str, ReferenceAsset] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def upload_body(self, body: ImageBody, *, on_progress: OnSent | None = None) -> ReferenceAsset:
        digest = hashlib.sha256(body.data).hexdigest()
        async with self._locks.setdefault(digest, asyncio.Lock()):
            asset = self._assets.get(digest)
            if asset is None or asset.expires_at is None or asset.expires_at < self._clock.wall() + _SHORTEST_REST:
                asset = self._assets[digest] = await super().upload_body(body, on_progress=on_progress)
            self._assets.move_to_end(digest)
            if len(self._assets) > MOST_IMAGES:
                self._assets.popitem(last=False)
            return asset
