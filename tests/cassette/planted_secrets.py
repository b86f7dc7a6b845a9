"""Secrets, their encodings, the places where they occur, and the search for them in what was written.

The search knows nothing of how the package hides: it reads every file that is there in many ways, and looks for every
spelling of the secret.
"""

import base64
import gzip
import html
import json
import logging
import re
import struct
import traceback
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from attrs import field, frozen
from hypothesis import strategies as st
from yarl import URL

from vidgen_async.cassette import Cassette
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import BodyError, TransportError, VidgenError
from vidgen_async.transports import BufferedResponse, FakeTransport, RecordingTransport
from vidgen_async.types.http import BytesBody, Delivery, Phase, Request, make_headers

BASE = "https://api.example.test/openapi/v1"
ELSEWHERE = "https://cdn.other.test"
KEY = "Zq7-the-key-of-the-recording+/=22"

Spell = Callable[[str], str]

# -- spellings -------------------------------------------------------------------------------------------------------


def in_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def percent_every(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in in_utf8(text))


def unicode_every(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")))


def in_base64(text: str, before: bytes = b"", after: bytes = b"") -> str:
    return base64.b64encode(before + in_utf8(text) + after).decode()


def url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


SPELLINGS: dict[str, Spell] = {
    "raw": str,
    "capitals": lambda text: text.upper() if text.isascii() else text,
    "percent": lambda text: quote(text, safe=""),
    "percent in small letters": lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
    "percent for every byte": percent_every,
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent for every byte, twice": lambda text: quote(percent_every(text), safe=""),
    "a form's": quote_plus,
    "Base64": in_base64,
    "Base64 without padding": lambda text: in_base64(text).rstrip("="),
    "Base64, one byte on": lambda text: in_base64(text, b"u", b": and more"),
    "Base64, two bytes on": lambda text: in_base64(text, b"us", b"!"),
    "Base64 of user and password": lambda text: in_base64(text, b"user:"),
    "Base64 for URLs": lambda text: url_safe(in_base64(text)),
    "Base64 for URLs, two bytes on": lambda text: url_safe(in_base64(text, b"us", b"!")),
    "Base64 in percent": lambda text: quote(in_base64(text), safe=""),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON with escaped slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON for every character": unicode_every,
    "JSON for every character, capitals": lambda text: unicode_every(text).upper().replace("\\U", "\\u"),
    "JSON twice": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "JSON for every character, twice": lambda text: unicode_every(text).replace("\\", "\\\\"),
    "HTML": html.escape,
    "HTML for every character": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "HTML in hexadecimal": lambda text: "".join(f"&#x{ord(char):X};" for char in text),
    "hexadecimal": lambda text: in_utf8(text).hex(),
    "hexadecimal in capitals": lambda text: in_utf8(text).hex().upper(),
}

# -- secrets ---------------------------------------------------------------------------------------------------------

#: How each begins: it comes up nowhere by chance.
MARK = "Zq7"
_PLAIN = "abcdefgXYZ0123456789-_"
_ODD = _PLAIN + "+/=.~%&;:,!?#<>(){}[]' \"\\äüßéЖ船😀"


def _marked(alphabet: str, *, longest: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=3, max_size=longest).map(lambda text: f"{MARK}{text.rstrip()}k9")


PLAIN_SECRETS = _marked(_PLAIN, longest=40)
SECRETS = st.one_of(PLAIN_SECRETS, _marked(_ODD, longest=30), st.just(f"{MARK}{'long-secret_' * 160}k9"))

# -- places ----------------------------------------------------------------------------------------------------------


@frozen
class Exchange:
    """A request and the outcome of the service."""

    request: Request
    outcome: BufferedResponse | Exception


def asked(
    path: str = "/models",
    *,
    url: str | None = None,
    method: str = "GET",
    key: str | None = KEY,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | str | None = None,
) -> Request:
    every = [*headers] if key is None else [("Authorization", f"Bearer {key}"), *headers]
    data = None if body is None else BytesBody(body if isinstance(body, bytes) else in_utf8(body))
    address = URL(f"{BASE}{path}" if url is None else url, encoded=True)
    return Request(op="models.list", method=method, url=address, headers=make_headers(every), body=data)


def answered(
    body: bytes | str | AsyncIterator[bytes] = b"{}",
    *,
    status: int = 200,
    kind: str = "application/json",
    headers: Iterable[tuple[str, str]] = (),
) -> BufferedResponse:
    data = in_utf8(body) if isinstance(body, str) else body
    return BufferedResponse(status, data, headers=make_headers([("Content-Type", kind), *headers]))


def said(value: Any, **facts: Any) -> Exchange:
    """The service answers with this JSON."""
    return Exchange(asked(), answered(json.dumps(value), **facts))


def sent(value: Any) -> Exchange:
    """The client sends this JSON."""
    return Exchange(asked("/videos", method="POST", body=json.dumps(value)), answered())


async def in_chunks(*pieces: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if error is not None:
        raise error


def picture(text: str) -> bytes:
    """A PNG with a text chunk."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    texts = chunk(b"tEXt", b"Comment\0" + in_utf8(text))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0" * 13) + texts + chunk(b"IDAT", b"\0\1\2\xff" * 700)


def _in_url(text: str) -> str:
    """Percent-encode what is invalid in a URL."""
    return quote(text, safe="%&+=/-_.~;:!'(),?")


def _segment(text: str) -> str:
    return quote(text, safe="%")


def _broken(text: str) -> Exchange:
    error = BodyError(f"the body broke off after {text}", received=3)
    return Exchange(asked(), answered(in_chunks(b'{"a": "' + in_utf8(text), error=error)))


def _failing(message: str, cause: str = "") -> Exchange:
    error = TransportError(message, delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT)
    error.__cause__ = OSError(cause) if cause else None
    return Exchange(asked(), error)


def _split(text: str) -> tuple[bytes, bytes]:
    data = in_utf8(text)
    return data[: len(data) // 2], data[len(data) // 2 :]


def _split_text(text: str) -> Exchange:
    first, second = _split(text)
    return Exchange(asked(), answered(in_chunks(b"bad key " + first, second + b" there"), kind="text/plain"))


def _split_binary(text: str) -> Exchange:
    first, second = _split(text)
    return Exchange(asked(), answered(in_chunks(b"\0\xff" * 2000 + first, second + b"\xff" * 99), kind="video/mp4"))


PLACES: dict[str, Callable[[str], Exchange]] = {
    "a query value": lambda text: Exchange(asked(f"/models?x={_segment(text)}"), answered()),
    "a query value as it is": lambda text: Exchange(asked(f"/models?x={_in_url(text)}"), answered()),
    "a query name": lambda text: Exchange(asked(f"/models?{_segment(text)}=1"), answered()),
    "a bare query": lambda text: Exchange(asked(f"/models?{_segment(text)}"), answered()),
    "a path": lambda text: Exchange(asked(f"/videos/{_segment(text)}/content"), answered()),
    "a fragment": lambda text: Exchange(asked(f"/videos/1#{_segment(text)}"), answered()),
    "a path elsewhere": lambda text: Exchange(asked(url=f"{ELSEWHERE}/a/{_segment(text)}/b", key=None), answered()),
    "a kept header of a request": lambda text: Exchange(asked(headers=[("If-Range", f'"{text}"')]), answered()),
    "a dropped header of a request": lambda text: Exchange(asked(headers=[("X-Trace", text)]), answered()),
    "the User-Agent": lambda text: Exchange(asked(headers=[("User-Agent", f"me/1 {text}")]), answered()),
    "JSON that is sent": lambda text: sent({"a": [{"b": text}]}),
    "a name in JSON that is sent": lambda text: sent({"a": {text: 1}}),
    "a list that is sent": lambda text: sent([["x", text]]),
    "a prompt": lambda text: sent({"prompt": f"say {text} now"}),
    "a text that is sent": lambda text: Exchange(asked(method="POST", body=f"say {text} now"), answered()),
    "bytes that are sent": lambda text: Exchange(asked(method="POST", body=b"\0\xff" + in_utf8(text)), answered()),
    "a data URI that is sent": lambda text: sent({"image_b64": f"data:image/png,{text}"}),
    "the ETag": lambda text: Exchange(asked(), answered(headers=[("ETag", f'"{text}"')])),
    "the content type": lambda text: Exchange(asked(), answered(kind=f"application/json; x={text}")),
    "the request id": lambda text: Exchange(asked(), answered(headers=[("X-Request-Id", text)])),
    "a rate limit": lambda text: Exchange(asked(), answered(headers=[("X-RateLimit-Scope", text)])),
    "a dropped header of an answer": lambda text: Exchange(asked(), answered(headers=[("X-Debug", text)])),
    "a Location elsewhere": lambda text: Exchange(
        asked(), answered(status=307, headers=[("Location", f"{ELSEWHERE}/{_segment(text)}")])
    ),
    "a relative Location": lambda text: Exchange(asked(), answered(status=307, headers=[("Location", f"/x/{text}")])),
    "JSON": lambda text: said({"a": [{"b": text}]}),
    "JSON as it is": lambda text: Exchange(asked(), answered('{"a": "' + text.replace('"', '\\"') + '"}')),
    "a message": lambda text: said({"error": {"message": f"bad key {text}, go away"}}, status=401),
    "the middle of a word": lambda text: said({"message": f"abc{text}xyz"}),
    "a name in JSON": lambda text: said({"a": {text: [1]}}),
    "JSON in JSON in JSON": lambda text: said({"a": json.dumps({"b": json.dumps({"c": text})})}),
    "a JSON string alone": said,
    "lines of JSON": lambda text: Exchange(asked(), answered(f'{{"a": 1}}\n{json.dumps({"b": text})}')),
    "an error page": lambda text: Exchange(asked(), answered(f"<p>bad {text}</p>", status=502, kind="text/html")),
    "a gzip body": lambda text: Exchange(
        asked(), answered(gzip.compress(json.dumps({"a": text}).encode()), headers=[("Content-Encoding", "gzip")])
    ),
    "a gzip file": lambda text: Exchange(asked(), answered(gzip.compress(in_utf8(text)), kind="application/gzip")),
    "the second part of a gzip file": lambda text: Exchange(
        asked(), answered(gzip.compress(b"\0") + gzip.compress(in_utf8(text)), kind="application/gzip")
    ),
    "a picture": lambda text: Exchange(asked(), answered(picture(text), kind="image/png")),
    "a few bytes": lambda text: Exchange(asked(), answered(b"\0\1" + in_utf8(text) + b"\0", kind="video/mp4")),
    "a page in another encoding": lambda text: Exchange(
        asked(), answered(b"b\xf6se: " + in_utf8(text), kind="text/html; charset=latin-1")
    ),
    "two pieces of a text": _split_text,
    "two pieces of a video": _split_binary,
    "a body that breaks off": _broken,
    "an error's message": lambda text: _failing(f"cannot do {text}"),
    "an error's cause": lambda text: _failing("cannot do it", f"because of {text}"),
    "a data URI": lambda text: said({"image": f"data:text/plain,{text}"}),
    "a data URI in Base64": lambda text: said({"image": f"data:text/plain;base64,{in_base64(f'hello {text}!')}"}),
}

# -- recording -------------------------------------------------------------------------------------------------------


@frozen
class RecordingOutput:
    """The output of a recording: unexpected errors, and where everything was written."""

    directory: Path
    errors: list[Exception] = field(factory=list)
    #: The files as they were before publishing.
    before: dict[str, bytes] = field(factory=dict)
    logs: list[str] = field(factory=list)

    @property
    def path(self) -> Path:
        return self.directory / "a.cassette.json"

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    def everything(self) -> dict[str, bytes]:
        """All files and logs of the recording, now and before it was published."""
        told = {"errors": in_utf8("\n".join(map(text_of_error, self.errors))), "logs": in_utf8("\n".join(self.logs))}
        before = {f"{name} (before publishing)": data for name, data in self.before.items()}
        return files_in(self.directory) | before | told


def text_of_error(error: BaseException) -> str:
    return f"{error!r} {vars(error)!r}\n{''.join(traceback.format_exception(error))}"


@contextmanager
def all_logs() -> Iterator[list[str]]:
    """Everything that is logged, with all fields of the records."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.getMessage()} {vars(record)!r}")

    logger, keeper = logging.getLogger("vidgen_async"), Keeper(logging.DEBUG)
    level = logger.level
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(keeper)
        logger.setLevel(level)


async def record(exchanges: Sequence[Exchange], directory: Path, **settings: Any) -> RecordingOutput:
    """Record the exchanges one after the other, and publish."""
    outcomes = iter([exchange.outcome for exchange in exchanges])

    async def service(_: Request) -> BufferedResponse:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    left = RecordingOutput(directory)
    inner = FakeTransport(service)
    inner.clock = VirtualClock()
    with all_logs() as lines:
        transport = RecordingTransport(inner, Cassette(left.path, **settings))
        for exchange in exchanges:
            try:
                async with await transport.send(exchange.request) as response:
                    await response.read()
            except TransportError:
                pass
            except VidgenError as error:
                left.errors.append(error)
        left.before.update(files_in(directory))
        try:
            await transport.aclose()
        except VidgenError as error:
            left.errors.append(error)
    left.logs.extend(lines)
    return left


def files_in(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# -- searching -------------------------------------------------------------------------------------------------------

_BASE64_FIELD = re.compile(rb'"b64": ?"([^"]*)"')
_GZIP = b"\x1f\x8b\x08"


def leaks(texts: dict[str, bytes] | dict[str, str], secret: str) -> list[str]:
    """Where the secret was found, and in which encoding."""
    wanted = spellings_of(secret)
    found = []
    for name, text in texts.items():
        readings = _readings(text if isinstance(text, bytes) else in_utf8(text))
        found += [f"{name}: {how}" for how, spelt in wanted.items() if any(spelt in reading for reading in readings)]
    return found


def spellings_of(secret: str) -> dict[str, str]:
    """In lower case; of Base64 only the characters that depend on nothing but the secret."""
    spelt = {how: spell(secret) for how, spell in SPELLINGS.items() if "Base64" not in how}
    data = in_utf8(secret)
    for shift, first in enumerate((0, 2, 3)):
        inner = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")[first:]
        inner = inner[:-1] if (shift + len(data)) % 3 else inner
        spelt[f"Base64, {shift} bytes on"] = inner
        spelt[f"Base64 for URLs, {shift} bytes on"] = url_safe(inner)
    return {how: text.lower() for how, text in spelt.items()}


def _readings(data: bytes) -> list[str]:
    """The data as texts in lower case, with and without escapes."""
    pieces = [data, *(base64.b64decode(match) for match in _BASE64_FIELD.findall(data))]
    pieces += [inner for piece in pieces if _GZIP in piece for inner in _unzipped(piece)]
    texts = {piece.decode(codec, "replace") for piece in pieces for codec in ("utf-8", "latin-1")}
    for text in list(texts):
        texts.update(_resolve_mode(text))
    return [text.lower() for text in texts]


def _resolve_mode(text: str) -> Iterable[str]:
    for _ in range(6):
        read = html.unescape(unquote(text))
        read = re.sub(r"(?:\\+u[0-9a-fA-F]{4})+", _units, read)
        yield read
        yield read.replace("\\", "")
        if read == text:
            return
        text = read


def _units(match: re.Match[str]) -> str:
    units = bytes.fromhex("".join(re.findall("u(....)", match[0])))
    return units.decode("utf-16-be", "surrogatepass" if len(units) % 2 == 0 else "replace")


def _unzipped(data: bytes) -> Iterable[bytes]:
    for match in re.finditer(re.escape(_GZIP), data):
        try:
            yield zlib.decompressobj(31).decompress(data[match.start() :])
        except zlib.error:
            continue
