"""Bodies as a cassette holds them: JSON and text redacted and readable, everything else as bytes, in blobs, or only as
a length and a digest.
"""

import base64
import hashlib
import json
import zlib
from typing import Any

from attrs import field, frozen, mutable

from vidgen_async.cassette.body_decoding import STYLES, RecordedBody
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.redaction.pseudonyms import readable
from vidgen_async.redaction.secret_names import look_of
from vidgen_async.types.http import CHUNK, LONGEST_ANSWER, Body, Headers

#: Texts are kept up to this many bytes; the SDK reads no longer answer.
LONGEST_TEXT = LONGEST_ANSWER
#: A request's longer bodies (uploads) are only digests.
LONGEST_REQUEST = CHUNK
#: Bytes up to this many stand in the cassette itself.
LONGEST_INLINE = 2048
#: Of a body that is too long to be kept, so much of each end.
END = CHUNK

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


@frozen
class Sent:
    """A request's body: all of a short one, and the length and digest of each."""

    data: bytes | None = field(repr=False)
    length: int
    sha256: str

    @property
    def facts(self) -> RecordedBody:
        return {"bytes": self.length, "sha256": self.sha256}


async def read_through(body: Body) -> Sent:
    """Read a request's body. What it raises itself comes out."""
    data, digest, length = bytearray(), hashlib.sha256(), 0
    async for piece in body.open():
        digest.update(piece)
        length += len(piece)
        if length <= LONGEST_REQUEST:
            data += piece
    return Sent(bytes(data) if length <= LONGEST_REQUEST else None, length, digest.hexdigest())


def request_body(sent: Sent, redactor: Redactor) -> RecordedBody | None:
    """What is recorded of it: JSON without image data, or a digest."""
    if sent.length == 0:
        return None
    text = None if sent.data is None else as_text(sent.data)
    return sent.facts if text is None else _text_body(text, redactor, is_request=True)


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
    return name if json.dumps(value, **STYLES[name]) == text else None


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
    if redactor.secrets.is_in_bytes(data) or look_of(readable(data), is_binary=True) is not None:
        return True
    if is_media:
        return False
    inner = _decompressed(data)
    if inner is None:
        return True
    text = readable(inner or data)
    return redactor.secrets.is_in_bytes(inner) or redactor.text(text) != text


def _note_written(data: bytes, redactor: Redactor) -> None:
    """What can be read of binary data: it may turn out to be a secret later."""
    for part in (data, _decompressed(data) or b""):
        redactor.secrets.wrote(readable(part))


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
