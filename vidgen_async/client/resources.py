"""The endpoints with a single call each: models, account, files."""

from collections.abc import Callable

from vidgen_async.client.views import View
from vidgen_async.events import contained
from vidgen_async.service.codec import read_account, read_catalog
from vidgen_async.types.resources import Account, Catalog, ImageSource, ReferenceAsset


class Models:
    """GET /models (4.1)."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def list(self) -> Catalog:
        """The live catalog of the calling key (2.1): models with their durations in seconds, resolutions and limits,
        and the caller's prices in ``extra``, under the names that the service gives them. Retried like every read."""
        self._view.check_usable()
        catalog = await self._view.reads.retry(self._view.endpoints.list_models(), read_catalog)
        self._view.live_catalog.keep(catalog)
        return catalog


class AccountInfo:
    """GET /account (4.2)."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def get(self) -> Account:
        """The account (2.2): everything in ``.extra``, since its field names are not documented; ``.balance`` in
        credits where one of the usual names holds a number, else None. Retried like every read."""
        self._view.check_usable()
        account = await self._view.reads.retry(self._view.endpoints.get_account(), read_account)
        self._view.balances.remember(account)
        return account


class Files:
    """POST /files (4.3)."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def upload(
        self, image: ImageSource, *, on_progress: Callable[[int, int], None] | None = None
    ) -> ReferenceAsset:
        """Upload a reference image: a path, bytes, a binary file, a data URI or plain Base64, or the service's own
        asset or its URL (which is reused). The service stores it for 72 hours.

        A failed upload is retried like a read: a duplicate upload is free. The image is read in a thread. Cancelling
        stops it.

        Args:
            on_progress: Called as ``on_progress(sent, total)`` in bytes of the image, at most about ten times a second;
                ``sent`` decreases if the upload is retried. It must not be async; if it raises, that is logged, and it
                is not called again.

        Raises:
            InvalidRequestError: The image is empty, missing or not an image; nothing was sent.
            EmptyReferenceAssetError, InvalidReferenceImageError, ReferenceAssetExpiredError,
            UnsupportedReferenceURLError: As the service answers.
        """
        self._view.check_usable()
        from vidgen_async.media.upload import Uploads  # noqa: PLC0415 - most programs upload nothing

        uploads = Uploads(self._view.reads, self._view.endpoints, self._view.clock)
        return await uploads.upload(image, on_progress=None if on_progress is None else contained(on_progress))
