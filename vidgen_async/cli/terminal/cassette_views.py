"""What is on cassettes, as people read it and as JSON. Prompts are shown only where that was asked for."""

import json
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from attrs import field, frozen

from vidgen_async.cassette import Document, Interaction
from vidgen_async.cassette.body_decoding import BLOBS, body_length
from vidgen_async.cassette.checks import blob_names
from vidgen_async.cassette.diff import address
from vidgen_async.cli.prompt_masking import Curtain
from vidgen_async.cli.terminal.formatting import moment, seconds, size
from vidgen_async.cli.terminal.result_output import Document as JsonDocument
from vidgen_async.cli.terminal.result_output import Facts, Table, columns, facts_of

CREATE = "videos.create"

# -- ls --------------------------------------------------------------------------------------------------------------


@frozen
class Listed:
    """A cassette in a list."""

    path: Path
    document: Document
    length: int = field(init=False)

    @length.default
    def _count(self) -> int:
        """Of the file and its blobs, as far as they are there."""
        files = (self.path, *(self.path.parent / BLOBS / name for name in blob_names(self.document)))
        return sum(file.stat().st_size for file in files if file.is_file())

    @property
    def creates(self) -> int:
        return sum(interaction.op == CREATE for interaction in self.document.interactions)

    @property
    def failures(self) -> int:
        return sum(interaction.failure is not None for interaction in self.document.interactions)


def cassettes_table(found: Sequence[Listed], where: str) -> Table:
    """A line for each cassette; ``where`` they were looked for."""
    return Table(
        columns=columns(
            "cassette", "recorded (UTC)", "interactions", "creates", "failures", "size",
            numbers=("interactions", "creates", "failures", "size"), long=("cassette",),
        ),
        rows=tuple(
            (
                str(one.path),
                f"{one.document.meta.recorded_at.astimezone(UTC):%Y-%m-%d %H:%M}",
                str(len(one.document.interactions)),
                str(one.creates),
                str(one.failures),
                size(one.length),
            )
            for one in found
        ),
        empty=f"there is no cassette {where}",
    )  # fmt: skip


def cassette_document(one: Listed) -> JsonDocument:
    meta = one.document.meta
    return {
        "path": str(one.path),
        "recorded_at": meta.recorded_at.isoformat(),
        "recorder": meta.recorder,
        "base_url": meta.base_url,
        "interactions": len(one.document.interactions),
        "creates": one.creates,
        "failures": one.failures,
        "bytes": one.length,
    }


# -- show ------------------------------------------------------------------------------------------------------------


def interactions_table(document: Document, curtain: Curtain) -> Table:
    """A line for each interaction."""
    return Table(
        columns=columns(
            "n",
            "op",
            "method",
            "path",
            "outcome",
            "at",
            numbers=("n", "at"),
            long=("path", "outcome"),
            optional=("op",),
        ),
        rows=tuple(
            (
                str(one.n),
                one.op,
                one.request.method,
                curtain.text(address(one.request.url, document.meta.base_url)),
                outcome(one),
                seconds(one.started),
            )
            for one in document.interactions
        ),
        empty="there is no interaction on it",
    )


def interaction_facts(document: Document, one: Interaction, curtain: Curtain) -> Facts:
    """All about one interaction, but for its bodies."""
    began_at = document.meta.recorded_at.astimezone(UTC) + timedelta(seconds=one.started)
    request, failure = one.request, one.failure
    pairs: list[tuple[str, object]] = [
        ("interaction", one.n),
        ("operation", one.op),
        ("began", f"{moment(began_at)}, {seconds(one.started)} after the recording did"),
        ("answered after", None if one.answered is None else seconds(one.answered - one.started)),
        ("ended after", None if one.ended is None else seconds(one.ended - one.started)),
        ("request", f"{request.method} {curtain.text(request.url)}"),
        *(("request header", f"{name}: {curtain.text(value)}") for name, value in request.headers),
        ("request body", _body(request.body)),
        ("answer", one.status),
        *(("answer header", f"{name}: {curtain.text(value)}") for name, value in one.headers),
        ("answer body", None if one.status is None else _body(one.body)),
    ]
    if failure is not None:
        received = f", after {size(failure.received)} of the body" if failure.received else ""
        message = f": {curtain.text(failure.message)}" if failure.message else ""
        pairs.append(("failure", f"{_evidence(one)}{received}{message}"))
    return facts_of(pairs)


def body_texts(one: Interaction, curtain: Curtain) -> tuple[tuple[str, str], ...]:
    """The bodies that can be read, under their names: JSON is indented."""
    named = (("request body", one.request.body), ("answer body", one.body))
    return tuple(
        (name, _readable(body, curtain)) for name, body in named if body and ("json" in body or "text" in body)
    )


def interaction_document(path: Path, one: Interaction, curtain: Curtain) -> JsonDocument:
    return {
        "path": str(path),
        "n": one.n,
        "op": one.op,
        "started": one.started,
        "answered": one.answered,
        "ended": one.ended,
        "request": {
            "method": one.request.method,
            "url": curtain.text(one.request.url),
            "headers": curtain.value(one.request.headers),
            "body": curtain.value(one.request.body),
        },
        "status": one.status,
        "headers": curtain.value(one.headers),
        "body": curtain.value(one.body),
        "failure": _failure_document(one, curtain),
    }


def _failure_document(one: Interaction, curtain: Curtain) -> JsonDocument | None:
    failure = one.failure
    if failure is None:
        return None
    return {
        "type": failure.type,
        "delivery": failure.delivery,
        "phase": failure.phase,
        "message": curtain.text(failure.message),
        "received": failure.received,
    }


def outcome(one: Interaction) -> str:
    parts = ("" if one.status is None else str(one.status), "" if one.failure is None else _evidence(one))
    return ", then ".join(filter(None, parts))


def _evidence(one: Interaction) -> str:
    failure = one.failure
    return "" if failure is None else f"{failure.type} ({failure.delivery}, {failure.phase})"


def _body(body: dict[str, Any] | None) -> str:
    if body is None:
        return "empty"
    length = size(body_length(body))
    if "json" in body or "text" in body:
        return f"{'JSON' if 'json' in body else 'text'}, {length}"
    if "b64" in body:
        return f"binary, {length}"
    if "blob" in body:
        kept = "in" if body.get("stored") == "all" else "both ends of it in"
        return f"{length}, {kept} {BLOBS}/{body['blob']}"
    return f"{length}, not kept; sha256 {body.get('sha256', 'unknown')}"


def _readable(body: dict[str, Any], curtain: Curtain) -> str:
    if "json" in body:
        return json.dumps(curtain.value(body["json"]), indent=2, ensure_ascii=False)
    return curtain.text(str(body["text"]))
