"""The paths of the service by method, with their operations (section 4), and the requests for them."""

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeVar
from urllib.parse import unquote

from attrs import field, frozen

from vidgen_async.sandbox.request_log import OriginName

T = TypeVar("T")

PREFIX = "/openapi/v1/"
ASSET_PATH = "/api/reference-assets/{asset}/content/{name}"
LINK_PATH = "/v/{link}"
#: The operations by method of each path at the two origins; ``{id}`` is one segment.
PATHS: dict[OriginName, dict[str, dict[str, str]]] = {
    "service": {
        f"{PREFIX}models": {"GET": "models.list"},
        f"{PREFIX}account": {"GET": "account.get"},
        f"{PREFIX}files": {"POST": "files.create"},
        f"{PREFIX}videos": {"POST": "videos.create"},
        f"{PREFIX}videos/{{id}}": {"GET": "videos.get"},
        f"{PREFIX}videos/{{id}}/content": {"GET": "videos.content"},
        ASSET_PATH: {"GET": "asset", "HEAD": "asset"},
    },
    "links": {LINK_PATH: {"GET": "link", "HEAD": "link"}},
}


@frozen
class Route:
    """An operation with the names in its path, or the methods that are ``allowed`` instead of the requested one."""

    op: str
    names: Mapping[str, str]
    allowed: tuple[str, ...] = ()


@frozen
class Call:
    """A request that was read completely. ``path`` and ``query`` are as received."""

    names: Mapping[str, str]
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def host(self) -> str | None:
        return self.headers.get("Host")


def find(table: Mapping[str, T], path: str) -> tuple[T, dict[str, str]] | None:
    """Return what a table has for a path as received, with the decoded variable parts of the path."""
    for shape, value in table.items():
        if found := pattern(shape).fullmatch(path):
            return value, {name: unquote(text) for name, text in found.groupdict().items()}
    return None


@cache
def pattern(shape: str) -> re.Pattern[str]:
    """Return the expression of a path with parts like ``{id}``, none of which is empty or has a slash."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(shape)))


def find_route(origin: OriginName, method: str, path: str) -> Route:
    methods, names = find(PATHS[origin], path) or ({}, {})
    return Route(methods[method], names) if method in methods else Route("unknown", {}, tuple(methods))
