"""What kind of image some bytes are, told from the bytes alone: names and announcements lie."""

import re

#: So many bytes are looked at.
HEAD = 512

_MAGIC = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    # "BM" alone begins many a text; the reserved bytes after the size are zero.
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), "image/bmp"),
    (re.compile(rb"II\*\0|MM\0\*"), "image/tiff"),
)
_HEIF_BRANDS = (
    (frozenset({b"avif", b"avis"}), "image/avif"),
    (frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"}), "image/heic"),
    (frozenset({b"mif1", b"msf1"}), "image/heif"),
)
_OTHERS = (
    (re.compile(rb"\s*(<!doctype html|<html|<head|<body)", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"\s*(<\?xml.{0,400})?<svg", re.IGNORECASE | re.DOTALL), "an SVG drawing"),
    (re.compile(rb"\s*<"), "XML or HTML"),
    (re.compile(rb"\s*[{\[]"), "JSON"),
    (re.compile(rb"%PDF-"), "a PDF document"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"....ftyp", re.DOTALL), "a video or audio file"),
    (re.compile(rb"[\x09\x0a\x0d\x20-\x7e]+\Z"), "text"),
)


def image_type(head: bytes) -> str | None:
    """The media type of the image that begins with ``head`` (PNG, JPEG, GIF, WebP, BMP, TIFF, HEIC, HEIF, AVIF)."""
    for magic, mime in _MAGIC:
        if magic.match(head):
            return mime
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), len(head))
        brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
        return next((mime for names, mime in _HEIF_BRANDS if names & brands), None)
    return None


def what_else(head: bytes) -> str:
    """What bytes that are no image seem to be."""
    plain = head.removeprefix(b"\xef\xbb\xbf")
    return next((name for magic, name in _OTHERS if magic.match(plain)), "of an unknown kind")
