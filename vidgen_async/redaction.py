"""What may be shown: everything that prints a URL, a body or a message of the service asks here first.

Two kinds of secrets: *known values* (the API key, a prompt, an Idempotency-Key), which are hidden wherever they
appear and however they are written, and *places* (``sig``, ``exp``, ``token`` … in a query, ``Bearer …``, inline
image data), which are hidden whatever they hold.
"""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "…"

_TELLING = r"[\w.-]*(?:token|secret|password|signature|credential|api[_-]?key|authorization|cookie|session)[\w.-]*"
# In a query also names that would mean something harmless elsewhere.
_TELLING_IN_QUERY = rf"(?:{_TELLING}|x-amz-[\w-]+|x-goog-[\w-]+|sig|exp|expires|key|auth|code|policy)"
_QUERY_SECRET = re.compile(rf"([?&;](?:amp;)?{_TELLING_IN_QUERY}=)[^&;#\s\"'<>\\]*", re.IGNORECASE)
_JSON_SECRET = re.compile(rf"(\"(?:{_TELLING}|sig|exp)\"\s*:\s*\")(?:[^\"\\]|\\.)*", re.IGNORECASE)
_USERINFO = re.compile(r"(\w://)[^/@\s\"']+@")
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"']{0,80},[\w+/=%-]*", re.IGNORECASE)
_LONG_BASE64 = re.compile(r"[A-Za-z0-9+/]{200,}={0,2}")

#: Shorter known values are common words; hiding them would garble every message.
_SHORTEST_KNOWN = 6


def hide_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with every secret place and every one of the ``known`` values replaced by an ellipsis.

    Known values are found raw, percent-encoded, JSON-escaped and in Base64 (standard and URL-safe).
    """
    for value in known:
        if len(value) >= _SHORTEST_KNOWN:
            for form in _forms(value):
                text = text.replace(form, HIDDEN)
    text = _DATA_URI.sub(lambda match: f"data:{match[1] or ''},{HIDDEN}", text)
    text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY_SECRET.sub(rf"\1{HIDDEN}", text)
    text = _JSON_SECRET.sub(rf"\1{HIDDEN}", text)
    text = _AUTHORIZATION.sub(rf"\1 {HIDDEN}", text)
    return _LONG_BASE64.sub(HIDDEN, text)


def excerpt(text: str | bytes, known: Iterable[str] = (), *, limit: int = 200) -> str:
    """One printable line of at most ``limit`` characters of an answer, without secrets."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    # Hidden before it is cut: half a secret at the edge would no longer be recognised.
    line = " ".join(hide_secrets(text, known).split())
    line = "".join(char if char.isprintable() else "�" for char in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _forms(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    return {
        value,
        quote(value, safe="", errors="surrogatepass"),
        quote_plus(value, errors="surrogatepass"),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }
