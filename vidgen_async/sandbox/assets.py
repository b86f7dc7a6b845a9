"""Reference assets: uploaded images, which are decoded and stored for 72 hours (2.3, 4.3)."""

import base64
import io
import re
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from attrs import define, field, frozen
from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from vidgen_async.sandbox.accounts import Account
from vidgen_async.sandbox.http import ASSET_PATH, Refusal, pattern
from vidgen_async.sandbox.links import LinkSigner, PublicAddresses

RETENTION = 72 * 3600.0
#: The formats that Pillow decodes itself; for some others it would start an external program.
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
#: The sandbox's own limit: the description sets none.
MOST_PIXELS = 50_000_000


@frozen
class Asset:
    """One uploaded image. It cannot be used at ``expires_at`` or later."""

    id: str
    account: Account = field(repr=False)
    content: bytes = field(repr=False)
    mime: str
    name: str
    expires_at: float

    @property
    def path(self) -> str:
        return ASSET_PATH.format(asset=self.id, name=self.name)


def decode_image(text: str) -> tuple[bytes, str]:
    """Return the image in a data URI or in Base64, and the format of its content. A large one is refused."""
    text = text.strip()
    head, comma, payload = text.partition(",") if text[:5].lower() == "data:" else (";base64", ",", text)
    if not comma:
        raise _invalid("image_b64 is a data URI without data")
    try:
        if head.lower().endswith(";base64"):
            content = base64.b64decode("".join(unquote(payload).split()), validate=True)
        else:
            content = unquote_to_bytes(payload)
    except ValueError as error:
        raise _invalid(f"image_b64 is not valid Base64 (the standard alphabet, with padding): {error}") from error
    if not content:
        raise Refusal(400, "EMPTY_REFERENCE_ASSET", "the uploaded content is empty; upload the original file again")
    try:
        # A JPEG with several pictures, as cameras store them, is a JPEG; Image.open names it MPO, and warns of some.
        file, is_jpeg = io.BytesIO(content), content.startswith(b"\xff\xd8\xff")
        with JpegImageFile(file) if is_jpeg else Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Image.DecompressionBombError
            image.load()
            kind = str(image.format)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _invalid(f"the image has more than {MOST_PIXELS // 1_000_000} megapixels") from None
    except UnidentifiedImageError as error:
        why = f"the content is damaged, or no image of the formats that the sandbox can decode ({', '.join(FORMATS)})"
        raise _invalid(f"{why}; the service may accept other formats") from error
    except Exception as error:  # Pillow's decoders raise errors of many types
        raise _invalid(f"the image cannot be decoded: {type(error).__name__}") from error
    return content, kind


def _invalid(why: str) -> Refusal:
    return Refusal(400, "INVALID_REFERENCE_IMAGE", why)


@define
class AssetStore:
    """The uploads of all accounts. ``addresses`` has the origins of their full URLs."""

    addresses: PublicAddresses
    signer: LinkSigner
    retention: float = RETENTION
    by_id: dict[str, Asset] = field(factory=dict)

    def make(self, account: Account, text: str, now: float) -> Asset:
        content, kind = decode_image(text)
        name = secrets.token_hex(12)
        file_name, expires_at = f"{name[:8]}.{kind.lower()}", now + self.retention
        # Not the media type of the image: of an animated PNG it is another one.
        return Asset(f"asset_{name}", account, content, Image.MIME[kind], file_name, expires_at)

    def __iter__(self) -> Iterator[Asset]:
        return iter(tuple(self.by_id.values()))

    def __len__(self) -> int:
        return len(self.by_id)

    def as_json(self, asset: Asset) -> dict[str, Any]:
        """Return the answer to POST /files. The url starts with ``/``: the caller puts the host in front (2.3)."""
        url = f"{asset.path}?token={self.signer.token(asset.path)}"
        return {"id": asset.id, "image_id": asset.id, "url": url, "mime": asset.mime, "name": asset.name}

    def owned(self, account: Account, asset_id: str, now: float) -> Asset:
        """Return an asset of the account that has not expired; raise the refusal of section 7 otherwise."""
        asset = self.by_id.get(asset_id)
        if asset is None or asset.account is not account or now >= asset.expires_at:
            message = f"asset {asset_id!r} is deleted, expired, or not owned by this account"
            raise Refusal(400, "REFERENCE_ASSET_EXPIRED", message)
        return asset

    def is_own_url(self, url: str, host: str | None) -> bool:
        """Return whether it is the full URL of an asset for a client with this Host; a proxy may change the scheme."""
        urls = (f"http://{host or ''}", self.addresses.listening.service, self.addresses.public_url or "")
        own_hosts = {url.partition("://")[2].lower() for url in urls}
        found = re.match(r"https?://([^/?#]+)([^?#]*)", url, re.IGNORECASE)
        return bool(found and found[1].lower() in own_hosts and pattern(ASSET_PATH).fullmatch(found[2]))

    def by_url(self, account: Account, url: str, now: float) -> Asset:
        """Return the asset at a full URL of this service, or a path of it, which must have its complete token."""
        parts = urlsplit(url)
        found = pattern(ASSET_PATH).fullmatch(parts.path)
        asset = self.owned(account, found[1] if found else "", now)
        if not self._is_token_complete(asset, parts.query):
            raise Refusal(400, "REFERENCE_ASSET_EXPIRED", "the asset's URL lacks its complete token")
        return asset

    def open(self, asset_id: str, path: str, query: str, now: float) -> Asset:
        """Return the asset of this id at a path of the service, for any caller that has its token."""
        asset = self.by_id.get(asset_id)
        if asset is None or asset.path != path or now >= asset.expires_at:
            raise Refusal(404, "NOT_FOUND", "there is no such asset")
        if not self._is_token_complete(asset, query):
            raise Refusal(401, "INVALID_ASSET_TOKEN", "the asset's URL lacks its complete token")
        return asset

    def _is_token_complete(self, asset: Asset, query: str) -> bool:
        return f"token={self.signer.token(asset.path)}" in query.split("&")
