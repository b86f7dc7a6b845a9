"""Bodies as a cassette holds them: JSON and text redacted and readable, everything else as bytes, in blobs, or only as
a length and a digest.

A body is one of ``{"json"}``, ``{"text"}``, ``{"b64"}``, ``{"blob"}``, or nothing but ``{"bytes", "sha256"}``; an empty
one is None.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from attrs import field, frozen, mutable

from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.telling import look_of
from vidgen_async.messages import CHUNK, LONGEST_ANSWER, Body, Headers

RecordedBody: TypeAlias = dict[str, Any]

#: Texts are kept up to this many bytes; the SDK reads no longer answer.
LONGEST_TEXT = LONGEST_ANSWER
#: A request's longer bodies (uploads) are only digests.
LONGEST_REQUEST = CHUNK
#: Bytes up to this many stand in the cassette itself.
LONGEST_INLINE = 2048
#: Of a body that is too long to be kept, so much of each end.
END = CHUNK

#: How JSON is usually written. What was written in one of these ways is written the same way again.
_STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "compact-utf8": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {},
    "spaced-utf8": {"ensure_ascii": False},
}

_PRINTABLE = re.compile(rb"[\x20-\x7e]{6,}")
#: The second byte of zlib data.
_ZLIB_LEVELS = frozenset({b"\x01", b"\x5e", b"\x9c", b"\xda"})

_SUFFIXES = {"video/mp4": ".mp4", "image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}


@frozen
class Blob:
    """A file beside the cassette, named by its content."""

    name: str
    data: bytes = field(repr=False)


def limit_for(content_type: str, largest_blob: int) -> int:
    """How many bytes of an answer are held until it is known what becomes of them."""
    return LONGEST_TEXT if is_textual(content_type) else largest_blob


@mutable
class Tee:
    """What passes by of a body: all of it up to ``limit`` bytes, or both its ends and a digest."""

    limit: int
    length: int = 0
    _digest: Any = field(factory=hashlib.sha256)
    _head: bytearray = field(factory=bytearray)
    _tail: bytearray = field(factory=bytearray)

    def take(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.length += len(piece)
        if self.is_whole:
            self._head += piece
            return
        if len(self._head) > END:
            self._tail = self._head[END:]
            del self._head[END:]
        self._tail += piece
        if len(self._tail) > 4 * END:
            del self._tail[:-END]

    @property
    def is_whole(self) -> bool:
        return self.length <= max(self.limit, 2 * END)

    @property
    def sha256(self) -> str:
        return str(self._digest.hexdigest())

    @property
    def kept(self) -> tuple[bytes, ...]:
        """All of it, or its first and its last bytes."""
        return (bytes(self._head),) if self.is_whole else (bytes(self._head), bytes(self._tail[-END:]))


# -- recording -------------------------------------------------------------------------------------------------------


async def request_body(body: Body, redactor: Redactor) -> RecordedBody | None:
    """A request's body: JSON without image data, or a digest."""
    data, digest, length = bytearray(), hashlib.sha256(), 0
    async for piece in body.open():
        digest.update(piece)
        length += len(piece)
        if length <= LONGEST_REQUEST:
            data += piece
    if length > LONGEST_REQUEST:
        return {"bytes": length, "sha256": digest.hexdigest()}
    text = as_text(bytes(data))
    if text is None:
        return {"bytes": length, "sha256": digest.hexdigest()}
    return _text_body(text, redactor, is_request=True) if text else None


def answer_body(tee: Tee, headers: Headers, redactor: Redactor) -> tuple[RecordedBody | None, Blob | None]:
    """An answer's body, and the blob that belongs to it. What cannot be looked into is not kept."""
    if tee.length == 0:
        return None, None
    facts: RecordedBody = {"bytes": tee.length, "sha256": tee.sha256}
    kind, kept = headers.get("Content-Type", ""), tee.kept
    if tee.is_whole:
        text = as_text(kept[0])
        if text is not None:
            return _text_body(text, redactor), None
        if is_textual(kind) and b"\0" not in kept[0]:
            return _eight_bit_text(kept[0], redactor), None
        if is_textual(kind) and _hides_in_some_encoding(kept[0], redactor):
            return facts, None
    elif is_textual(kind) or all(_is_text_of_sorts(part) for part in kept):
        return facts, None
    is_encoded = headers.get("Content-Encoding", "identity").lower() != "identity"
    if is_encoded or any(hides_a_secret(part, redactor, is_media=is_media(kind)) for part in kept):
        return facts, None
    for part in kept:
        _note_written(part, redactor)
    if tee.is_whole and tee.length <= LONGEST_INLINE:
        return {"b64": base64.b64encode(kept[0]).decode()}, None
    data = b"".join(kept)
    blob = Blob(f"sha256-{hashlib.sha256(data).hexdigest()}{_suffix(kind)}", data)
    stored = {"stored": "all"} if tee.is_whole else {"stored": "ends", "ends": [len(part) for part in kept]}
    return {"blob": blob.name, **facts, **stored}, blob


