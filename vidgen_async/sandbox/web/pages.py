"""The sandbox's own pages: they need no key, are not logged as requests, and have no faults."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from inspect import isawaitable
from urllib.parse import unquote

from attrs import field, frozen

from vidgen_async.sandbox.addresses import Addresses
from vidgen_async.sandbox.input_rules import InvalidInputError
from vidgen_async.sandbox.responses import Answer, Refusal


@frozen
class PageCall:
    """A request for a page that was read completely.

    ``names`` are the variable segments of its path, and ``addresses`` the origins for its client.
    """

    query: str
    body: bytes = field(repr=False)
    names: Mapping[str, str]
    addresses: Addresses


Page = Callable[[PageCall], Answer | Awaitable[Answer]]
#: The pages of one path by method, and the variable segments of the requested path.
FoundPage = tuple[Mapping[str, Page], Mapping[str, str]]


@frozen
class Pages:
    """The pages by path (``{name}`` is a variable segment) and method."""

    pages: Mapping[str, Mapping[str, Page]]

    def find(self, path: str) -> FoundPage | None:
        """Return the pages of a path by method, and its variable segments; None for a path of the service."""
        for shape, methods in self.pages.items():
            if match := _pattern(shape).fullmatch(path):
                return methods, {name: unquote(segment) for name, segment in match.groupdict().items()}
        return ({}, {}) if path.startswith("/sandbox/") or path == "/sandbox" else None

    async def answer(self, methods: Mapping[str, Page], method: str, call: PageCall) -> Answer:
        """Return the answer of one of the pages of a path; raise a Refusal if there is none."""
        if not methods:
            paths = [f"{', '.join(methods)} {path}" for path, methods in self.pages.items()]
            raise Refusal(404, "NOT_FOUND", f"there is no such path; the paths are: {'; '.join(paths)}")
        page = methods.get("GET" if method == "HEAD" else method)
        if page is None:
            refused = Answer.error(405, "METHOD_NOT_ALLOWED", f"this path supports {', '.join(methods)}")
            return refused.with_headers({"Allow": ", ".join(methods)})
        try:
            answer = page(call)
        except InvalidInputError as error:
            return Answer.error(400, "INVALID_PARAMETER", str(error))
        return await answer if isawaitable(answer) else answer


@cache
def _pattern(shape: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", shape))
