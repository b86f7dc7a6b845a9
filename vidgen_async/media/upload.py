"""Uploads of reference images (4.3). They are read and checked in a thread, before anything is sent."""

import asyncio
import base64
import json
import os
import re
import stat
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, unquote_to_bytes

from attrs import define, evolve, field, frozen
from yarl import URL

from vidgen_async.clock import Clock, hold_of
from vidgen_async.errors import InvalidRequestError
from vidgen_async.media.image_types import SIGNATURE_SIZE, describe_type, image_type
from vidgen_async.media.progress import OnSent, Progress
from vidgen_async.redaction.messages import excerpt, showable
from vidgen_async.service.codec import read_asset
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.types.http import CHUNK, Body, BytesBody
from vidgen_async.types.resources import ASSETS_PATH, ImageSource, ReferenceAsset
from vidgen_async.user_code import UserCode

T = TypeVar("T")

_END = b'"}'
#: Number of bytes that are encoded as one chunk of the body.
_RAW_CHUNK_SIZE = CHUNK // 4 * 3

#: Minimum length of an image in Base64. A shorter text is a path, even if it can be decoded.
_MIN_BASE64_LENGTH = 32
#: Number of Base64 characters that identify the type of an image, and of those of a text in which they are.
_BASE64_SIGNATURE_LENGTH = 64
_TEXT_HEAD = 300
#: From the URL-safe alphabet of Base64 to the other one.
_STANDARD = str.maketrans("-_", "+/")

_TYPES = "PNG, JPEG, GIF, WebP, BMP, TIFF, HEIC, AVIF"

#: Names like this are more likely to be data than files, and are not shown.
_LIKE_DATA = re.compile(r"[\w+/=~\s-]{64,}", re.ASCII)
#: The end of the header of a data URI. Its parameters may hold anything, a comma in quotes too.
_BASE64_MARK = re.compile(r";\s*base64\s*,", re.IGNORECASE)
_LONGEST_DATA_URI_HEADER = 1000
_WEB = re.compile(r"\s*https?:", re.IGNORECASE)


@define(eq=False, repr=False)
class Uploads:
    _reads: Reads
    _endpoints: Endpoints
    _clock: Clock

    async def upload(self, image: ImageSource, *, on_progress: OnSent | None = None) -> ReferenceAsset:
        """Upload an image, or reuse an asset of the service. ``on_progress`` must not raise."""
        if isinstance(image, ReferenceAsset):
            if image.url is None:
                raise InvalidRequestError(f"the asset {excerpt(image.id)!r} has no URL")
            stored = await self._reuse(image.url)
            # The service does not state when it was uploaded.
            return evolve(stored, uploaded_at=image.uploaded_at) if stored.id == image.id else stored
        if isinstance(image, str) and is_url(image):
            return await self._reuse(image)
        # A copy of what the caller may change meanwhile.
        source = bytes(image) if isinstance(image, bytearray | memoryview) else image
        return await self.upload_body(await self.run(image_body, source), on_progress=on_progress)

    async def upload_body(self, body: "ImageBody", *, on_progress: OnSent | None = None) -> ReferenceAsset:
        """Upload an image that was read already. ``on_progress`` is that of :meth:`upload`."""
        if on_progress is not None:
            body = evolve(body, on_sent=Progress(self._clock, on_progress).report)
        uploaded_at = self._clock.wall()
        return evolve(await self._send(body), uploaded_at=uploaded_at)

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return the result of ``call(*arguments)``, which reads an image, in a thread."""
        with hold_of(self._clock)():
            return await asyncio.to_thread(call, *arguments)

    async def _send(self, body: Body) -> ReferenceAsset:
        read = partial(read_asset, absolute=self._endpoints.absolute)
        return await self._reads.retry(self._endpoints.create_file(body), read)

    async def _reuse(self, text: str) -> ReferenceAsset:
        url = self._endpoints.absolute_asset(text.strip())
        try:
            is_own = self._endpoints.is_own(URL(url, encoded=True))
        except ValueError:
            is_own = False
        if not is_own:
            raise InvalidRequestError(
                f"{excerpt(url)!r} is not an asset of this service ({self._endpoints.origin}): uploads never fetch "
                "other URLs; pass it in image_urls of a create"
            )
        return await self._send(BytesBody(json.dumps({"image_url": url}).encode()))


def is_url(text: str) -> bool:
    """Whether the text is a URL, or the path of an asset's URL (2.3)."""
    return _WEB.match(text) is not None or text.strip().startswith(ASSETS_PATH)


@frozen
class ImageBody:
    """``{"image_b64": "data:…"}``, encoded while it is sent, any number of times."""

    mime: str
    data: bytes = field(repr=False)
    content_type: str = "application/json"
    on_sent: Callable[..., None] | None = field(default=None, eq=False, repr=False)
    """Called with the number of bytes of the image that were read so far, the number of all, and ``is_last``."""

    @property
    def length(self) -> int:
        return len(self._start) + (len(self.data) + 2) // 3 * 4 + len(_END)

    @property
    def _start(self) -> bytes:
        return f'{{"image_b64":"data:{self.mime};base64,'.encode()

    async def open(self) -> AsyncIterator[bytes]:
        yield self._start
        view = memoryview(self.data)
        for at in range(0, len(view), _RAW_CHUNK_SIZE):
            yield base64.b64encode(view[at : at + _RAW_CHUNK_SIZE])
            # On a fast network no chunk has to wait, so other tasks would not run.
            await asyncio.sleep(0)
            if self.on_sent is not None:
                sent = min(at + _RAW_CHUNK_SIZE, len(view))
                self.on_sent(sent, len(view), is_last=sent == len(view))
        yield _END


