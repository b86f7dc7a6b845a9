"""Uploads of reference images (4.3). They are read and checked in a thread, before anything is sent."""

import asyncio
import base64
import json
import os
import re
import stat
import string
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, unquote_to_bytes

from attrs import evolve, field, frozen
from yarl import URL

from vidgen_async.clock import Clock, hold_of
from vidgen_async.errors import InvalidRequestError
from vidgen_async.media.image_types import SIGNATURE_SIZE, describe_type, image_type
from vidgen_async.media.transfer import OnSent, Progress
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
#: Number of Base64 characters that identify the type of an image.
_BASE64_SIGNATURE_LENGTH = 64

#: What may be around a data URI that was copied, and how much of a text shows that it is one, or Base64.
_AROUND = string.whitespace + "\ufeff\"'"
_TEXT_HEAD = 300

_TYPES = "PNG, JPEG, GIF, WebP, BMP, TIFF, HEIC, AVIF"

#: Names like this are more likely to be data than files, and are not shown.
_LIKE_DATA = re.compile(r"[\w+/=~\s-]{64,}", re.ASCII)
#: The end of the header of a data URI. Its parameters may hold anything, a comma in quotes too.
_BASE64_MARK = re.compile(r";\s*base64\s*,", re.IGNORECASE)
_LONGEST_DATA_URI_HEADER = 1000
_WEB = re.compile(r"\s*https?:", re.IGNORECASE)


class Uploads:
    def __init__(self, reads: Reads, endpoints: Endpoints, clock: Clock) -> None:
        self._reads = reads
        self._endpoints = endpoints
        self._clock = clock

    async def upload(self, image: ImageSource, *, on_progress: OnSent | None = None) -> ReferenceAsset:
        """Upload an image, also one as text in bytes or a file, or reuse an asset of the service, also by its URL."""
        asset = image if isinstance(image, ReferenceAsset) else None
        if asset is not None and asset.url is None:
            raise _make_error(f"the asset {excerpt(asset.id)!r} has no URL")
        text = image if asset is None else asset.url
        if isinstance(text, str) and (asset is not None or is_url(text)):
            url = self._endpoints.absolute_asset(text.strip())
            # The service does not state when it was uploaded.
            stored = await self._send(BytesBody(json.dumps({"image_url": self._checked_url(url)}).encode()))
            is_same = asset is not None and asset.id == stored.id
            return evolve(stored, uploaded_at=asset.uploaded_at) if asset is not None and is_same else stored
        # A copy of what the caller may change meanwhile.
        source = bytes(image) if isinstance(image, bytearray | memoryview) else image
        return await self.upload_body(await self.run(image_body, source), on_progress=on_progress)

    async def upload_body(self, body: "ImageBody", *, on_progress: OnSent | None = None) -> ReferenceAsset:
        """Upload an image that was read already."""
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

    def _checked_url(self, url: str) -> str:
        with suppress(ValueError):
            if self._endpoints.is_own(URL(url, encoded=True)):
                return url
        raise _make_error(
            f"{excerpt(url)!r} is not an asset of this service ({self._endpoints.origin}): uploads never fetch "
            "other URLs; pass it in image_urls of a create"
        )


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
    """Return the request body for an image; InvalidRequestError if it is none, or cannot be read."""
    if isinstance(image, str) and _is_data_uri(image):
        return _text_body(image, "the data URI")
    if isinstance(image, str | os.PathLike):
        file = _read_path(image)
        if isinstance(file, InvalidRequestError):
            if isinstance(image, str) and _is_base64(image):
                return _text_body(image, "the Base64 text")
            raise file
        data, name = file
    elif isinstance(image, bytes):
        data, name = image, "the image"
    elif hasattr(image, "read"):
        data, name = _read_file(image)
    else:
        kind = type(image).__name__
        raise TypeError(f"an image is a path, bytes, a binary file, a data URI, an asset or its URL, not {kind}")
    if _is_text(data):
        return _text_body(data.decode("utf-8-sig", "replace"), f"the text in {name}")
    return _make_body(data, name)


