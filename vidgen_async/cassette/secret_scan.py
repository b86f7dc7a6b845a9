"""Scans a whole cassette for secrets: whatever the redactor would still change."""

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from attrs import evolve, frozen

from vidgen_async.cassette.body_encoding import hides_a_secret
from vidgen_async.cassette.document import Document, Interaction
from vidgen_async.cassette.reader import Reader
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.writer import interaction_form
from vidgen_async.errors import CassetteSecretError
from vidgen_async.redaction.pseudonyms import PSEUDONYM, Secrets, unify_pseudonyms
from vidgen_async.redaction.secret_names import HeaderKind, find_secret_form, kind_of_header

Change: TypeAlias = Callable[[str], str]


@frozen
class Finding:
    """A JSON pointer, and the kind of secret that seems to be there. It never contains the value."""

    where: str
    kind: str


def scan(document: Document, secrets: Secrets | None = None, *, origin: str | None = None) -> list[Finding]:
    """Everything in the cassette that seems to be a secret, or is one of ``secrets``. ``origin`` is the service's,
    where the cassette does not contain it."""
    redactor = Redactor(is_numbered=False, origin=document.meta.origin or origin)
    for interaction in document.interactions:
        redactor.note_ids((interaction.body or {}).get("json"))
    scanning = _Scan(redactor, secrets if secrets is not None and is_any_in(document, secrets) else None)
    meta = {"base_url": document.meta.base_url, **document.meta.extra}
    scanning.leaves({"meta": meta, **document.extra}, "")
    for at, interaction in enumerate(document.interactions):
        scanning.interaction(interaction, f"/interactions/{at}")
    return scanning.found


def refuse_secrets(document: Document, secrets: Secrets | None = None, *, origin: str | None = None) -> None:
    """CassetteSecretError for the first finding."""
    for finding in scan(document, secrets, origin=origin):
        message = f"{finding.where} contains what looks like a secret ({finding.kind}); nothing was published."
        advice = "Name it in Cassette(secrets=…) and record again."
        raise CassetteSecretError(message, where=finding.where, kind=finding.kind, advice=advice)


class _Scan:
    """One scan, and what it has found so far."""

    def __init__(self, redactor: Redactor, known: Secrets | None) -> None:
        self._redactor = redactor
        self._known = known
        self.found: list[Finding] = []

    def interaction(self, interaction: Interaction, pointer: str) -> None:
        self._compare(f"{pointer}/request/url", interaction.request.url, self._redactor.url)
        self._headers(interaction.request.headers, f"{pointer}/request/headers")
        self._headers(interaction.headers, f"{pointer}/response/headers")
        self._body(interaction.request.body, f"{pointer}/request/body")
        self._body(interaction.body, f"{pointer}/response/body")
        if interaction.failure is not None:
            self._compare(f"{pointer}/error/message", interaction.failure.message, self._redactor.text)
        self.leaves({"op": interaction.op, **interaction.extra}, pointer)

    def leaves(self, value: Any, pointer: str, name: str = "") -> None:
        """All texts and numbers in a JSON value."""
        if isinstance(value, dict):
            for key, item in value.items():
                # A name may be a secret itself: then it is not shown either.
                shown = self._redactor.text(key)
                place = f"{pointer}/{shown.replace('~', '~0').replace('/', '~1')}"
                self._compare(place, key, self._redactor.text)
                self.leaves(item, place, self._redactor.name_below(name, key))
        elif isinstance(value, list):
            for at, item in enumerate(value):
                self.leaves(item, f"{pointer}/{at}", name)
        elif value is not None and not isinstance(value, bool):
            self._compare(pointer, str(value), lambda _: str(self._redactor.json(value, name)))

    def _headers(self, headers: tuple[tuple[str, str], ...], pointer: str) -> None:
        for at, (name, value) in enumerate(headers):
            kind = kind_of_header(name)
            if kind in (HeaderKind.SECRET, HeaderKind.DROPPED) and not PSEUDONYM.fullmatch(value):
                self.found.append(Finding(f"{pointer}/{at}", "header that is never recorded"))
            self._compare(
                f"{pointer}/{at}", value, self._redactor.url if kind is HeaderKind.ADDRESS else self._redactor.text
            )

    def _body(self, body: dict[str, Any] | None, pointer: str) -> None:
        if body is not None and "json" in body:
            self.leaves(body["json"], f"{pointer}/json")
        elif body is not None and "text" in body:
            self._compare(f"{pointer}/text", str(body["text"]), self._redactor.text)
        elif body is not None and "b64" in body and hides_a_secret(base64.b64decode(body["b64"]), self._redactor):
            self.found.append(Finding(f"{pointer}/b64", "something in its bytes"))

    def _compare(self, pointer: str, text: str, redact: Change) -> None:
        if self._known is not None and self._known.is_in(text):
            self.found.append(Finding(pointer, "known value"))
        elif unify_pseudonyms(redact(text)) != unify_pseudonyms(text):
            self.found.append(Finding(pointer, find_secret_form(text) or "value of a secret name"))


