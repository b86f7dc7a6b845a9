"""Uploads of reference images (4.3). They are checked and encoded as Base64 in a thread, before anything is sent."""

import asyncio
import base64
import json
import os
import re
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from attrs import field, frozen
from yarl import URL

from vidgen_async.clock import Clock, hold_of
from vidgen_async.errors import InvalidRequestError
from vidgen_async.media.image_types import SIGNATURE_SIZE, describe_type, image_type
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.codec import read_asset
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.types.http import CHUNK, Body, BytesBody
from vidgen_async.types.resources import ReferenceAsset

#: The path of the service's own assets (2.3).
_ASSETS_PATH = "/api/reference-assets/"

#: Number of bytes that are encoded as one chunk of the body. The interpreter lock is held for one chunk at a time.
_RAW_CHUNK_SIZE = CHUNK // 4 * 3

#: Minimum length of an image in Base64. A shorter text is a path, even if it can be decoded.
_MIN_BASE64_LENGTH = 32
#: Number of Base64 characters that identify the type of an image.
_BASE64_SIGNATURE_LENGTH = 64

#: Names like this are more likely to be data than files, and are not shown.
_LIKE_DATA = re.compile(r"[\w+/=~\s-]{64,}", re.ASCII)
_DATA_URI = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]+)*;base64,", re.IGNORECASE)
_WEB = re.compile(r"\s*https?:", re.IGNORECASE)


