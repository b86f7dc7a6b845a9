"""Protects the sandbox's own pages from web pages of other sites (CSRF, DNS rebinding).

A browser sends requests to the sandbox for any page. Origin names the page, and Host the name under which the browser
found the sandbox. The owner of another name can point it to this machine; that is not possible for an IP address.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from vidgen_async.sandbox.addresses import name_in
from vidgen_async.sandbox.responses import Answer, Refusal, media_type_of

READS = ("GET", "HEAD", "OPTIONS")

#: Headers of every page: its content is not cached, and not readable by other sites.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def with_page_headers(answer: Answer) -> Answer:
    return answer.with_headers(HEADERS | dict(answer.headers))


def check(method: str, headers: Mapping[str, str], host: str, public_url: str | None) -> None:
    """Raise a Refusal if a request for a page may come from another site. ``host`` is the sandbox's own.

    It needs the head of the request only.
    """
    name = headers.get("Host", "")
    names = (host.lower(), urlsplit(public_url or "").hostname or "")
    if not _is_ours(name, names):
        ours = " or ".join(filter(None, names))
        raise Refusal(403, "FOREIGN_HOST", f"Host: must be an IP address, localhost or {ours}, not {name[:200]!r}")
    if method in READS:
        return
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in (f"http://{name.lower()}", public_url):
        raise Refusal(403, "FOREIGN_ORIGIN", f"Origin: must be http://{name}, or absent, not {origin[:200]!r}")
    media_type = media_type_of(headers)
    if media_type != "application/json" and (method != "DELETE" or _has_body(headers)):
        allowed = "application/json" if method != "DELETE" else "application/json where there is a body"
        raise Refusal(415, "UNSUPPORTED_MEDIA_TYPE", f"Content-Type: must be {allowed}, not {media_type[:200]!r}")


def _has_body(headers: Mapping[str, str]) -> bool:
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_ours(name: str, names: Iterable[str]) -> bool:
    found = name_in(name) or ""
    if found in ("localhost", *names):
        return bool(found)
    try:
        ipaddress.ip_address(found)
    except ValueError:
        return False
    return True
