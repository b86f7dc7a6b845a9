"""The sandbox's own pages: they need no key, are not logged as requests, and have no faults."""

import re
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from urllib.parse import unquote

from attrs import field, frozen

from vidgen_async.sandbox.input_rules import InvalidInputError
from vidgen_async.sandbox.responses import Answer, Refusal
from vidgen_async.sandbox.web import access_control


@frozen
class PageCall:
    """A request for a page that was read completely. ``names`` are the variable segments of its path."""

    method: str
    query: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    names: Mapping[str, str] = field(factory=dict)


Page = Callable[[PageCall], Answer | Awaitable[Answer]]
#: The pages of one path by method, and the variable segments of the requested path.
FoundPage = tuple[Mapping[str, Page], Mapping[str, str]]


@frozen
class Pages:
    """The pages by path (``{name}`` is a variable segment) and method. ``host`` is the sandbox's own."""

    pages: Mapping[str, Mapping[str, Page]]
    host: str

    def find(self, path: str) -> FoundPage | None:
        """Return the pages of a path by method, and its variable segments; None for a path of the service."""
        for shape, methods in self.pages.items():
            pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", shape)
            if match := re.fullmatch(pattern, path):
                return methods, {name: unquote(segment) for name, segment in match.groupdict().items()}
        return ({}, {}) if path.startswith("/sandbox/") or path == "/sandbox" else None

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise a Refusal if a request may come from another site. It needs the head only."""
        access_control.check(method, headers, self.host)

    async def answer(self, found: FoundPage, call: PageCall) -> Answer:
        """Return the answer of a page; raise a Refusal if there is none."""
        methods, names = found
        if not methods:
            paths = [f"{', '.join(methods)} {path}" for path, methods in self.pages.items()]
            raise Refusal(404, "NOT_FOUND", f"there is no such path; the paths are: {'; '.join(paths)}")
        page = methods.get("GET" if call.method == "HEAD" else call.method)
        if page is None:
            refused = Answer.error(405, "METHOD_NOT_ALLOWED", f"this path supports {', '.join(methods)}")
            return refused.with_headers({"Allow": ", ".join(methods)})
        try:
            answer = page(PageCall(call.method, call.query, call.headers, call.body, names))
        except InvalidInputError as error:
            return Answer.error(400, "INVALID_PARAMETER", str(error))
        return await answer if isawaitable(answer) else answer