class Uploads:
    """Uploads reference images (4.3)."""

    def __init__(self, reads: Reads, endpoints: Endpoints, clock: Clock) -> None:
        self._reads = reads
        self._endpoints = endpoints
        self._hold = hold_of(clock)

    async def upload(self, image: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> ReferenceAsset:
        """Upload an image, or reuse an asset of the service. The service stores it for 72 hours.

        Transient failures are retried: a second asset costs nothing. Cancelling the call stops it.

        Args:
            image: A path; the bytes of the image; a binary file, which is read from its current position and not
                closed; a data URI; the image in Base64, if no file has that name; or the URL of an asset of the
                service (``ReferenceAsset.url``). The type is determined from the bytes.

        Raises:
            InvalidRequestError: The image is missing, empty or not an image, or the URL is of another origin. Nothing
                was sent.
        """
        body = self._asset_body(image) if isinstance(image, str) else None
        if isinstance(image, bytearray | memoryview):
            image = bytes(image)  # a copy, because the caller may change it meanwhile
        if body is None:
            with self._hold():
                body = await asyncio.to_thread(_image_body, image)
        request = self._endpoints.create_file(body)
        return await self._reads.retry(request, partial(read_asset, absolute=self._endpoints.absolute))

    def _asset_body(self, text: str) -> Body | None:
        """Return the body for an asset of the service; None if ``text`` is not a URL."""
        url = self._endpoints.absolute(text.strip()) if text.startswith(_ASSETS_PATH) else text.strip()
        if not _WEB.match(url):
            return None
        if not self._is_own(url):
            raise _make_error(
                f"{excerpt(url)!r} is not an asset of this service ({self._endpoints.origin}): uploads never fetch "
                "other URLs; pass it in image_urls of a create"
            )
        return BytesBody(json.dumps({"image_url": url}).encode())

    def _is_own(self, text: str) -> bool:
        try:
            return self._endpoints.is_own(URL(text, encoded=True))
        except ValueError:
            return False


@frozen
class _ImageBody:
    """``{"image_b64": "data:…"}`` in chunks of at most 64 KiB, which can be sent any number of times."""

    chunks: tuple[bytes, ...] = field(repr=False)
    length: int
    content_type: str = "application/json"

    async def open(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
            # On a fast network no chunk has to wait, so other tasks would not run.
            await asyncio.sleep(0)


# -- in a thread -----------------------------------------------------------------------------------------------------


def _image_body(image: Any) -> Body:
    """Return the request body for an image.

    Raises:
        InvalidRequestError: It is not an image, or cannot be read.
    """
    if isinstance(image, str) and image.lstrip()[:5].lower() == "data:":
        return _data_uri_body(image.strip())
    if isinstance(image, str | os.PathLike):
        file = _read_path(image)
        if not isinstance(file, InvalidRequestError):
            return _encode_image(*file)
        body = _base64_body(image)
        if body is None:
            raise file
        return body
    if isinstance(image, bytes):
        return _encode_image(image, "the image")
    if hasattr(image, "read"):
        return _encode_image(*_read_file(image))
    message = f"an image is a path, bytes, a binary file, a data URI or an asset's URL, not {type(image).__name__}"
    raise TypeError(message)


def _read_path(path: str | os.PathLike[str]) -> tuple[bytes, str] | InvalidRequestError:
    """Return the bytes of the file and how messages name it; or the error if there is no such file.

    The errors have no cause, because those of the system quote the whole path.
    """
    text = os.fsdecode(path)
    name = f"the file {excerpt(text)!r}"
    if _LIKE_DATA.fullmatch(text):
        name = f"the file whose name has {len(text)} characters"
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise _make_error(f"{name} is a directory, not an image")
        if not stat.S_ISREG(mode):
            raise _make_error(f"{name} is not a regular file")
        with Path(path).open("rb") as file:
            head = file.read(SIGNATURE_SIZE)
            _check_type(head, name)  # before reading the rest, which may be large
            return head + file.read(), name
    except InvalidRequestError:
        raise
    except FileNotFoundError:
        return _make_error(f"{name} does not exist")
    except (OSError, ValueError) as error:
        return _make_error(f"{name} cannot be read: {_reason(error)}")


def _base64_body(image: str | os.PathLike[str]) -> Body | None:
    """Return the body for an image in Base64; None if the text does not begin like one."""
    if not isinstance(image, str):
        return None
    data = "".join(image.split())
    head = _decode_base64(data[:_BASE64_SIGNATURE_LENGTH]) if len(data) >= _MIN_BASE64_LENGTH else None
    mime = image_type(head or b"")
    return None if mime is None else _encoded_body(f"data:{mime};base64,", data, "the Base64 text")


def _read_file(file: Any) -> tuple[bytes, str]:
    given = getattr(file, "name", None)
    name = f"the file {excerpt(given)!r}" if isinstance(given, str) else "the file"
    try:
        data = file.read()
    except (OSError, ValueError) as error:
        raise _make_error(f"{name} cannot be read: {_reason(error)}") from error
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), name
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
        raise _make_error(
            f"{name} is not an image (PNG, JPEG, GIF, WebP, BMP, TIFF, HEIC, AVIF): it is {describe_type(head)}"
        )
    return mime


def _encode_image(data: bytes, name: str) -> Body:
    mime = _check_type(data[:SIGNATURE_SIZE], name)
    chunks = [f'{{"image_b64":"data:{mime};base64,'.encode()]
    view = memoryview(data)
    # In chunks, because a single call would hold the interpreter lock and block the event loop.
    chunks += [
        base64.b64encode(view[start : start + _RAW_CHUNK_SIZE]) for start in range(0, len(view), _RAW_CHUNK_SIZE)
    ]
    return _body([*chunks, b'"}'])


def _data_uri_body(uri: str) -> Body:
    """Return the body for a data URI, which is sent unchanged if it contains an image."""
    start = _DATA_URI.match(uri)
    if start is None:
        raise _make_error("the data URI is not Base64: it must begin like data:image/png;base64,")
    return _encoded_body(start[0], uri[start.end() :], "the data URI")


def _encoded_body(start: str, data: str, name: str) -> Body:
    head = b""
    chunks = [b'{"image_b64":"', start.encode()]
    for at in range(0, len(data), CHUNK):
        chunk = data[at : at + CHUNK]
        decoded = _decode_base64(chunk)
        if decoded is None:
            raise _make_error(f"{name} is not Base64 after character {at} of its data")
        if chunk.endswith("=") and at + CHUNK < len(data):
            raise _make_error(f"{name} continues after its padding, at character {at + CHUNK} of its data")
        head = head or decoded[:SIGNATURE_SIZE]
        chunks.append(chunk.encode())
    _check_type(head, name)
    return _body([*chunks, b'"}'])


def _decode_base64(text: str) -> bytes | None:
    """Decode Base64; None if it is invalid."""
    try:
        return base64.b64decode(text, validate=True) if text.isascii() else None
    except ValueError:
        return None


def _body(chunks: list[bytes]) -> Body:
    return _ImageBody(tuple(chunks), sum(map(len, chunks)))


def _reason(error: Exception) -> str:
    return excerpt(str(getattr(error, "strerror", None) or error))


def _make_error(problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, problems=[problem])
