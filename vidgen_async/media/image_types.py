"""The media type of an image, determined from its bytes: file names and declared types can be wrong."""

import re

#: Number of bytes that are examined.
SIGNATURE_SIZE = 512

_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    # Texts may begin with "BM" too, so the reserved bytes after the size must be zero.
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), "image/bmp"),
    (re.compile(rb"II\*\0|MM\0\*"), "image/tiff"),
)
_HEIF_BRANDS = (
    (frozenset({b"avif", b"avis"}), "image/avif"),
    (frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"}), "image/heic"),
    (frozenset({b"mif1", b"msf1"}), "image/heif"),
)
_OTHER_TYPES = (
    (re.compile(rb"\s*(<!doctype html|<html|<head|<body)", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"\s*(<\?xml.{0,400})?<svg", re.IGNORECASE | re.DOTALL), "an SVG drawing"),
    (re.compile(rb"\s*<"), "XML or HTML"),
    (re.compile(rb"\s*(\{\s*[\"}]|\[\s*[\"{\[\]])"), "JSON"),
    (re.compile(rb"\xff\x0a|\0\0\0\x0cJXL "), "a JPEG XL image"),
    (re.compile(rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  "), "a JPEG 2000 image"),
    (re.compile(rb"II\x2b\0\x08\0|MM\0\x2b\0\x08"), "a BigTIFF image"),
    (re.compile(rb"\0\0\x01\0[^\0]\0"), "an ICO image"),
    (re.compile(rb"P[1-7]\s+[#\d]"), "a PPM image"),
    (re.compile(rb"8BPS"), "a Photoshop image"),
    (re.compile(rb"%PDF-"), "a PDF document"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"....ftyp", re.DOTALL), "a video or audio file"),
    (re.compile(rb"[\x09\x0a\x0d\x20-\x7e]+\Z"), "text"),
)


def image_type(head: bytes) -> str | None:
    for pattern, mime in _SIGNATURES:
        if pattern.match(head):
            return mime
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), len(head))
        brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
        return next((mime for names, mime in _HEIF_BRANDS if names & brands), None)
    return None


def describe_type(head: bytes) -> str:
    plain = head.removeprefix(b"\xef\xbb\xbf")
    return next((name for pattern, name in _OTHER_TYPES if pattern.match(plain)), "of an unknown kind")
