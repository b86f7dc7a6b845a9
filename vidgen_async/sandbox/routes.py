"""The operations by method and path (section 4)."""

from urllib.parse import unquote

from attrs import frozen

from vidgen_async.sandbox.request_log import OriginName

PREFIX = "/openapi/v1/"
ASSETS = "/api/reference-assets/"
LINKS = "/v/"

#: The operations by method for each path below the prefix; ``{id}`` is one segment.
PATHS: dict[tuple[str, ...], dict[str, str]] = {
    ("models",): {"GET": "models.list"},
    ("account",): {"GET": "account.get"},
    ("files",): {"POST": "files.create"},
    ("videos",): {"POST": "videos.create"},
    ("videos", "{id}"): {"GET": "videos.get"},
    ("videos", "{id}", "content"): {"GET": "videos.content"},
}
READS = ("GET", "HEAD")


@frozen
class Route:
    """An operation and the id in its path. ``allowed`` are the path's methods if it does not have the requested one."""

    op: str
    id: str = ""
    allowed: tuple[str, ...] = ()


UNKNOWN = Route("unknown")


def find_route(origin: OriginName, method: str, path: str) -> Route:
    """Return the route of a path as received, without its query."""
    if origin == "links":
        return _file("link", method) if path.startswith(LINKS) else UNKNOWN
    if path.startswith(ASSETS):
        return _file("asset", method)
    if not path.startswith(PREFIX):
        return UNKNOWN
    segments = path.removeprefix(PREFIX).split("/")
    shape = tuple("{id}" if at == 1 else name for at, name in enumerate(segments))
    methods = PATHS.get(shape)
    if methods is None or "" in segments:
        return UNKNOWN
    if method not in methods:
        return Route("unknown", allowed=tuple(methods))
    return Route(methods[method], unquote(segments[1]) if len(segments) > 1 else "")


def _file(op: str, method: str) -> Route:
    return Route(op) if method in READS else Route("unknown", allowed=READS)
