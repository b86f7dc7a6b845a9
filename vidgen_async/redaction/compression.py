"""Detects compressed data: what is in it cannot be searched for secrets, so a cassette does not contain it."""

import base64
import codecs
import re
import zlib

#: How gzip, bzip2, xz, Zstandard, LZ4 and ZIP data begins.
_BEGINNINGS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04")
_GZIP = b"\x1f\x8b\x08"
#: Raw deflate data has no beginning of its own: it counts as compressed if a text with so many different characters is
#: in it. Other data may seem to be a few characters many times.
_FEWEST = 12
#: In bytes: what zlib data contains at least.
_SHORTEST = 6
_LONGEST_READ = 4096

_Decoder = codecs.getincrementaldecoder("utf-8")

#: Base64 or hexadecimal, also in lines.
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}(?:\s+[A-Za-z0-9+/_-]{16,}={0,2})*")
#: The same beginnings and those of zlib in Base64, where other text precedes them.
_ENCODED_BEGINNING = re.compile(r"1[Ff]8[Bb]08|H4sI|Qlpo|/Td6|KLUv|BCJN|UEsD|eA[E-H]|eF[4-7]|eJ[w-z]|eN[o-r]")
_LONGEST_BEGINNING = 512
_HEX_GZIP = _GZIP.hex()
_HEX = re.compile(r"(?:[0-9a-f]{2})+|(?:[0-9A-F]{2})+")


def is_compressed(data: bytes, *, is_media: bool = False) -> bool:
    """Whether it is compressed data. ``is_media``: a video, image or sound, whose bytes may look like some."""
    if data.startswith(_BEGINNINGS) or (not is_media and _GZIP in data):
        return True
    return _decompresses(data, zlib.MAX_WBITS) or (not is_media and _decompresses(data, -zlib.MAX_WBITS))


def _decompresses(data: bytes, window: int) -> bool:
    decompressor = zlib.decompressobj(window)
    try:
        text = decompressor.decompress(data, _LONGEST_READ)
    except zlib.error:
        return False
    if window > 0:
        return len(text) >= _SHORTEST
    return not decompressor.unused_data and len(set(text)) >= _FEWEST and _is_text(text)


def _is_text(data: bytes) -> bool:
    """Whether it is UTF-8 text, cut at any byte."""
    try:
        return "".join(_Decoder().decode(data).split()).isprintable()
    except UnicodeDecodeError:
        return False


def find_compressed(text: str) -> list[tuple[int, int]]:
    """Where compressed data in Base64 or hexadecimal begins and ends in a text."""
    found = []
    for match in _ENCODED.finditer(text):
        for at in (0, *(beginning.start() for beginning in _ENCODED_BEGINNING.finditer(match[0]))):
            if _begins_compressed(match[0][at : at + _LONGEST_BEGINNING if at else None]):
                found.append((match.start() + at, match.end()))
                break
    return found


def _begins_compressed(encoded: str) -> bool:
    if encoded[:6].lower() == _HEX_GZIP:
        return True
    text = "".join(encoded.split()).rstrip("=").replace("-", "+").replace("_", "/")
    decoded = [base64.b64decode(text[: len(text) - (len(text) % 4 == 1)] + "==")]
    decoded += [bytes.fromhex(encoded)] if _HEX.fullmatch(encoded) else []
    return any(is_compressed(data) or (data.isascii() and find_compressed(data.decode())) for data in decoded)
