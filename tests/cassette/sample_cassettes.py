"""Sample cassettes for tests."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve

from vidgen_async.cassette import Document, Failure, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.document import interaction_form, meta_form, request_form, write

BASE = "https://api.vidgen.test/openapi/v1"
LINK = "https://cdn.vidgen.test/v/1.mp4?exp=4102444800&sig=REDACTED-sig-1"
#: What a leaked secret looks like.
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJub2JvZHkifQ.c2lnbmF0dXJl"
PROMPT = "A secret paper boat sails at dawn"
RECORDED_AT = datetime(2026, 11, 27, 21, 35, 24, tzinfo=UTC)
VIDEO = b"\0\0\0\x18ftypmp42" + bytes(4988)
BLOB = f"sha256-{hashlib.sha256(VIDEO).hexdigest()}.mp4"
JSON = ("content-type", "application/json")


def in_blob(data: bytes = VIDEO, **changes: Any) -> dict[str, Any]:
    """A body that is stored completely in a blob."""
    digest = hashlib.sha256(data).hexdigest()
    return {"blob": f"sha256-{digest}.mp4", "bytes": len(data), "sha256": digest, "stored": "all", **changes}


def create(n: int = 1, *, prompt: str = PROMPT, answer: Any = None, **fields: Any) -> Interaction:
    """A successful create of a video of five seconds."""
    request = {"json": {"model": "gen-2.0", "prompt": prompt, "duration": 5}}
    usual: dict[str, Any] = {
        "request": RecordedRequest("POST", f"{BASE}/videos", (JSON,), request),
        "started": 0.0,
        "answered": 0.25,
        "ended": 0.5,
        "status": 201,
        "headers": (JSON, ("retry-after", "5")),
        "body": {"json": {"data": {"task_id": "task_1"}} if answer is None else answer},
    }
    return Interaction(n=n, op="videos.create", **usual | fields)


def look(n: int, state: str = "queued", **fields: Any) -> Interaction:
    """A poll of the task."""
    usual: dict[str, Any] = {
        "request": RecordedRequest("GET", f"{BASE}/videos/task_1"),
        "started": 60.0 * n,
        "answered": 60.0 * n + 0.1,
        "ended": 60.0 * n + 0.2,
        "status": 200,
        "headers": (JSON,),
        "body": {"json": {"data": {"id": "task_1", "status": state}}},
    }
    return Interaction(n=n, op="videos.get", **usual | fields)


def broken(n: int) -> Interaction:
    """A poll without a response."""
    failure = Failure("ConnectionLostError", "maybe_sent", "wait", "the service closed the connection")
    return look(n, answered=None, status=None, headers=(), body=None, failure=failure)


def download(n: int, **fields: Any) -> Interaction:
    """The video."""
    usual: dict[str, Any] = {
        "request": RecordedRequest("GET", LINK),
        "started": 300.0,
        "answered": 300.5,
        "ended": 302.0,
        "status": 200,
        "headers": (("content-type", "video/mp4"),),
        "body": in_blob(),
    }
    return Interaction(n=n, op="videos.download", **usual | fields)


def document(*interactions: Interaction, **meta: Any) -> Document:
    facts = {"recorded_at": RECORDED_AT, "recorder": "vidgen_async aiohttp/3.14.5", "base_url": BASE} | meta
    return Document(Meta(**facts), interactions)


def boat(**meta: Any) -> Document:
    """A complete order: created, polled three times, once without a response, and downloaded."""
    return document(create(), broken(2), look(3), look(4, "completed"), download(5), **meta)


def save(path: Path, made: Document, *, blobs: dict[str, bytes] | None = None) -> Path:
    """The document as a cassette, with its blobs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write(made), "utf-8")
    for name, data in ({BLOB: VIDEO} if blobs is None else blobs).items():
        (path.parent / "blobs").mkdir(exist_ok=True)
        (path.parent / "blobs" / name).write_bytes(data)
    return path


def save_part(path: Path, made: Document, *, unfinished: int = 0, torn: bytes = b"", is_append: bool = False) -> Path:
    """The file of a killed recording: the last ``unfinished`` interactions have no outcome."""
    lines: list[dict[str, Any]] = [
        {"e": "begin", "format": "vidgen-cassette", "version": 1, "append": is_append, "meta": meta_form(made.meta)}
    ]
    lines += [
        {"e": "open", "n": one.n, "op": one.op, "request": request_form(one.request)} for one in made.interactions
    ]
    for one in made.interactions[: len(made.interactions) - unfinished]:
        form = interaction_form(one)
        lines.append({"e": "done"} | {name: form[name] for name in form if name not in ("op", "request")})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(f"{json.dumps(line)}\n".encode() for line in lines) + torn)
    return path


def changed(made: Document, n: int, **fields: Any) -> Document:
    """The document with another interaction ``n``."""
    return evolve(made, interactions=tuple(evolve(one, **fields) if one.n == n else one for one in made.interactions))