# -- changing what is written ----------------------------------------------------------------------------------------


def is_any_in(document: Document, secrets: Secrets) -> bool:
    """Whether the cassette contains a known value anywhere. Equal texts are searched once."""
    texts = {document.meta.base_url or "": ""}
    for interaction in document.interactions:
        map_line(interaction_form(interaction), lambda text: texts.setdefault(text, text))
    return secrets.is_in("\n".join(texts))


def without_secrets(document: Document, redactor: Redactor) -> Document:
    """The document without the values that have turned out to be secrets since they were written."""
    reader, base_url, replace = Reader("in memory"), document.meta.base_url, redactor.secrets.replace
    has_known = is_any_in(document, redactor.secrets)
    interactions = []
    for at, interaction in enumerate(document.interactions):
        if has_known or "b64" in (interaction.body or {}):
            line = drop_secret_bytes(map_line(interaction_form(interaction), replace), set(), redactor)
            interaction = reader.interaction(line, f"/interactions/{at}")  # noqa: PLW2901 - without secrets
        interactions.append(interaction)
    meta = evolve(document.meta, base_url=None if base_url is None else replace(base_url))
    return evolve(document, meta=meta, interactions=tuple(interactions))


def redact_again(document: Document, others: Iterable[Interaction]) -> Document:
    """The document without what an earlier release recorded and this one hides; new pseudonyms differ from those of
    ``others``."""
    redactor, reader = Redactor(origin=document.meta.origin), Reader("in memory")
    forms = [interaction_form(interaction) for interaction in document.interactions]
    for form in (*forms, *map(interaction_form, others)):
        redactor.secrets.reserve(str(form))
        redactor.note_ids(form.get("response", {}).get("body", {}).get("json"))
    lines = (map_line(form, redactor.text) for form in forms)
    interactions = tuple(reader.interaction(line, f"/interactions/{at}") for at, line in enumerate(lines))
    return evolve(document, interactions=interactions)


def map_line(line: dict[str, Any], change: Change) -> dict[str, Any]:
    """An interaction as JSON, or a line of a recording in progress, with ``change`` applied to every recorded text.
    Binary bodies are unchanged."""
    mapped = dict(line)
    if line.get("base_url"):
        mapped["base_url"] = change(line["base_url"])
    for part in ("request", "response"):
        if part in line:
            mapped[part] = _map_part(line[part], change)
    if "error" in line:
        mapped["error"] = {**line["error"], "message": change(line["error"]["message"])}
    return mapped


def _map_part(part: dict[str, Any], change: Change) -> dict[str, Any]:
    mapped = dict(part)
    if "url" in part:
        mapped["url"] = change(part["url"])
    if "headers" in part:
        pairs = (header.partition(": ") for header in part["headers"])
        mapped["headers"] = [f"{name}: {change(value)}" for name, _, value in pairs]
    body = part.get("body") or {}
    for kind in body.keys() & {"json", "text"}:
        mapped["body"] = {**body, kind: _map_json(body[kind], change)}
    return mapped


def _map_json(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_json(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_json(item, change) for item in value]
    if value is None or isinstance(value, bool):
        return value
    shown = change(str(value))
    return value if shown == str(value) else shown


def drop_secret_bytes(line: dict[str, Any], bad: set[str], redactor: Redactor) -> dict[str, Any]:
    """The same without binary bodies that contain a secret, and without references to the ``bad`` blobs."""
    body = line.get("response", {}).get("body") or {}
    if body.get("blob") in bad:
        facts = {"bytes": body["bytes"], "sha256": body["sha256"]}
    elif "b64" in body and hides_a_secret(data := base64.b64decode(body["b64"]), redactor):
        facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    else:
        return line
    return {**line, "response": {**line["response"], "body": facts}}
