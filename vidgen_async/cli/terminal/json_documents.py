"""The JSON documents of ``--json``: stable names in snake_case; nothing secret unless requested."""

import csv
import io
import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from vidgen_async.cli.terminal.result_output import Document
from vidgen_async.types.orders import Attempt, Balance, Order, TaskResult
from vidgen_async.types.resources import Account, CatalogModel, Receipt, ReferenceAsset, VideoTask


def model_document(model: CatalogModel) -> Document:
    """A catalog entry (2.1). Undocumented fields, including prices, are in ``extra``."""
    return {
        "code": model.code,
        "name": model.name,
        "is_usable": model.is_usable,
        "enabled": model.enabled,
        "maintenance": model.maintenance,
        "durations": list(model.durations),
        "resolutions": list(model.resolutions),
        "max_reference_images": model.max_reference_images,
        "max_reference_audios": model.max_reference_audios,
        "max_reference_videos": model.max_reference_videos,
        "extra": dict(model.extra),
    }


def account_document(account: Account) -> Document:
    """The balance if it is known, and the unchanged response."""
    return {"balance": account.balance, "extra": dict(account.extra)}


def asset_document(asset: ReferenceAsset, file: str) -> Document:
    """An upload. The token in its URL gives access to the image without a key."""
    return {
        "file": file,
        "image_id": asset.image_id,
        "url": asset.url,
        "mime": asset.mime,
        "name": asset.name,
        "extra": dict(asset.extra),
    }


def receipt_document(receipt: Receipt) -> Document:
    return {
        "order_id": receipt.order_id,
        "task_id": receipt.task_id,
        "accepted_at": receipt.accepted_at.isoformat(),
    }


def task_document(task: VideoTask) -> Document:
    """A task (2.5). The signature in ``video_url`` gives access to the video without a key."""
    return {
        "task_id": task.id,
        "status": task.status,
        "model": task.model,
        "points": task.points,
        "video_url": task.video_url,
        "failure_reason": task.failure_reason,
        "created_at": _iso(task.created_at),
        "updated_at": _iso(task.updated_at),
        "upstream_task_id": task.upstream_task_id,
        "provider": task.provider,
        "extra": dict(task.extra),
    }


def change_document(task: VideoTask, seen_at: datetime, order_id: str | None) -> Document:
    """A change of a watched task: the task without its URL."""
    document = {**task_document(task), "order_id": order_id, "seen_at": seen_at.isoformat()}
    del document["video_url"]
    return document


def order_document(order: Order, *, with_request: bool = False) -> Document:
    """A stored order. The request with its prompt and URLs is included only ``with_request``."""
    request = json.loads(order.body)
    document: dict[str, Any] = {
        "order_id": order.order_id,
        "account": order.ref.account,
        "service": order.ref.service,
        "state": str(order.state),
        "task_ids": list(order.task_ids),
        "created_at": order.created_at.isoformat(),
        "model": request.get("model"),
        "body_sha256": order.body_sha256,
        "attempts": [_attempt_document(attempt, with_body=with_request) for attempt in order.attempts],
        "results": [_result_document(result) for result in order.results],
        "closing": None,
    }
    if order.closing is not None:
        closing = order.closing
        document["closing"] = {
            "state": str(closing.state),
            "at": closing.at.isoformat(),
            "reason": closing.reason,
            "by": closing.by,
        }
    if with_request:
        document["idempotency_key"] = order.idempotency_key
        document["request"] = request
    return document


def _result_document(result: TaskResult) -> Document:
    return {
        "task_id": result.task_id,
        "status": result.status,
        "seen_at": result.at.isoformat(),
        "points": result.points,
        "failure_reason": result.failure_reason,
    }


def _balance_document(balance: Balance | None) -> Document | None:
    return None if balance is None else {"at": balance.at.isoformat(), "numbers": dict(balance.numbers)}


def _attempt_document(attempt: Attempt, *, with_body: bool) -> Document:
    """An attempt; ``with_body`` includes the response body of an uncertain one, with any task id or prompt in it."""
    evidence = attempt.evidence
    document: dict[str, Any] = {
        "n": attempt.n,
        "kind": attempt.kind,
        "outcome": str(attempt.outcome),
        "sent_at": attempt.sent_at.isoformat(),
        "deadline_at": attempt.deadline_at.isoformat(),
        "by": attempt.by,
        "reason": attempt.reason,
        "settled_at": None if evidence is None else evidence.at.isoformat(),
        "status": None if evidence is None else evidence.status,
        "task_id": None if evidence is None else evidence.task_id,
        "cause": "" if evidence is None else evidence.cause,
        "request_id": None if evidence is None else evidence.request_id,
        "candidates": [] if evidence is None else list(evidence.candidates),
        "balance_before": None if evidence is None else _balance_document(evidence.balance_before),
        "balance_after": None if evidence is None else _balance_document(evidence.balance_after),
    }
    if with_body and evidence is not None and evidence.body:
        document["body"] = evidence.body.decode(errors="backslashreplace")
    return document


#: The columns of ``orders export --format csv``.
ORDER_COLUMNS = (
    "order_id",
    "account",
    "service",
    "state",
    "task_ids",
    "created_at",
    "model",
    "body_sha256",
    "attempts",
    "last_sent_at",
    "last_outcome",
    "last_cause",
    "closed_by",
    "closed_reason",
)


def orders_csv(orders: Sequence[Order]) -> str:
    """The orders as CSV with a header; task ids are separated by spaces."""
    file = io.StringIO()
    writer = csv.DictWriter(file, ORDER_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for order in orders:
        document = order_document(order)
        last = document["attempts"][-1] if document["attempts"] else {}
        closing = document["closing"] or {}
        row = {
            **document,
            "task_ids": " ".join(order.task_ids),
            "attempts": len(order.attempts),
            "last_sent_at": last.get("sent_at"),
            "last_outcome": last.get("outcome"),
            "last_cause": last.get("cause"),
            "closed_by": closing.get("by"),
            "closed_reason": closing.get("reason"),
        }
        writer.writerow({name: _cell(row[name]) for name in ORDER_COLUMNS})
    return file.getvalue()


def _cell(value: object) -> object:
    """Quote a value that a spreadsheet would take for a formula: causes quote the service's text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def kind_of(error: BaseException) -> str:
    """The error's class in snake_case, without its suffix: ``uncertain_create``, ``task_failed``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()
