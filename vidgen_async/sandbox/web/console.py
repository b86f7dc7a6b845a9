"""The web console at ``/``, which shows what the sandbox holds and changes it.

The page uses ``/sandbox/state`` and the control paths only. It is plain HTML, CSS and JavaScript modules, and loads
nothing from other hosts.
"""

from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import PurePath

from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.web.pages import Page, PageCall

PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def console_pages(sandbox: SandboxState) -> Mapping[str, Mapping[str, Page]]:
    return {
        "/": {"GET": _page},
        "/sandbox/console/{file}": {"GET": _file},
        "/sandbox/console/videos/{task}": {"GET": partial(_video, sandbox)},
    }


def _page(call: PageCall) -> Answer:
    return _answer(PAGE, call)


def _file(call: PageCall) -> Answer:
    return _answer(call.names["file"], call)


async def _video(sandbox: SandboxState, call: PageCall) -> Answer:
    """For downloads: browsers save files of the page's own origin only, and signed links have another."""
    task = sandbox.tasks.get(call.names["task"])
    if task is None or task.status_at(sandbox.clock.now()) != "completed":
        raise Refusal(404, "NOT_FOUND", "there is no completed task with this id")
    content = await sandbox.video(task.id)
    name = {"Content-Disposition": f'attachment; filename="{task.id}.mp4"'}
    return Answer(200, content, {"Content-Type": "video/mp4", **name})


def _answer(name: str, call: PageCall) -> Answer:
    if name not in _files():
        raise Refusal(404, "NOT_FOUND", f"the console has no file {name!r}")
    headers = {
        "Content-Type": _TYPES[PurePath(name).suffix],
        "Content-Security-Policy": _policy(call.addresses.links),
        "Referrer-Policy": "no-referrer",
    }
    return Answer(200, _files()[name], headers)


@cache
def _files() -> Mapping[str, bytes]:
    """Return the contents of the console's files, which are read on the first request."""
    directory = files("vidgen_async.sandbox.web").joinpath("static").iterdir()
    return {file.name: file.read_bytes() for file in directory if PurePath(file.name).suffix in _TYPES}


def _policy(links_url: str) -> str:
    """Allow the sandbox itself and videos from its second origin only: markup in a prompt has no effect."""
    allowed = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self'",
        "media-src": links_url,
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return "; ".join(f"{directive} {source}" for directive, source in allowed.items())
