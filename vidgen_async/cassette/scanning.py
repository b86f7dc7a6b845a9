"""A last look for secrets, at a whole cassette: what the redactor would still change should not be there."""

from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve, frozen
from yarl import URL

from vidgen_async.cassette.document import Document, Failure, Interaction
from vidgen_async.cassette.redactor import Redactor, detect
from vidgen_async.cassette.secrets import Secrets, loosened
from vidgen_async.errors import CassetteSecretError


@frozen
class Finding:
    """A place (a JSON pointer) and what kind of secret seems to be there. The value is never told."""

    where: str
    kind: str


def scan(document: Document, secrets: Secrets | None = None) -> list[Finding]:
    """Everything in the cassette that looks like a secret, or is one of ``secrets``."""
    base = document.meta.base_url
    redactor = Redactor(is_numbered=False, origin=None if base is None else str(URL(base).origin()))
    has_known = secrets is not None and is_any_in(document, secrets)
    found = []
    for at, interaction in enumerate(document.interactions):
        for where, text, redact in _texts(interaction, redactor):
            if secrets is not None and has_known and secrets.is_in(text, thoroughly=True):
                found.append(Finding(f"/interactions/{at}{where}", "known value"))
            elif loosened(redact(text)) != loosened(text):
                found.append(Finding(f"/interactions/{at}{where}", detect(text) or "value under a telling name"))
    return found


def is_any_in(document: Document, secrets: Secrets) -> bool:
    """Whether a known value is anywhere in the cassette. Texts that come again are looked at once."""
    texts: dict[str, None] = {}

    def collect(text: str) -> str:
        texts[text] = None
        return text

    map_texts(document, collect)
    return secrets.is_in("\n".join(texts), thoroughly=True)


def refuse_secrets(document: Document, secrets: Secrets | None = None) -> None:
    """CassetteSecretError for the first finding."""
    for finding in scan(document, secrets):
        message = f"{finding.where} holds what looks like a secret ({finding.kind}); nothing was published."
        advice = "Name it in Cassette(secrets=…) and record again."
        raise CassetteSecretError(message, where=finding.where, kind=finding.kind, advice=advice)


def map_texts(document: Document, change: Callable[[str], str]) -> Document:
    """The document with every text changed that came from outside."""
    return evolve(document, interactions=tuple(_mapped(interaction, change) for interaction in document.interactions))


def _mapped(interaction: Interaction, change: Callable[[str], str]) -> Interaction:
    def pairs(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, change(value)) for name, value in headers)

    def failure(kept: Failure | None) -> Failure | None:
        return None if kept is None else evolve(kept, message=change(kept.message))

    request = interaction.request
    return evolve(
        interaction,
        request=evolve(
            request, url=change(request.url), headers=pairs(request.headers), body=_json_mapped(request.body, change)
        ),
        headers=pairs(interaction.headers),
        body=_json_mapped(interaction.body, change),
        failure=failure(interaction.failure),
    )


def _json_mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _json_mapped(item, change) for key, item in value.items()}
    return [_json_mapped(item, change) for item in value] if isinstance(value, list) else value


def _texts(interaction: Interaction, redactor: Redactor) -> Iterator[tuple[str, str, Callable[[str], str]]]:
    """Each text, where it is, and how it would be redacted."""
    yield "/request/url", interaction.request.url, redactor.url
    for part, headers in (("request", interaction.request.headers), ("response", interaction.headers)):
        for at, (name, value) in enumerate(headers):
            yield f"/{part}/headers/{at}", value, redactor.url if name == "location" else redactor.text
    for part, body in (("request", interaction.request.body), ("response", interaction.body)):
        if body is not None and "json" in body:
            yield from _leaves(body["json"], f"/{part}/body/json", "", redactor)
        elif body is not None and "text" in body:
            yield f"/{part}/body/text", str(body["text"]), redactor.text
    if interaction.failure is not None:
        yield "/error/message", interaction.failure.message, redactor.text


def _leaves(value: Any, pointer: str, name: str, redactor: Redactor) -> Iterator[tuple[str, str, Callable[[str], str]]]:
    if isinstance(value, str):
        yield pointer, value, lambda text: str(redactor.json(text, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield place, key, redactor.text
            yield from _leaves(item, place, redactor.name_below(name, key), redactor)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{pointer}/{at}", name, redactor)