def is_textual(content_type: str) -> bool:
    """Whether it says that it is a text."""
    kind = content_type.lower()
    return kind.startswith("text/") or any(word in kind for word in ("json", "xml", "html", "urlencoded"))


def is_media(content_type: str) -> bool:
    return content_type.lower().startswith(("video/", "audio/", "image/"))


def _text_body(text: str, redactor: Redactor, *, is_request: bool = False) -> RecordedBody:
    try:
        value = json.loads(text)
        if isinstance(value, dict | list | str):
            return _json_body(text, value, redactor, is_request=is_request)
    except (ValueError, RecursionError):
        pass
    redacted = redactor.text(text)
    return {"text": text} if redacted == text else {"text": redacted, "redacted": True}


def _json_body(text: str, value: Any, redactor: Redactor, *, is_request: bool) -> RecordedBody:
    shown = redactor.json(value, is_request=is_request)
    style = _style_of(text, value)
    if style is not None:
        return {"json": shown, "style": style} if shown == value else {"json": shown, "style": style, "redacted": True}
    # The bytes cannot be made from the value again: they are kept as they came, if nothing is hidden in them.
    pairs = json.loads(text, object_pairs_hook=_one_by_one)
    if shown != value or redactor.json(pairs, is_request=is_request) != pairs or redactor.text(text) != text:
        return {"json": shown, "style": "compact", "redacted": True}
    return {"text": text}