# -- in a thread -----------------------------------------------------------------------------------------------------


def image_body(image: Any) -> ImageBody:
    """The request body for an image; InvalidRequestError if it is none, or cannot be read."""
    if isinstance(image, str) and (uri := image.strip())[:5].lower() == "data:":
        return _encode_image(_decode_data_uri(uri), "the data URI")
    if isinstance(image, str | os.PathLike):
        found = _read_path(image)
        if isinstance(found, InvalidRequestError):
            if not isinstance(image, str) or not _is_base64(image[:_TEXT_HEAD]):
                raise found
            found = _decode_text(image, "the Base64 text"), "the Base64 text"
        return _encode_image(*found)
    if isinstance(image, bytes):
        return _encode_image(image, "the image")
    if hasattr(image, "read"):
        return _encode_image(*_read_file(image))
    raise TypeError(
        f"an image is a path, bytes, a binary file, a data URI, an asset or its URL, not {type(image).__name__}"
    )


def _read_path(path: str | os.PathLike[str]) -> tuple[bytes, str] | InvalidRequestError:
    """The bytes of the file and how messages name it; or the error if there is no such file.

    The errors have no cause, because those of the system quote the whole path.
    """
    text = os.fsdecode(path)
    name = f"the file {excerpt(text)!r}"
    if _LIKE_DATA.fullmatch(text):
        name = f"the file whose name has {len(text)} characters"
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise InvalidRequestError(f"{name} is a directory, not an image")
        if not stat.S_ISREG(mode):
            raise InvalidRequestError(f"{name} is not a regular file")
        with Path(path).open("rb", buffering=0) as file:
            _check_type(file.read(SIGNATURE_SIZE), name)  # before reading the rest, which may be large
            file.seek(0)
            return file.readall(), name
    except InvalidRequestError:
        raise
    except FileNotFoundError:
        return InvalidRequestError(f"{name} does not exist")
    except (OSError, ValueError) as error:
        return InvalidRequestError(f"{name} cannot be read: {_reason(error)}")


def _is_base64(head: str) -> bool:
    text = "".join(unquote(head).split())[:_BASE64_SIGNATURE_LENGTH]
    return len(text) >= _MIN_BASE64_LENGTH and image_type(_decode_base64(text) or b"") is not None


def _read_file(file: Any) -> tuple[bytes, str]:
    given = getattr(file, "name", None)
    name = f"the file {excerpt(given)!r}" if isinstance(given, str) else "the file"
    position = _position(file)
    with UserCode(is_awaited=False) as call:
        data = file.read()
    if call.error is not None:
        raise InvalidRequestError(f"{name} cannot be read: {_reason(call.error)}") from showable(call.error)
    if isinstance(data, bytes | bytearray | memoryview):
        if not len(data) and position:
            raise InvalidRequestError(f"{name} is at its end (position {position}): call seek(0) before the upload")
        return bytes(data), f"{name}, from its position {position}," if position else name
    close = getattr(data, "close", None)
    if close is not None:
        close()  # it is a coroutine that is never awaited
    raise InvalidRequestError(
        f"reading {name} returns {type(data).__name__}, not bytes: open it in binary mode (and not asynchronously)"
    )


def _position(file: Any) -> int:
    try:
        return int(file.tell())
    except (AttributeError, OSError, TypeError, ValueError):
        return 0


def _check_type(head: bytes, name: str) -> str:
    if not head:
        raise InvalidRequestError(f"{name} is empty")
    mime = image_type(head)
    if mime is None:
        raise InvalidRequestError(f"{name} is not an image ({_TYPES}): it is {describe_type(head)}")
    return mime


def _encode_image(data: bytes, name: str) -> ImageBody:
    return ImageBody(_check_type(data[:SIGNATURE_SIZE], name), data)


def _decode_data_uri(uri: str) -> bytes:
    """The data of a data URI (RFC 2397): it is Base64, or else percent-encoded."""
    mark = _BASE64_MARK.search(uri, 0, _LONGEST_DATA_URI_HEADER)
    if mark is not None:
        return _decode_text(uri[mark.end() :], "the data URI")
    _, comma, text = uri.partition(",")
    if not comma:
        raise InvalidRequestError("the data URI has no comma: it must be like data:image/png;base64,…")
    return unquote_to_bytes(text)


def _decode_text(text: str, name: str) -> bytes:
    """Decode Base64, standard or URL-safe, with or without white space and padding, also percent-encoded."""
    text = "".join(unquote(text).split()).rstrip("=")
    if "=" in text:
        raise InvalidRequestError(f"{name} continues after its padding, at character {text.index('=') + 1} of its data")
    chunks: list[bytes] = []
    # In chunks, because a single call would hold the interpreter lock and block the event loop.
    for at in range(0, len(text), CHUNK):
        decoded = _decode_base64(text[at : at + CHUNK])
        if decoded is None:
            raise InvalidRequestError(f"{name} is not Base64 after character {at} of its data")
        chunks.append(decoded)
    return b"".join(chunks)


def _decode_base64(text: str) -> bytes | None:
    """Decode Base64 without padding; None if it is invalid."""
    try:
        return base64.b64decode(text.translate(_STANDARD) + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    return excerpt(str(getattr(error, "strerror", None) or error)) or type(error).__name__
