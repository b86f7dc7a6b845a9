"""Encodes bodies for a cassette: redacted, readable JSON and text; other bodies as bytes, in blobs, or only as a length
and a digest."""

import base64
import hashlib
import json
from typing import Any

from attrs import field, mutable

from vidgen_async.cassette.body_decoding import STYLES, RecordedBody
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.redaction.compression import is_compressed
from vidgen_async.redaction.pseudonyms import printable_text
from vidgen_async.redaction.secret_names import find_secret_form
from vidgen_async.types.http import CHUNK, Body, Headers

#: Of longer request bodies (uploads) only the digest is recorded.
LONGEST_REQUEST = CHUNK
#: Up to this many bytes are recorded in the cassette itself.
LONGEST_INLINE = 2048
#: Bytes that are recorded of each end of a body that is too long.
END = CHUNK

_SUFFIXES = {"video/mp4": ".mp4", "image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}


@mutable
class BodyCapture:
    """A body as it is read: all of it up to ``limit`` bytes, or both its ends, and a digest."""

    limit: int = LONGEST_REQUEST
    length: int = 0
    _digest: Any = field(factory=hashlib.sha256)
    _data: bytearray = field(factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self.length += len(chunk)
        self._data += chunk
        if not self.is_whole and len(self._data) > 6 * END:
            del self._data[END:-END]

    @property
    def is_whole(self) -> bool:
        return self.length <= max(self.limit, 2 * END)

    @property
    def sha256(self) -> str:
        return str(self._digest.hexdigest())

    @property
    def facts(self) -> RecordedBody:
        return {"bytes": self.length, "sha256": self.sha256}

    @property
    def text(self) -> str | None:
        """The body of a request that is recorded and compared as a text; of others, only the digest is."""
        return decode_text(bytes(self._data)) if self.length <= LONGEST_REQUEST else None

    @property
    def parts(self) -> tuple[bytes, ...]:
        """All of it, or its first and its last bytes."""
        data = bytes(self._data)
        return (data,) if self.is_whole else (data[:END], data[-END:])


async def read_through(body: Body) -> BodyCapture:
    """Read the body of a request. What it raises is raised."""
    capture = BodyCapture()
    async for chunk in body.open():
        capture.add(chunk)
    return capture


def request_body(sent: BodyCapture, redactor: Redactor) -> RecordedBody | None:
    """How it is recorded: JSON without image data, or a digest."""
    if sent.length == 0:
        return None
    return sent.facts if (text := sent.text) is None else _text_body(text, redactor, is_request=True)


def answer_body(capture: BodyCapture, headers: Headers, redactor: Redactor) -> tuple[RecordedBody | None, bytes | None]:
    """How the body of a response is recorded, and its blob. Data that cannot be searched for secrets is omitted."""
    if capture.length == 0:
        return None, None
    kind, parts, facts = headers.get("Content-Type", ""), capture.parts, capture.facts
    if capture.is_whole:
        text = decode_text(parts[0])
        if text is not None:
            return _text_body(text, redactor), None
        if is_textual(kind) and b"\0" not in parts[0]:
            return _text(parts[0].decode("latin-1"), redactor, charset="latin-1"), None
        if is_textual(kind) and _hides_in_some_encoding(parts[0], redactor):
            return facts, None
    elif is_textual(kind) or all(_may_be_text(part) for part in parts):
        return facts, None
    is_media = kind.lower().startswith(("video/", "audio/", "image/"))
    is_encoded = headers.get("Content-Encoding", "identity").lower() != "identity"
    if is_encoded or any(hides_a_secret(part, redactor, is_media=is_media) for part in parts):
        return facts, None
    for part in parts:
        # It may turn out to contain a secret later.
        redactor.secrets.note_written(printable_text(part))
    if capture.is_whole and capture.length <= LONGEST_INLINE:
        return {"b64": base64.b64encode(parts[0]).decode()}, None
    data = b"".join(parts)
    suffix = _SUFFIXES.get(kind.partition(";")[0].strip().lower(), ".bin")
    name = f"sha256-{hashlib.sha256(data).hexdigest()}{suffix}"
    stored = {"stored": "all"} if capture.is_whole else {"stored": "ends", "ends": [len(part) for part in parts]}
    return {"blob": name, **facts, **stored}, data


def is_textual(content_type: str) -> bool:
    """Whether the content type is that of a text."""
    kind = content_type.lower()
    return kind.startswith("text/") or any(word in kind for word in ("json", "xml", "html", "urlencoded"))


def read_json(text: str) -> Any:
    """A JSON object, list or string; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list | str) else None


def _text_body(text: str, redactor: Redactor, *, is_request: bool = False) -> RecordedBody:
    value = read_json(text)
    try:
        return _text(text, redactor) if value is None else _json_body(text, value, redactor, is_request=is_request)
    except RecursionError:
        return _text(text, redactor)


def _text(text: str, redactor: Redactor, **charset: str) -> RecordedBody:
    redacted = redactor.text(text)
    return {"text": redacted, **charset} if redacted == text else {"text": redacted, **charset, "redacted": True}


def _json_body(text: str, value: Any, redactor: Redactor, *, is_request: bool) -> RecordedBody:
    shown = redactor.json(value, is_request=is_request)
    style = ("spaced" if '": ' in text else "compact") + ("" if text.isascii() else "-utf8")
    if json.dumps(value, **STYLES[style]) == text:
        return {"json": shown, "style": style} if shown == value else {"json": shown, "style": style, "redacted": True}
    # The bytes cannot be reproduced from the value: they are recorded unchanged, unless something in them is hidden. An
    # object may have a name twice: a dict would lose the first value.
    pairs = json.loads(text, object_pairs_hook=lambda pairs: [{name: value} for name, value in pairs])
    if shown != value or redactor.json(pairs, is_request=is_request) != pairs or redactor.text(text) != text:
        return {"json": shown, "style": "compact", "redacted": True}
    return {"text": text}


def decode_text(data: bytes) -> str | None:
    """The bytes as a text; None where they are not UTF-8 text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _hides_in_some_encoding(data: bytes, redactor: Redactor) -> bool:
    texts = (data.decode(encoding, "ignore") for encoding in ("latin-1", "utf-16-le", "utf-16-be"))
    return any(redactor.text(text) != text for text in texts)


def _may_be_text(part: bytes) -> bool:
    """Whether it is a part of a UTF-8 text, cut at any byte."""
    return b"\0" not in part and len(part) - len(part.decode("utf-8", "ignore").encode()) < 8


def hides_a_secret(data: bytes, redactor: Redactor, *, is_media: bool = False) -> bool:
    """Whether binary data contains a secret, or cannot be searched for one."""
    if redactor.secrets.is_in_bytes(data) or find_secret_form(printable_text(data), is_binary=True) is not None:
        return True
    if is_compressed(data, is_media=is_media):
        return True
    return not is_media and redactor.text(text := printable_text(data)) != text
