"""Scans a whole cassette for secrets (whatever the redactor would still change), and stores one that has none,
atomically or not at all."""

import base64
import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.cassette.body_encoding import hides_a_secret
from vidgen_async.cassette.document import Document, Interaction, interaction_form
from vidgen_async.cassette.reader import Reader
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.errors import CassetteError, CassetteSecretError
from vidgen_async.redaction.pseudonyms import Secrets, unify_pseudonyms
from vidgen_async.redaction.secret_names import HeaderKind, find_secret_form, kind_of_header


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
    meta = {"meta": {"base_url": document.meta.base_url, **document.meta.extra}, **document.extra}
    found = list(_differences(meta, redactor.json(meta), "", secrets))
    for at, interaction in enumerate(document.interactions):
        form, more = interaction_form(evolve(interaction, extra={})), {"op": interaction.op, **interaction.extra}
        redacted = map_line(form, redactor.text, redactor)
        found += _differences(form, drop_secret_bytes(redacted, redactor), f"/interactions/{at}", secrets)
        found += _differences(more, redactor.json(more), f"/interactions/{at}", secrets)
    return found


def refuse_secrets(document: Document, secrets: Secrets | None = None, *, origin: str | None = None) -> None:
    """CassetteSecretError for the first finding."""
    for finding in scan(document, secrets, origin=origin):
        message = f"{finding.where} contains what looks like a secret ({finding.kind}); nothing was published."
        advice = "Name it in Cassette(secrets=…) and record again."
        raise CassetteSecretError(message, where=finding.where, kind=finding.kind, advice=advice)


def _differences(value: Any, redacted: Any, pointer: str, known: Secrets | None) -> Iterator[Finding]:
    """Where a part of a cassette has a known value, or differs from itself without secrets."""
    if isinstance(value, dict) and len(value) == len(redacted):
        for (name, item), (shown, other) in zip(value.items(), redacted.items(), strict=True):
            # A name may be a secret itself: then it is not shown either.
            place = f"{pointer}/{shown.replace('~', '~0').replace('/', '~1')}"
            yield from _differences(name, shown, place, known)
            yield from _differences(item, other, place, known)
    elif isinstance(value, list):
        for at, (item, other) in enumerate(zip(value, redacted, strict=True)):
            yield from _differences(item, other, f"{pointer}/{at}", known)
    elif known is not None and known.is_in(str(value)):
        yield Finding(pointer, "known value")
    elif unify_pseudonyms(str(redacted)) != unify_pseudonyms(str(value)):
        other = "something in its bytes" if isinstance(value, dict) else "value of a secret name"
        yield Finding(pointer, find_secret_form(str(value)) or other)


# -- changing what is written ----------------------------------------------------------------------------------------


def without_secrets(document: Document, redactor: Redactor) -> Document:
    """The document without the values that have turned out to be secrets since they were written."""
    base_url, replace = document.meta.base_url, redactor.secrets.replace
    meta = evolve(document.meta, base_url=None if base_url is None else replace(base_url))
    return _change(evolve(document, meta=meta), lambda form: drop_secret_bytes(map_line(form, replace), redactor))


def redact_again(document: Document, others: Iterable[Interaction]) -> Document:
    """Hide what an earlier release recorded and this one hides, with pseudonyms that no interaction has."""
    redactor = Redactor(origin=document.meta.origin)
    for form in map(interaction_form, (*document.interactions, *others)):
        redactor.secrets.reserve(str(form))
        redactor.note_ids(form.get("response", {}).get("body", {}).get("json"))
    return _change(document, lambda form: map_line(form, redactor.text))


def _change(document: Document, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Document:
    reader, forms = Reader("in memory"), map(change, map(interaction_form, document.interactions))
    interactions = (reader.interaction(form, f"/interactions/{at}") for at, form in enumerate(forms))
    return evolve(document, interactions=tuple(interactions))


def map_line(line: dict[str, Any], text: Callable[[str], str], redactor: Redactor | None = None) -> dict[str, Any]:
    """A line of a recording or an interaction, with ``text`` applied to its texts, or a redactor to its parts."""

    def header(name: str, value: str) -> str:
        kind = kind_of_header(name)
        if redactor is not None and kind in (HeaderKind.SECRET, HeaderKind.DROPPED):  # which are never recorded
            return redactor.secrets.hide(value, "header", is_secret=False)
        return redactor.url(value) if redactor is not None and kind is HeaderKind.ADDRESS else text(value)

    mapped = dict(line)
    for part in line.keys() & {"request", "response"}:
        mapped[part] = new = dict(line[part])
        if "url" in new:
            new["url"] = (redactor.url if redactor else text)(new["url"])
        if "headers" in new:
            pairs = (pair.partition(": ") for pair in new["headers"])
            new["headers"] = [f"{name}: {header(name, value)}" for name, _, value in pairs]
        body = new.get("body") or {}
        if "json" in body:
            new["body"] = {**body, "json": redactor.json(body["json"]) if redactor else _map_json(body["json"], text)}
        elif "text" in body:
            new["body"] = {**body, "text": text(body["text"])}
    if "error" in line:
        mapped["error"] = {**line["error"], "message": text(line["error"]["message"])}
    return mapped


def _map_json(value: Any, change: Callable[[str], str]) -> Any:
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


def drop_secret_bytes(line: dict[str, Any], redactor: Redactor, bad: Container[object] = ()) -> dict[str, Any]:
    """The same without binary bodies that contain a secret, and without references to the ``bad`` blobs."""
    body = line.get("response", {}).get("body") or {}
    if body.get("blob") in bad:
        facts = {"bytes": body["bytes"], "sha256": body["sha256"]}
    elif "b64" in body and hides_a_secret(data := base64.b64decode(body["b64"]), redactor):
        facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    else:
        return line
    return {**line, "response": {**line["response"], "body": facts}}


def store(data: bytes, target: Path) -> bool:
    """Write a blob, unless it exists already, undamaged. Return whether it was written."""
    with suppress(OSError):
        if target.read_bytes() == data:
            return False
    write_atomically(target, data, is_durable=False)
    return True


def write_atomically(target: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Replace or create the file. A blob need not be durable: its name shows whether it is complete."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(target, is_durable=is_durable) as file:
            file.write(data)
            file.commit()
    except OSError as error:
        raise CassetteError(f"{target} cannot be written: {error.strerror or error}") from error
