"""The sandbox's own pages: they need no key, are not logged as requests, and have no faults.

They are protected from web pages of other sites (CSRF, DNS rebinding). A browser sends requests to the sandbox for any
page. Origin names the page, and Host the name under which the browser found the sandbox. The owner of another name can
point it to this machine; that is not possible for an IP address.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from urllib.parse import urlsplit

from vidgen_async.sandbox.links import name_in
from vidgen_async.sandbox.responses import Answer, Refusal, media_type_of
from vidgen_async.sandbox.routes import Call

Page = Callable[[Call], Answer | Awaitable[Answer]]
#: The pages by path (``{name}`` is one segment) and method.
Pages = Mapping[str, Mapping[str, Page]]

READS = ("GET", "HEAD", "OPTIONS")
#: Headers of every page: its content is not cached, and not readable by other sites.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


async def answer_page(pages: Pages, methods: Mapping[str, Page], method: str, call: Call) -> Answer:
    if not methods:
        paths = [f"{', '.join(methods)} {path}" for path, methods in pages.items()]
        raise Refusal(404, "NOT_FOUND", f"there is no such path; the paths are: {'; '.join(paths)}")
    page = methods.get("GET" if method == "HEAD" else method)
    if page is None:
        allowed = ", ".join(methods)
        raise Refusal(405, "METHOD_NOT_ALLOWED", f"this path supports {allowed}", {"Allow": allowed})
    answer = page(call)
    return await answer if isawaitable(answer) else answer


def check_access(method: str, headers: Mapping[str, str], host: str, public_url: str | None) -> None:
    """Raise a Refusal if a request for a page may come from another site. ``host`` is the sandbox's own."""
    name = headers.get("Host", "")
    names = (host.lower(), urlsplit(public_url or "").hostname or "")
    if not _is_ours(name_in(name) or "", names):
        ours = " or ".join(filter(None, names))
        raise Refusal(403, "FOREIGN_HOST", f"Host: must be an IP address, localhost or {ours}, not {name[:200]!r}")
    if method in READS:
        return
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in (f"http://{name.lower()}", public_url):
        raise Refusal(403, "FOREIGN_ORIGIN", f"Origin: must be http://{name}, or absent, not {origin[:200]!r}")
    media_type = media_type_of(headers)
    has_body = "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"
    if media_type != "application/json" and (method != "DELETE" or has_body):
        allowed = "application/json" if method != "DELETE" else "application/json where there is a body"
        raise Refusal(415, "UNSUPPORTED_MEDIA_TYPE", f"Content-Type: must be {allowed}, not {media_type[:200]!r}")


def _is_ours(name: str, names: tuple[str, ...]) -> bool:
    try:
        return bool(name) and (name in ("localhost", *names) or bool(ipaddress.ip_address(name)))
    except ValueError:
        return False
