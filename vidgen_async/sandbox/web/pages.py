"""The sandbox's own pages: they need no key, are not logged as requests, and have no faults. Among them are the web
console at ``/``, plain HTML, CSS and JavaScript that use the control paths only, and the OpenAPI document.

They are protected from web pages of other sites (CSRF, DNS rebinding). A browser sends requests to the sandbox for any
page. Origin names the page, and Host the name under which the browser found the sandbox. The owner of another name can
point it to this machine; that is not possible for an IP address.
"""

import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from inspect import isawaitable
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from vidgen_async.sandbox.http import Answer, Call, Refusal, media_type_of
from vidgen_async.sandbox.links import name_in
from vidgen_async.sandbox.state import SandboxState

#: A page that returns fields is answered with 200 and these as JSON.
Page = Callable[[Call], Answer | dict[str, Any] | Awaitable[Answer]]
#: The pages by path (``{name}`` is one segment) and method.
Pages = Mapping[str, Mapping[str, Page]]

READS = ("GET", "HEAD", "OPTIONS")
#: Headers of every page: its content is not cached, and not readable by other sites.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
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
    if isinstance(answer, dict):
        return Answer.json(200, answer)
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


def console_pages(sandbox: SandboxState) -> Pages:
    def show_file(call: Call) -> Answer:
        name = call.names.get("file", PAGE)
        if name not in _files():
            raise Refusal(404, "NOT_FOUND", f"the console has no file {name!r}")
        headers = {
            "Content-Type": _TYPES[PurePath(name).suffix],
            "Content-Security-Policy": _policy(sandbox.addresses_for(call.host).links),
            "Referrer-Policy": "no-referrer",
        }
        return Answer(200, _files()[name], headers)

    async def save_video(call: Call) -> Answer:
        """Browsers save files of the page's own origin only, and signed links have another."""
        task = sandbox.tasks.get(call.names["task"])
        if task is None or task.status_at(sandbox.clock.now()) != "completed":
            raise Refusal(404, "NOT_FOUND", "there is no completed task with this id")
        name = {"Content-Disposition": f'attachment; filename="{task.id}.mp4"'}
        return Answer(200, await sandbox.video(task.id), {"Content-Type": "video/mp4", **name})

    return {
        "/": {"GET": show_file},
        "/sandbox/console/{file}": {"GET": show_file},
        "/sandbox/console/videos/{task}": {"GET": save_video},
        "/openapi.json": {"GET": lambda call: openapi_document(sandbox.addresses_for(call.host).base_url)},
    }


def openapi_document(base_url: str) -> dict[str, Any]:
    """Return a new copy of the document for a service at ``base_url``, which ends in ``/openapi/v1``."""
    document: dict[str, Any] = json.loads(files("vidgen_async.sandbox.web").joinpath("openapi.json").read_bytes())
    return document | {"servers": [{"url": base_url}]}


@cache
def _files() -> dict[str, bytes]:
    directory = files("vidgen_async.sandbox.web").joinpath("static").iterdir()
    return {file.name: file.read_bytes() for file in directory if PurePath(file.name).suffix in _TYPES}


def _policy(links_url: str) -> str:
    """Allow the sandbox itself and videos from its second origin only: markup in a prompt has no effect."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        f"media-src {links_url}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    )
