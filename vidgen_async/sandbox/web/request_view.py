"""The received requests as JSON, filtered and without secrets, for the console and the control paths."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import unquote

from attrs import frozen

from vidgen_async.sandbox.request_log import ReceivedRequest
from vidgen_async.sandbox.routes import find_route
from vidgen_async.sandbox.state import SandboxState

HIDDEN = "…"
#: So many levels of percent-encoding are searched for secrets in a path.
_LEVELS = 5
#: A part of the names of secrets.
_SENSITIVE = (
    r"(?<!idempotency-)key(?![a-z])|token|secret|passw(?:or)?d|authori[sz]ation|authentication|cookie|credential|"
    r"signature|(?<![a-z])sig(?![a-z])"
)
_SECRET_HEADER = re.compile(_SENSITIVE, re.IGNORECASE)
_NAME = rf"[\w.-]{{0,40}}(?:{_SENSITIVE})[\w.-]{{0,40}}"
#: Secrets in a body or path, after a first group, which is shown: in JSON, in a query or form, and by their form.
_SECRETS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf'("{_NAME}"\s*:\s*")(?:[^"\\]|\\.)+',
        rf"((?<![\w.-]){_NAME}=)[^&\s\"'<>\\]+",
        r"(\b(?:Bearer|Basic)\s+)[\w.~+/=-]+",
        r"(://)[^/@\s\"'\\]+(?=@)",
    )
]
#: Where none of these words is, none of the expressions matches: they are slow, and most texts have no secrets.
_WORDS = (
    *("key", "token", "secret", "passw", "authori", "authentic", "cookie", "credential", "sig"),
    *("basic", "bearer", "://"),
)
#: Base64, such as an image, of which only the beginning is shown.
LONGEST_WORD = 440
_LONG_WORD = re.compile(rf"([\w+/=-]{{40}})[\w+/=-]{{{LONGEST_WORD - 40},}}", re.ASCII)


@frozen
class RequestFilter:
    """Which requests are shown. ``search`` is a text in the method, path, answer, ids or body, in any case of letters;
    ``status`` one status, a class of them (``4xx``) or ``none``. Requests without a valid key belong to any account."""

    search: str = ""
    op: str | None = None
    status: str | None = None
    account: str | None = None

    def matches(self, sandbox: SandboxState, request: ReceivedRequest) -> bool:
        return (
            self.op in (None, request.op)
            and (self.status is None or self._matches_status(request.status))
            and (not self.search or self._matches_text(request))
            and (self.account is None or _account(sandbox, request) in (None, self.account))
        )

    def _matches_status(self, status: int | None) -> bool:
        return self.status in ((str(status), f"{status // 100}xx") if status else ("none",))

    def _matches_text(self, request: ReceivedRequest) -> bool:
        text = f"{request.method} {request.path} {request.op} {request.status} {request.request_id} {request.fault}"
        if create := request.create:
            text += f" {create.idempotency_key} {create.task_id}"
        if request.body:
            text += f" {request.body.decode('utf-8', 'replace')}"
        return self.search.lower() in text.lower()


def list_requests(
    sandbox: SandboxState, wanted: RequestFilter, *, before: int | None, limit: int | None
) -> dict[str, Any]:
    """Return the newest ``limit`` requests that match and have a smaller number than ``before``, the newest last, and
    whether there are older ones."""
    found = _newest_first(sandbox, wanted, before)
    newest = list(found if limit is None else islice(found, limit))
    has_older = limit is not None and next(found, None) is not None
    return {"requests": [_view(sandbox, request) for request in reversed(newest)], "has_older": has_older}


def detail_of(sandbox: SandboxState, request: ReceivedRequest) -> dict[str, Any]:
    """Return a request with its body as text, without secrets, and cut off if it is long."""
    create = request.create
    return _view(sandbox, request) | {
        "body": _without_secrets(sandbox, request.body.decode("utf-8", "replace")),
        "size": request.size,
        "is_cut": len(request.body) < request.size,
        "sha256": create.sha256 if create and create.body_arrived else None,
    }


def _newest_first(sandbox: SandboxState, wanted: RequestFilter, before: int | None) -> Iterator[ReceivedRequest]:
    for request in reversed(sandbox.requests):
        if (before is None or request.n < before) and wanted.matches(sandbox, request):
            yield request


def _view(sandbox: SandboxState, request: ReceivedRequest) -> dict[str, Any]:
    names = ("n", "at", "origin", "op", "method", "has_key", "fault", "status", "request_id", "milliseconds", "is_over")
    create = request.create
    return {name: getattr(request, name) for name in names} | {
        "path": _path(sandbox, request.path),
        "account": _account(sandbox, request),
        "task_id": _task_id(sandbox, request),
        "headers": {
            name: _without_secrets(sandbox, text)
            for name, text in request.headers.items()
            if not _is_secret_header(name)
        },
        "idempotency_key": request.headers.get("Idempotency-Key"),
        "create": create.n if create else None,
        "replayed": create is not None and create.replayed,
    }


def _account(sandbox: SandboxState, request: ReceivedRequest) -> str | None:
    account = sandbox.accounts.by_header(request.headers.get("Authorization", ""))
    return account.name if account else None


def _task_id(sandbox: SandboxState, request: ReceivedRequest) -> str | None:
    """Return the id of the task that a create created, or that is in the path of a read, there without secrets."""
    if request.create:
        return request.create.task_id
    path = _without_secrets(sandbox, request.path.partition("?")[0])
    return _path(sandbox, find_route(request.origin, request.method, path).names.get("id", "")) or None


def _path(sandbox: SandboxState, path: str) -> str:
    """The path as received; with a secret that percent-encoding conceals, decoded, and without the secret."""
    shown = decoded = _without_secrets(sandbox, path)
    for _ in range(_LEVELS):
        if "%" not in decoded:
            break
        # On each level: a secret may contain an encoded separator, and end there once it is decoded.
        decoded = unquote(decoded)
        if (hidden := _without_secrets(sandbox, decoded)) != decoded:
            shown = decoded = hidden
    return shown


def _without_secrets(sandbox: SandboxState, text: str) -> str:
    for key in sandbox.accounts:
        text = text.replace(key, HIDDEN)
    return _hide(text)


@lru_cache(1024)  # most requests have the same headers
def _hide(text: str) -> str:
    if _may_have_secrets(text):
        for pattern in _SECRETS:
            text = pattern.sub(rf"\1{HIDDEN}", text)
    return _LONG_WORD.sub(rf"\1{HIDDEN}", text) if len(text) > LONGEST_WORD else text


@lru_cache(1024)
def _is_secret_header(name: str) -> bool:
    return _may_have_secrets(name) and _SECRET_HEADER.search(name) is not None


def _may_have_secrets(text: str) -> bool:
    lower = text.lower()
    return any(word in lower for word in _WORDS)