def _read_path(path: str | os.PathLike[str]) -> tuple[bytes, str] | InvalidRequestError:
    """Return the bytes and the name for messages, or the error without a cause, which would quote the path."""
    text = os.fsdecode(path)
    name = f"the file {excerpt(text)!r}"
    if _LIKE_DATA.fullmatch(text):
        name = f"the file whose name has {len(text)} characters"
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory, not an image" if stat.S_ISDIR(mode) else "not a regular file"
            raise _make_error(f"{name} is {kind}")
        with Path(path).open("rb", buffering=0) as file:
            head = file.read(SIGNATURE_SIZE)
            if not _is_text(head):
                _check_type(head, name)  # before reading the rest, which may be large
            file.seek(0)
            return file.readall(), name
    except InvalidRequestError:
        raise
    except FileNotFoundError:
        is_padded = text != text.strip() and os.path.isfile(text.strip())  # noqa: PTH113 - raises nothing
        hint = f", but {excerpt(text.strip())!r} does, without white space around it" if is_padded else ""
        return _make_error(f"{name} does not exist{hint}")
    except (OSError, ValueError) as error:
        return _make_error(f"{name} cannot be read: {_reason(error)}")


def _is_data_uri(text: str) -> bool:
    return text[:_TEXT_HEAD].lstrip(_AROUND)[:5].lower() == "data:"


def _is_base64(text: str) -> bool:
    """Whether a text with this beginning may be an image in Base64."""
    head = "".join(unquote(text[:_TEXT_HEAD].lstrip(_AROUND)).split())[:_BASE64_SIGNATURE_LENGTH]
    return len(head) >= _MIN_BASE64_LENGTH and image_type(_decode_base64(head) or b"") is not None


def _is_text(data: bytes) -> bool:
    """Whether this is an image as text, not its bytes."""
    head = data[:_TEXT_HEAD].decode("utf-8-sig", "replace")
    return _is_data_uri(head) or _is_base64(head)


def _text_body(text: str, name: str) -> ImageBody:
    """Return the body for Base64, or for a data URI (RFC 2397), whose data is Base64 or else percent-encoded."""
    text = text.strip(_AROUND)
    if _is_data_uri(text):
        if mark := _BASE64_MARK.search(text, 0, _LONGEST_DATA_URI_HEADER):
            text = text[mark.end() :]
        elif "," in text:
            return _make_body(unquote_to_bytes(text.partition(",")[2]), name)
        else:
            raise _make_error(f"{name} has no comma: it must be like data:image/png;base64,…")
    return _make_body(_decode_text(text, name), name)


def _read_file(file: Any) -> tuple[bytes, str]:
    given = getattr(file, "name", None)
    name = f"the file {excerpt(given)!r}" if isinstance(given, str) else "the file"
    position = 0
    with suppress(AttributeError, OSError, TypeError, ValueError):
        position = int(file.tell())
    with UserCode(is_awaited=False) as call:
        data = file.read()
    if call.error is not None:
        raise _make_error(f"{name} cannot be read: {_reason(call.error)}") from showable(call.error)
    if isinstance(data, bytes | bytearray | memoryview):
        if not len(data) and position:
            raise _make_error(f"{name} is at its end (position {position}): call seek(0) before the upload")
        return bytes(data), f"{name}, from its position {position}," if position else name
    close = getattr(data, "close", None)
    if close is not None:
        close()  # it is a coroutine that is never awaited
    raise _make_error(
        f"reading {name} returns {type(data).__name__}, not bytes: open it in binary mode (and not asynchronously)"
    )


def _check_type(head: bytes, name: str) -> str:
    if not head:
        raise _make_error(f"{name} is empty")
    mime = image_type(head)
    if mime is None:
        kind = describe_type(head)
        if kind.endswith(" image"):
            raise _make_error(f"{name} is {kind}, which is none of {_TYPES}: convert it first")
        raise _make_error(f"{name} is not an image ({_TYPES}): it is {kind}")
    return mime


def _make_body(data: bytes, name: str) -> ImageBody:
    return ImageBody(_check_type(data[:SIGNATURE_SIZE], name), data)


def _decode_text(text: str, name: str) -> bytes:
    """Decode Base64, standard or URL-safe, with or without white space and padding, also percent-encoded."""
    text = unquote(text) if "%" in text else text
    text = "".join(text.split()).rstrip("=")
    if "=" in text:
        raise _make_error(f"{name} continues after its padding, at character {text.index('=') + 1} of its data")
    chunks: list[bytes] = []
    # In chunks, because a single call would hold the interpreter lock and block the event loop.
    for at in range(0, len(text), CHUNK):
        decoded = _decode_base64(text[at : at + CHUNK])
        if decoded is None:
            raise _make_error(f"{name} is not Base64 after character {at} of its data")
        chunks.append(decoded)
    return b"".join(chunks)


def _decode_base64(text: str) -> bytes | None:
    """Decode Base64, standard or URL-safe, without padding; None if it is invalid."""
    padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True) if text.isascii() else None
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    return excerpt(str(getattr(error, "strerror", None) or error)) or type(error).__name__


def _make_error(problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, problems=[problem])
