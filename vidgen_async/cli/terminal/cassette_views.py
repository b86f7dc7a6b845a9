"""What cassettes contain and the problems found in them, for people and as JSON. Bodies, which may contain prompts, are
shown only on request."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from vidgen_async.cassette import Document, Failure, Interaction, RecoveredRecording
from vidgen_async.cassette.body_decoding import BLOBS, body_length
from vidgen_async.cassette.checks import Problem, blob_names
from vidgen_async.cli.terminal.formatting import moment, seconds, size
from vidgen_async.cli.terminal.json_documents import pick
from vidgen_async.cli.terminal.result_output import Document as JsonDocument
from vidgen_async.cli.terminal.result_output import Facts, Table, facts_of

CREATE = "videos.create"

# -- ls --------------------------------------------------------------------------------------------------------------


def cassette_document(path: Path, document: Document) -> JsonDocument:
    """A cassette without its interactions; ``bytes`` is the size of the file and its existing blobs."""
    files = (path, *(path.parent / BLOBS / name for name in blob_names(document)))
    return {
        "path": str(path),
        **pick(document.meta, "recorded_at recorder base_url"),
        "interactions": len(document.interactions),
        "creates": sum(one.op == CREATE for one in document.interactions),
        "failures": sum(one.failure is not None for one in document.interactions),
        "bytes": sum(file.stat().st_size for file in files if file.is_file()),
    }


def cassettes_table(found: Sequence[JsonDocument]) -> Table:
    """A row for each cassette, from its document."""
    names = ("cassette", "recorded (UTC)", "interactions", "creates", "failures", "size")
    return Table(
        names=names,
        numbers=names[2:],
        long=("cassette",),
        rows=tuple(
            (
                one["path"],
                f"{datetime.fromisoformat(one['recorded_at']).astimezone(UTC):%Y-%m-%d %H:%M}",
                *(str(one[name]) for name in ("interactions", "creates", "failures")),
                size(one["bytes"]),
            )
            for one in found
        ),
        empty="there is no cassette in this directory or in directories named cassettes",
    )


# -- show ------------------------------------------------------------------------------------------------------------


def interactions_table(document: Document) -> Table:
    """A row for each interaction."""
    base_url = document.meta.base_url
    return Table(
        names=("n", "op", "method", "path", "outcome", "at"),
        numbers=("n", "at"),
        long=("path", "outcome"),
        optional=("op",),
        rows=tuple(
            (
                *(str(one.n), one.op, one.request.method),
                *(_short_url(one.request.url, base_url), outcome(one), seconds(one.started)),
            )
            for one in document.interactions
        ),
        empty="the cassette has no interactions",
    )


def interaction_facts(document: Document, one: Interaction) -> Facts:
    """One interaction without the content of its bodies."""
    started_at = document.meta.recorded_at.astimezone(UTC) + timedelta(seconds=one.started)
    request, failure = one.request, one.failure
    pairs: list[tuple[str, object]] = [
        ("interaction", one.n),
        ("operation", one.op),
        ("started", f"{moment(started_at)}, {seconds(one.started)} into the recording"),
        ("response after", None if one.answered is None else seconds(one.answered - one.started)),
        ("ended after", None if one.ended is None else seconds(one.ended - one.started)),
        ("request", f"{request.method} {request.url}"),
        *(("request header", f"{name}: {value}") for name, value in request.headers),
        ("request body", _body(request.body)),
        ("status", one.status),
        *(("response header", f"{name}: {value}") for name, value in one.headers),
        ("response body", None if one.status is None else _body(one.body)),
    ]
    if failure is not None:
        received = f", after {size(failure.received)} of the body" if failure.received else ""
        message = f": {failure.message}" if failure.message else ""
        pairs.append(("failure", f"{_evidence(failure)}{received}{message}"))
    return facts_of(pairs)


def body_texts(one: Interaction) -> tuple[tuple[str, str], ...]:
    """The text and JSON bodies by name; JSON is indented."""
    texts = []
    for name, body in (("request body", one.request.body), ("response body", one.body)):
        if body and "json" in body:
            texts.append((name, json.dumps(body["json"], indent=2, ensure_ascii=False)))
        elif body and "text" in body:
            texts.append((name, str(body["text"])))
    return tuple(texts)


def interaction_document(path: Path, one: Interaction, *, with_bodies: bool) -> JsonDocument:
    request, failure = one.request, one.failure
    return {
        "path": str(path),
        **pick(one, "n op started answered ended"),
        "request": {
            **pick(request, "method url headers"),
            "body": _body_document(request.body, with_bodies=with_bodies),
        },
        **pick(one, "status headers"),
        "body": _body_document(one.body, with_bodies=with_bodies),
        "failure": None if failure is None else pick(failure, "type delivery phase message received"),
    }


def _body_document(body: dict[str, Any] | None, *, with_bodies: bool) -> JsonDocument | None:
    return body if body is None or with_bodies else {"bytes": body_length(body)}


def _short_url(url: str, base_url: str | None) -> str:
    """The path and query of the service's own URLs; other URLs whole."""
    origin = "/".join((base_url or "").split("/")[:3])
    return url.removeprefix(origin) if origin and url.startswith(f"{origin}/") else url


def outcome(one: Interaction) -> str:
    status = [] if one.status is None else [str(one.status)]
    return ", then ".join(status if one.failure is None else [*status, _evidence(one.failure)])


def _evidence(failure: Failure) -> str:
    return f"{failure.type} ({failure.delivery}, {failure.phase})"


def _body(body: dict[str, Any] | None) -> str:
    if body is None:
        return "empty"
    length = size(body_length(body))
    if "json" in body or "text" in body:
        return f"{'JSON' if 'json' in body else 'text'}, {length}"
    if "b64" in body:
        return f"binary, {length}"
    if "blob" in body:
        part = "in" if body.get("stored") == "all" else "its beginning and end in"
        return f"{length}, {part} {BLOBS}/{body['blob']}"
    return f"{length}, not stored; sha256 {body.get('sha256', 'unknown')}"


# -- check and recover -----------------------------------------------------------------------------------------------


def problems_table(problems: Sequence[Problem], count: int) -> Table:
    """A row for each problem; ``count`` cassettes were checked."""
    return Table(
        names=("file", "problem", "where", "what"),
        long=("file", "where", "what"),
        rows=tuple((str(one.path), str(one.kind), one.where or "—", one.message) for one in problems),
        empty=f"{counted(count, 'cassette')} checked, no problems found",
    )


def problem_document(one: Problem) -> JsonDocument:
    return {"path": str(one.path), "problem": str(one.kind), "where": one.where, "message": one.message}


def recovered_facts(recovered: RecoveredRecording) -> Facts:
    return facts_of(
        (
            ("finished", counted(len(recovered.document.interactions), "interaction")),
            *(("not finished", line) for line in recovered.unfinished),
            ("damaged", counted(recovered.damaged, "line") if recovered.damaged else None),
        )
    )


def recovered_document(recovered: RecoveredRecording, part: Path) -> JsonDocument:
    return {
        "path": str(recovered.target),
        "part": str(part),
        "interactions": len(recovered.document.interactions),
        **pick(recovered, "unfinished damaged"),
    }


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
