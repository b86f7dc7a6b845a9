"""The JSON documents of ``--json``: stable names in snake_case; nothing secret unless requested."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, has

from vidgen_async.cli.terminal.formatting import printable
from vidgen_async.cli.terminal.result_output import Document
from vidgen_async.types.orders import Attempt, Evidence, Order, TaskResult
from vidgen_async.types.resources import Account, CatalogModel, Receipt, ReferenceAsset, VideoTask
from vidgen_async.watcher import CHECK_REFUND


def pick(value: object, names: str) -> dict[str, Any]:
    """Return the attributes with these names, separated by spaces, as JSON."""
    return {name: _to_json(getattr(value, name)) for name in names.split()}


def _to_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if has(type(value)):
        value = asdict(value, recurse=False)
    if isinstance(value, Mapping):
        return {name: _to_json(item) for name, item in value.items()}
    return list(map(_to_json, value)) if isinstance(value, list | tuple) else value


def model_document(model: CatalogModel) -> Document:
    """A catalog entry (2.1). Undocumented fields, including prices, are in ``extra``."""
    limits = "max_reference_images max_reference_audios max_reference_videos"
    return pick(model, f"code name is_usable enabled maintenance durations resolutions {limits} extra")


def account_document(account: Account) -> Document:
    """The balance if it is known, and the unchanged response."""
    return pick(account, "balance extra")


def asset_document(asset: ReferenceAsset, file: str) -> Document:
    """An upload. The token in its URL gives access to the image without a key."""
    return {"file": file, **pick(asset, "image_id url mime name uploaded_at expires_at extra")}


def receipt_document(receipt: Receipt) -> Document:
    return pick(receipt, "order_id task_id accepted_at")


def task_document(task: VideoTask) -> Document:
    """A task (2.5). The signature in ``video_url`` gives access to the video without a key. ``advice`` is what to check
    about a failed one."""
    known = "status model points video_url failure_reason created_at updated_at upstream_task_id provider extra"
    return {"task_id": task.id, **pick(task, known), "advice": _advice(task.status)}


def change_document(task: VideoTask, seen_at: datetime, order_id: str | None) -> Document:
    """A change of a watched task: the task without its URL."""
    document = {**task_document(task), "order_id": order_id, "seen_at": seen_at.isoformat()}
    del document["video_url"]
    return document


def order_document(order: Order, *, with_request: bool = False) -> Document:
    """A stored order. The request with its prompt and URLs is included only ``with_request``."""
    request = json.loads(order.body)
    document = {
        "order_id": order.order_id,
        **pick(order.ref, "account service"),
        **pick(order, "state task_ids created_at body_sha256 closing"),
        "model": request.get("model"),
        "attempts": [_attempt_document(attempt, with_body=with_request) for attempt in order.attempts],
        "results": [_result_document(result) for result in order.results],
    }
    if with_request:
        document["idempotency_key"] = order.idempotency_key
        document["request"] = request
    return document


#: The columns of ``orders export --format csv``.
ORDER_COLUMNS = (
    *("order_id", "account", "service", "state", "task_ids", "created_at", "model", "body_sha256", "attempts"),
    *("last_sent_at", "last_outcome", "last_cause", "closed_by", "closed_reason"),
)


def orders_csv(orders: Sequence[Order]) -> str:
    """The orders as CSV with a header; task ids are separated by spaces."""
    file = io.StringIO()
    writer = csv.DictWriter(file, ORDER_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for document in map(order_document, orders):
        last, closing = (document["attempts"] or [{}])[-1], document["closing"] or {}
        row = {
            **document,
            "task_ids": " ".join(document["task_ids"]),
            "attempts": len(document["attempts"]),
            **{f"last_{name}": last.get(name) for name in ("sent_at", "outcome", "cause")},
            **{f"closed_{name}": closing.get(name) for name in ("by", "reason")},
        }
        writer.writerow({name: _cell(row[name]) for name in ORDER_COLUMNS})
    return file.getvalue()


def _cell(value: object) -> object:
    """The value without control characters, quoted where a spreadsheet would take it for a formula."""
    text = printable(value) if isinstance(value, str) else ""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text or value


def _result_document(result: TaskResult) -> Document:
    known = pick(result, "task_id status points failure_reason")
    return {**known, "advice": _advice(result.status), "seen_at": result.at.isoformat()}


def _advice(status: str | None) -> str | None:
    return CHECK_REFUND if status == "failed" else None


def _attempt_document(attempt: Attempt, *, with_body: bool) -> Document:
    """An attempt; ``with_body`` includes the response body of an uncertain one, with any task id or prompt in it."""
    evidence = attempt.evidence or Evidence(outcome=attempt.outcome, at=attempt.sent_at)
    document = {
        **pick(attempt, "n kind outcome sent_at deadline_at by reason"),
        "settled_at": None if attempt.evidence is None else evidence.at.isoformat(),
        **pick(evidence, "status task_id cause request_id candidates balance_before balance_after"),
    }
    if with_body and evidence.body:
        document["body"] = evidence.body.decode(errors="backslashreplace")
    return document


def kind_of(error: BaseException) -> str:
    """The error's class in snake_case, without its suffix: ``uncertain_create``, ``task_failed``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
