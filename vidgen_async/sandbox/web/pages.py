"""The sandbox's own pages, beside the paths of the service: they need no key, and are neither recorded nor faulted."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from urllib.parse import unquote

from attrs import field, frozen

from vidgen_async.sandbox.input_rules import InvalidInputError
from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.web import access_control


@frozen
class PageCall:
    """A request for a page, read whole. ``names`` are the variable segments of its path."""

    method: str
    query: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    names: Mapping[str, str] = field(factory=dict)


Page = Callable[[PageCall], Answer | Awaitable[Answer]]
#: The pages of one path by method, and the variable segments of the path that was asked for.
FoundPage = tuple[Mapping[str, Page], Mapping[str, str]]


@frozen
class Pages:
    """The pages by path, with ``{name}`` for one variable segment, and method. ``host`` is the sandbox's own."""

    pages: Mapping[str, Mapping[str, Page]]
    host: str

    def find(self, path: str) -> FoundPage | None:
        """The pages of a path by method, and its variable segments; None for a path of the service."""
        given = path.split("/")
        for shape, methods in self.pages.items():
            names = _match(shape.split("/"), given)
            if names is not None:
                return methods, names
        return ({}, {}) if given[:2] == ["", "sandbox"] else None

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise the Refusal if a request may come from another site; for the head, before anything else is read."""
        access_control.check(method, headers, self.host)

    async def answer(self, found: FoundPage, call: PageCall) -> Answer:
        """The page that was found; a Refusal says why there is none."""
        methods, names = found
        if not methods:
            paths = [f"{', '.join(methods)} {path}" for path, methods in self.pages.items()]
            raise Refusal(404, "NOT_FOUND", f"there is no such path; there are: {'; '.join(paths)}")
        page = methods.get("GET" if call.method == "HEAD" else call.method)
        if page is None:
            refused = Answer.error(405, "METHOD_NOT_ALLOWED", f"here are: {', '.join(methods)}")
            return refused.with_headers({"Allow": ", ".join(methods)})
        try:
            answer = page(PageCall(call.method, call.query, call.headers, call.body, names))
        except InvalidInputError as error:
            return Answer.error(400, "INVALID_PARAMETER", str(error))
        return await answer if isawaitable(answer) else answer


def _match(shape: Sequence[str], given: Sequence[str]) -> dict[str, str] | None:
    """The variable segments, if the path has this shape."""
    if len(shape) != len(given):
        return None
    names = {}
    for wanted, segment in zip(shape, given, strict=True):
        if wanted.startswith("{") and segment:
            names[wanted[1:-1]] = unquote(segment)
        elif wanted != segment:
            return None
    return names
