"""Writes a document as the text of a file, and interactions as lines of a recording in progress."""

import json
import re
from datetime import UTC
from typing import Any

from vidgen_async.cassette.document import FORMAT, VERSION, Document, Failure, Interaction, Meta, RecordedRequest

_TIMES = re.compile(r'"t": \[\n\s*(null|\d+),\n\s*(null|\d+),\n\s*(null|\d+)\n\s*\]')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def write(document: Document) -> str:
    """The cassette's text."""
    meta = document.meta
    data = {
        "format": FORMAT,
        "version": VERSION,
        "meta": meta_form(meta),
        "interactions": [interaction_form(interaction) for interaction in document.interactions],
        **document.extra,
    }
    # JSON strings contain no line breaks: this joins only the lines of times.
    return _TIMES.sub(r'"t": [\1, \2, \3]', to_text(data, is_indented=True)) + "\n"


def meta_form(meta: Meta) -> dict[str, Any]:
    recorded_at = meta.recorded_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"recorded_at": recorded_at, "recorder": meta.recorder, "base_url": meta.base_url, **meta.extra}


def request_form(request: RecordedRequest) -> dict[str, Any]:
    form: dict[str, Any] = {"method": request.method, "url": request.url}
    if request.headers:
        form["headers"] = [f"{name}: {value}" for name, value in request.headers]
    if request.body is not None:
        form["body"] = request.body
    return form


def interaction_form(interaction: Interaction) -> dict[str, Any]:
    """An interaction as JSON."""
    form = {
        "n": interaction.n,
        "op": interaction.op,
        "t": times_form(interaction.started, interaction.answered, interaction.ended),
        "request": request_form(interaction.request),
        **outcome_form(interaction.status, interaction.headers, interaction.body, interaction.failure),
    }
    for name, unknown in interaction.extra.items():
        form[name] = {**form[name], **unknown} if name in form else unknown
    return form


def times_form(*times: float | None) -> list[int | None]:
    """In milliseconds."""
    return [None if at is None else round(at * 1000) for at in times]


def outcome_form(
    status: int | None, headers: tuple[tuple[str, str], ...], body: dict[str, Any] | None, failure: Failure | None
) -> dict[str, Any]:
    """The outcome of a request: a response, an error, or both."""
    form: dict[str, Any] = {}
    if status is not None:
        response = form["response"] = {"status": status}
        if headers:
            response["headers"] = [f"{name}: {value}" for name, value in headers]
        if body is not None:
            response["body"] = body
    if failure is not None:
        error = form["error"] = {
            "type": failure.type,
            "delivery": str(failure.delivery),
            "phase": str(failure.phase),
            "message": failure.message,
        }
        if failure.received:
            error["received"] = failure.received
        if failure.is_reused:
            error["reused"] = True
    return form


_LINES = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=1)


def to_text(data: object, *, is_indented: bool = False) -> str:
    """Readable JSON; only what UTF-8 cannot encode is escaped."""
    text = (_INDENTED if is_indented else _LINES).encode(data)
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
