"""The JSON documents of ``--json``: ``to_dict()`` of the values, and what the command adds to it."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from vidgen_async.cli.terminal.formatting import Document, printable
from vidgen_async.types import CHECK_REFUND, Order, VideoTask


def task_document(task: VideoTask) -> Document:
    """A task (2.5). The signature in ``video_url`` gives access to the video without a key. ``advice`` is what to check
    about a failed one."""
    return {"task_id": task.id, **task.to_dict(), "advice": _advice(task.status)}


def change_document(task: VideoTask, seen_at: datetime, order_id: str | None) -> Document:
    """A change of a watched task."""
    return {**task_document(task), "order_id": order_id, "seen_at": seen_at.isoformat()}


def order_document(order: Order, *, with_request: bool = False) -> Document:
    """A stored order. Its key, the request with its prompt and URLs, and the bodies of unclear responses are included
    only ``with_request``."""
    document = {**order.ref.to_dict(), **order.to_dict(include_secrets=with_request), "model": model_of(order)}
    document["results"] = [{**result.to_dict(), "advice": _advice(result.status)} for result in order.results]
    return {**document, "request": json.loads(order.body)} if with_request else document


def model_of(order: Order) -> str:
    """The model that the order asks for."""
    return str(json.loads(order.body).get("model", ""))


#: The columns of ``orders export --format csv``.
ORDER_COLUMNS = (
    *("order_id", "account", "service", "state", "task_ids", "created_at", "model", "body_sha256", "attempts"),
    *("last_sent_at", "last_outcome", "last_cause", "closed_by", "closed_reason"),
)


def orders_csv(orders: Sequence[Order]) -> str:
    """The orders as CSV with a header; task ids are separated by spaces."""
    return as_csv(ORDER_COLUMNS, map(_order_row, orders))


def _order_row(order: Order) -> Document:
    document = order_document(order)
    last, closing = (document["attempts"] or [{}])[-1], document["closing"] or {}
    return {
        **document,
        "task_ids": " ".join(order.task_ids),
        "attempts": len(order.attempts),
        "last_sent_at": last.get("sent_at"),
        "last_outcome": last.get("outcome"),
        "last_cause": (last.get("evidence") or {}).get("cause"),
        **{f"closed_{name}": closing.get(name) for name in ("by", "reason")},
    }


def as_csv(columns: Sequence[str], rows: Iterable[Document]) -> str:
    """The rows as CSV with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row[name]) for name in columns} for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    """The value without control characters, quoted where a spreadsheet would take it for a formula."""
    text = printable(value) if isinstance(value, str) else ""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text or value


def _advice(status: str | None) -> str | None:
    return CHECK_REFUND if status == "failed" else None
