"""Reference images to the service (4.3): looked at, and made Base64 in a thread, before anything is sent."""

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
from vidgen_async.media.image_types import HEAD, image_type, what_else
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.codec import read_asset
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.types.http import CHUNK, Body, BytesBody
from vidgen_async.types.resources import ReferenceAsset

#: 2.3: where the service's own assets are.
ASSETS = "/api/reference-assets/"

#: As many bytes as make one piece of a body in Base64. Small enough that nobody waits for the interpreter meanwhile.
_SLICE = CHUNK // 4 * 3

#: The Base64 of an image is at least so long: a shorter text is a path, whatever it decodes to.
_SHORTEST = 32
#: So much of it tells what kind of image it is.
_TELLING = 64

#: No file has such a name: it is more likely to be data, and is not shown.
_LIKE_DATA = re.compile(r"[\w+/=~\s-]{64,}", re.ASCII)
_DATA_URI = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]+)*;base64,", re.IGNORECASE)
_WEB = re.compile(r"\s*https?:", re.IGNORECASE)


class Uploads:
    """POST /files."""

    def __init__(self, reads: Reads, endpoints: Endpoints, clock: Clock) -> None:
        self._reads = reads
        self._endpoints = endpoints
        self._hold = hold_of(clock)

    async def upload(self, image: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> ReferenceAsset:
        """Upload an image, or reuse one that the service has; the service keeps it for 72 hours.

        ``image`` is a path; the image's bytes; a binary file, read from where it stands and left open; a data URI, or
        the Base64 of an image (where no file has that name); or the URL of an asset of the service, from
        ``ReferenceAsset.url``. Its type is told from its bytes.

        InvalidRequestError, before anything is sent, for what is missing, empty or no image, and for other URLs. What
        fails for a moment goes again: a second asset costs nothing. Cancelling stops it.
        """
        body = self._asset_body(image) if isinstance(image, str) else None
        if isinstance(image, bytearray | memoryview):
            image = bytes(image)  # as it is now: the caller may go on writing into it
        if body is None:
            with self._hold():
                body = await asyncio.to_thread(_image_body, image)
        request = self._endpoints.create_file(body)
        return await self._reads.retry(request, partial(read_asset, absolute=self._endpoints.absolute))

    def _asset_body(self, text: str) -> Body | None:
        """The body for an asset of the service's own; None when ``text`` is no URL."""
        url = self._endpoints.absolute(text.strip()) if text.startswith(ASSETS) else text.strip()
        if not _WEB.match(url):
            return None
        if not self._is_own(url):
            raise _refusal(
                f"{excerpt(url)!r} is not an asset of this service ({self._endpoints.origin}): uploads never fetch "
                "other URLs; give it as one of the image_urls of a create"
            )
        return BytesBody(json.dumps({"image_url": url}).encode())

    def _is_own(self, text: str) -> bool:
        own = self._endpoints.base_url
        try:
            url = URL(text, encoded=True)
            return (url.scheme, (url.host or "").lower(), url.port) == (own.scheme, (own.host or "").lower(), own.port)
        except ValueError:
            return False


@frozen
class _ImageBody:
    """``{"image_b64": "data:…"}`` in pieces of at most 64 KiB, which can be sent again and again."""

    pieces: tuple[bytes, ...] = field(repr=False)
    length: int
    content_type: str = "application/json"

    async def open(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
            # A fast network takes one piece after another without ever waiting; others want their turn.
            await asyncio.sleep(0)


# -- in a thread -----------------------------------------------------------------------------------------------------


def _image_body(image: Any) -> Body:
    """The request body for an image; InvalidRequestError says what is wrong with it."""
    if isinstance(image, str) and image.lstrip()[:5].lower() == "data:":
        return _data_uri(image.strip())
    if isinstance(image, str | os.PathLike):
        found = _read_path(image)
        if not isinstance(found, InvalidRequestError):
            return _encoded(*found)
        plain = _plain_base64(image)
        if plain is None:
            raise found
        return plain
    if isinstance(image, bytes):
        return _encoded(image, "the image")
    if hasattr(image, "read"):
        return _encoded(*_read_file(image))
    message = f"an image is a path, bytes, a binary file, a data URI or an asset's URL, not {type(image).__name__}"
    raise TypeError(message)


def _read_path(path: str | os.PathLike[str]) -> tuple[bytes, str] | InvalidRequestError:
    """The file's bytes, and what it is called; or, if there is none, why. The system's errors quote the whole path:
    what is raised for them has no cause."""
    text = os.fsdecode(path)
    name = f"the file named by {len(text)} characters" if _LIKE_DATA.fullmatch(text) else f"the file {excerpt(text)!r}"
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise _refusal(f"{name} is a directory, not an image")
        if not stat.S_ISREG(mode):
            raise _refusal(f"{name} is not a regular file")
        with Path(path).open("rb") as file:
            head = file.read(HEAD)
            _type_of(head, name)  # before all of it is read: it might be anything
            return head + file.read(), name
    except InvalidRequestError:
        raise
    except FileNotFoundError:
        return _refusal(f"{name} does not exist")
    except (OSError, ValueError) as error:
        return _refusal(f"{name} cannot be read: {_reason(error)}")


def _plain_base64(image: str | os.PathLike[str]) -> Body | None:
    """The body for the Base64 of an image; None for what does not begin like one."""
    if not isinstance(image, str):
        return None
    data = "".join(image.split())
    head = _decoded(data[:_TELLING]) if len(data) >= _SHORTEST else None
    mime = image_type(head or b"")
    return None if mime is None else _as_it_is(f"data:{mime};base64,", data, "the Base64 text")


def _read_file(file: Any) -> tuple[bytes, str]:
    given = getattr(file, "name", None)
    name = f"the file {excerpt(given)!r}" if isinstance(given, str) else "the file"
    try:
        data = file.read()
    except (OSError, ValueError) as error:
        raise _refusal(f"{name} cannot be read: {_reason(error)}") from error
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), name
    close = getattr(data, "close", None)
    if close is not None:
        close()  # a coroutine that nobody will await
    raise _refusal(
        f"reading {name} gives {type(data).__name__}, not bytes: open it in binary mode (and not asynchronously)"
    )


def _type_of(head: bytes, name: str) -> str:
    if not head:
        raise _refusal(f"{name} is empty")
    mime = image_type(head)
    if mime is None:
        raise _refusal(f"{name} is not an image (PNG, JPEG, GIF, WebP, BMP, TIFF, HEIC, AVIF): it is {what_else(head)}")
    return mime


def _encoded(data: bytes, name: str) -> Body:
    mime = _type_of(data[:HEAD], name)
    pieces = [f'{{"image_b64":"data:{mime};base64,'.encode()]
    view = memoryview(data)
    # Slice by slice: one call for all of it would not let the event loop's thread run.
    pieces += [base64.b64encode(view[start : start + _SLICE]) for start in range(0, len(view), _SLICE)]
    return _body([*pieces, b'"}'])


def _data_uri(uri: str) -> Body:
    """A data URI goes out as it came, if it holds an image."""
    start = _DATA_URI.match(uri)
    if start is None:
        raise _refusal("the data URI is not Base64: it must begin like data:image/png;base64,")
    return _as_it_is(start[0], uri[start.end() :], "the data URI")


def _as_it_is(start: str, data: str, name: str) -> Body:
    head = b""
    pieces = [b'{"image_b64":"', start.encode()]
    for at in range(0, len(data), CHUNK):
        piece = data[at : at + CHUNK]
        decoded = _decoded(piece)
        if decoded is None:
            raise _refusal(f"{name} is not Base64 after character {at} of its data")
        if piece.endswith("=") and at + CHUNK < len(data):
            raise _refusal(f"{name} goes on after its end, at character {at + CHUNK} of its data")
        head = head or decoded[:HEAD]
        pieces.append(piece.encode())
    _type_of(head, name)
    return _body([*pieces, b'"}'])


def _decoded(text: str) -> bytes | None:
    """The bytes that Base64 stands for; None for what is none."""
    try:
        return base64.b64decode(text, validate=True) if text.isascii() else None
    except ValueError:
        return None


def _body(pieces: list[bytes]) -> Body:
    return _ImageBody(tuple(pieces), sum(map(len, pieces)))


def _reason(error: Exception) -> str:
    return excerpt(str(getattr(error, "strerror", None) or error))


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, problems=[problem])