def _one_by_one(pairs: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """An object that may have a name twice: of a dict, the first value would be lost."""
    return [{name: value} for name, value in pairs]


def _style_of(text: str, value: Any) -> str | None:
    name = ("spaced" if '": ' in text else "compact") + ("" if text.isascii() else "-utf8")
    return name if json.dumps(value, **_STYLES[name]) == text else None


def as_text(data: bytes) -> str | None:
    """The bytes as a text; None for what is none."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _eight_bit_text(data: bytes, redactor: Redactor) -> RecordedBody:
    text = data.decode("latin-1")
    redacted = redactor.text(text)
    body: RecordedBody = {"text": redacted, "charset": "latin-1"}
    return body if redacted == text else {**body, "redacted": True}


def _hides_in_some_encoding(data: bytes, redactor: Redactor) -> bool:
    texts = (data.decode(encoding, "ignore") for encoding in ("latin-1", "utf-16-le", "utf-16-be"))
    return any(redactor.text(text) != text for text in texts)


def _is_text_of_sorts(part: bytes) -> bool:
    """Whether it is a part of a text, cut at any byte."""
    return b"\0" not in part and len(part) - len(part.decode("utf-8", "ignore").encode()) < 8


def hides_a_secret(data: bytes, redactor: Redactor, *, is_media: bool = False) -> bool:
    """Whether a secret is in binary data, or something that cannot be looked into."""
    if redactor.secrets.is_in_bytes(data) or look_of(data.decode("latin-1"), is_binary=True) is not None:
        return True
    if is_media:
        return False
    inner = _decompressed(data)
    if inner is None:
        return True
    runs = "\n".join(run.decode() for run in _PRINTABLE.findall(inner or data))
    return redactor.secrets.is_in_bytes(inner) or redactor.text(runs) != runs


def _note_written(data: bytes, redactor: Redactor) -> None:
    """What can be read of binary data: it may turn out to be a secret later."""
    for readable in (data, _decompressed(data) or b""):
        redactor.secrets.wrote("\n".join(run.decode() for run in _PRINTABLE.findall(readable)))


def _decompressed(data: bytes) -> bytes | None:
    """All members of gzip or zlib data; nothing for other data, None for what cannot be unpacked."""
    if data[:2] != b"\x1f\x8b" and not (data[:1] == b"\x78" and data[1:2] in _ZLIB_LEVELS):
        return b""
    whole, rest = b"", data
    try:
        while rest:
            member = zlib.decompressobj(47)
            whole += member.decompress(rest, LONGEST_TEXT)
            if not member.eof or len(whole) > LONGEST_TEXT:
                return None
            rest = member.unused_data
    except zlib.error:
        return None
    return whole


def _suffix(content_type: str) -> str:
    return _SUFFIXES.get(content_type.partition(";")[0].strip().lower(), ".bin")


# -- reading ---------------------------------------------------------------------------------------------------------

_BLOB_NAME = re.compile(r"sha256-[0-9a-f]{64}\.\w+")


@frozen
class Problem:
    """What is wrong with a recorded body, and where in it."""

    where: str
    what: str


def problem_of(body: RecordedBody) -> Problem | None:
    """What keeps a recorded body from being played, if anything."""
    if "json" in body:
        style = body.get("style", "compact")
        return None if isinstance(style, str) and style in _STYLES else Problem("/style", "is unknown")
    if "text" in body:
        if body.get("charset", "latin-1") != "latin-1":
            return Problem("/charset", "is unknown")
        return None if isinstance(body["text"], str) else Problem("/text", "is no text")
    if "b64" in body:
        return None if _is_base64(body["b64"]) else Problem("/b64", "is no Base64")
    length = body.get("bytes")
    if length is None and "blob" not in body and "end" in body:
        return None
    if type(length) is not int or length < 0:
        return Problem("/bytes", "is no length")
    if "blob" not in body:
        return None
    if not isinstance(body["blob"], str) or not _BLOB_NAME.fullmatch(body["blob"]):
        return Problem("/blob", "is no name of a blob")
    return None if _ends(body) is not None else Problem("/ends", "are not the lengths of two parts of the body")


def _is_base64(text: object) -> bool:
    try:
        return isinstance(text, str) and base64.b64decode(text, validate=True) is not None
    except ValueError:
        return False


def _ends(body: RecordedBody) -> tuple[int, int] | None:
    """How much of each end of the body is in its blob."""
    if body.get("stored") == "all":
        return body["bytes"], 0
    try:
        first, last = body.get("ends", ())
    except (TypeError, ValueError):
        return None
    if type(first) is not int or type(last) is not int or min(first, last) < 0 or first + last > body["bytes"]:
        return None
    return first, last


# -- playing back ----------------------------------------------------------------------------------------------------


def body_bytes(body: RecordedBody | None) -> bytes | None:
    """The bytes of a body that stands in the cassette itself; None for one that must be streamed."""
    if body is None or body.keys() == {"end"}:
        return b""
    if "json" in body:
        return json.dumps(body["json"], **_STYLES[body.get("style", "compact")]).encode("utf-8", "surrogatepass")
    if "text" in body:
        return str(body["text"]).encode(
            body.get("charset", "utf-8"), "surrogatepass" if "charset" not in body else "replace"
        )
    return base64.b64decode(body["b64"]) if "b64" in body else None


def body_length(body: RecordedBody | None) -> int:
    """Its length when it is played back."""
    data = body_bytes(body)
    return int((body or {})["bytes"]) if data is None else len(data)


def streamed(body: RecordedBody, blobs: Path) -> Iterator[bytes]:
    """A long body piece by piece: what is kept from its blob, and zeros for what is not."""
    left = int(body["bytes"])
    ends = _ends(body) if "blob" in body else None
    if ends is None:
        yield from _zeros(left)
        return
    with (blobs / body["blob"]).open("rb") as file:
        yield from _pieces(file.read, ends[0])
        yield from _zeros(left - sum(ends))
        yield from _pieces(file.read, ends[1])


def _pieces(read: Any, left: int) -> Iterator[bytes]:
    while left > 0:
        piece = read(min(CHUNK, left))
        if not piece:
            message = "the blob is shorter than the cassette says"
            raise EOFError(message)
        left -= len(piece)
        yield piece


def _zeros(left: int) -> Iterator[bytes]:
    piece = bytes(min(CHUNK, max(left, 0)))
    while left > 0:
        yield piece[:left]
        left -= len(piece)
