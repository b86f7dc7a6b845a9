"""The web console at ``/``, which shows what the sandbox holds and changes it, and the OpenAPI document.

The page uses ``/sandbox/state`` and the control paths only. It is plain HTML, CSS and JavaScript modules, and loads
nothing from other hosts. The document describes the six endpoints (section 4) as this sandbox answers them.
"""

import json
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.routes import Call
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.web.pages import Pages

PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


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

    def describe(call: Call) -> Answer:
        return Answer.json(200, openapi_document(sandbox.addresses_for(call.host).base_url))

    return {
        "/": {"GET": show_file},
        "/sandbox/console/{file}": {"GET": show_file},
        "/sandbox/console/videos/{task}": {"GET": save_video},
        "/openapi.json": {"GET": describe},
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
