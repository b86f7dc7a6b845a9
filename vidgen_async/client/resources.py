"""The endpoints that take one call: models, account, files."""

import os
from typing import BinaryIO

from vidgen_async.client.context import Parts
from vidgen_async.media.upload import Uploads
from vidgen_async.service.codec import read_account, read_catalog
from vidgen_async.types.resources import Account, Catalog, ReferenceAsset


class Models:
    """GET /models (4.1)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list(self) -> Catalog:
        """The live catalog of the calling key (2.1): models with their durations in seconds, resolutions and limits,
        and the caller's prices in ``extra``, under the names that the service gives them. A read, as any other."""
        self._parts.lifetime.check()
        catalog = await self._parts.reads.again(self._parts.endpoints.list_models(), read_catalog)
        self._parts.live_catalog.keep(catalog)
        return catalog


class AccountInfo:
    """GET /account (4.2)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def get(self) -> Account:
        """The account (2.2): everything in ``.extra``, since its field names are not documented; ``.balance`` in
        credits where one of the usual names holds a number, else None. A read, as any other."""
        self._parts.lifetime.check()
        account = await self._parts.reads.again(self._parts.endpoints.get_account(), read_account)
        self._parts.balances.saw(account)
        return account


class Files:
    """POST /files (4.3)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._uploads = Uploads(parts.reads, parts.endpoints, parts.clock)

    async def upload(self, image: str | os.PathLike[str] | bytes | BinaryIO) -> ReferenceAsset:
        """Upload a reference image: a path, bytes, a binary file, a data URI or plain Base64, or the service's own
        asset URL (which is reused). The service keeps it for 72 hours.

        InvalidRequestError, before anything is sent, for what is empty, missing or no image; EmptyReferenceAssetError,
        InvalidReferenceImageError, ReferenceAssetExpiredError or UnsupportedReferenceURLError as the service says. It
        goes again like a read: a second asset costs nothing. The Base64 is made in a thread. Cancelling stops it.
        """
        self._parts.lifetime.check()
        return await self._uploads.upload(image)
