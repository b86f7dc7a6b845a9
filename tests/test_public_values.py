"""All public values can be pickled, copied and, where a service or a journal is their source, returned as JSON."""

import copy
import inspect
import json
import pickle
import sys
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import pytest
from yarl import URL

import vidgen_async
from tests.test_errors import ALL_ERRORS
from vidgen_async import errors, types
from vidgen_async.redaction.messages import HIDDEN
from vidgen_async.types.serialization import SECRET, Serializable, to_json_value

NOW = datetime(2026, 11, 29, 17, 30, tzinfo=UTC)
LINK = "https://cdn.example.net/v.mp4?exp=1795973400&sig=c2lnbmF0dXJl"
#: What the description does not name: a collision with a documented name, secrets, and what is no JSON text or number.
EXTRA = {
    "status": "expired",
    "balance": "many",
    "access_token": "tok_9bb34ae375b1",
    "preview": LINK,
    "wallet": [{"points": 120, "api_key": "k-9bb34ae375b1"}],
    "ratio": float("nan"),
    "title": "half a surrogate: \ud83d",
    "half \ud83d": {"half \ud83e": 1},
    "usage": {"sk-9bb34ae375b1c2d3e4f5": 1, "sk-8bb34ae375b1c2d3e4f5": 2, LINK: 3},
}
BODY = b'{"model": "vendorh3", "prompt": "A secret boat"}'
KEY = "vg1-" + "a" * 40

model = vidgen_async.CatalogModel(code="vendorh3", durations=(5, 8), max_reference_images=8, enabled=True, extra=EXTRA)
task = vidgen_async.VideoTask(
    id="task-1",
    status="failed",
    points=15,
    video_url=LINK,
    failure_reason=f"upstream: {LINK}",
    created_at=NOW,
    request_id="r-1",
    extra=EXTRA,
)
balance = types.Balance(at=NOW, numbers={"balance": 85})
evidence = types.Evidence(
    outcome=types.AttemptOutcome.UNCERTAIN, at=NOW, status=503, body=b"\xffno", extra=EXTRA, balance_after=balance
)
attempt = types.Attempt(n=1, sent_at=NOW, deadline_at=NOW, evidence=evidence)
ref = types.OrderRef(service="https://h", account="default", order_id="order-1187")
closing = types.Closing(state=types.OrderState.ABANDONED, at=NOW, reason="no longer needed", by="ann")
result = types.TaskResult(task_id="task-1", status="failed", at=NOW, failure_reason=LINK)
order = vidgen_async.Order(
    ref=ref, idempotency_key=KEY, body=BODY, created_at=NOW, attempts=(attempt,), closing=closing, results=(result,)
)
check = vidgen_async.RequestCheck(problems=("ratio: …",), model=model, catalog_error=errors.RateLimitError("Wait."))

VALUES: tuple[Any, ...] = (
    types.OrderContent(body=b"{}", local_images={"image-1": "00ff"}),
    types.Polling(interval=5.0),
    model,
    task,
    balance,
    evidence,
    attempt,
    ref,
    closing,
    result,
    order,
    check,
    vidgen_async.Account(extra={**EXTRA, "credits": 120}),
    vidgen_async.Catalog(models=(model,), extra=EXTRA),
    vidgen_async.Outcome("task-1", task, errors.TaskFailedError("It failed.", task=task), "order-1187", state="failed"),
    vidgen_async.Pacing(limit=50),
    vidgen_async.Receipt(
        order_id="order-1187", idempotency_key=KEY, task_id="task-1", accepted_at=NOW, request_id="r-1", extra=EXTRA
    ),
    vidgen_async.ReferenceAsset(
        id="a-1", image_id="a-1", url=LINK, mime="image/png", name=f"of {LINK}", uploaded_at=NOW, extra=EXTRA
    ),
    vidgen_async.Timeouts(read=None),
    vidgen_async.VideoRequest(
        model="vendorh3", prompt="A secret boat", ratio="16:9", image_urls=[LINK], extra={"token": "t-9bb34ae375b1"}
    ),
    vidgen_async.Budget(points=500, price="points", window=86400.0),
    types.BudgetState(limit=500, window=None, spent=1, reserved=2, unknown=0, free=497, room_at=None),
    types.OrderSummary.of(order),
    types.Spend(
        model="vendorh3", state="failed", start=NOW, attempts=1, tasks=1, spending=types.Spending(spent=15)
    ),
    types.SpendRow(key="vendorh3", videos=1, spent=15, estimated=0, unknown=0, uncertain=0),
    types.Spending(spent=1, reserved=2, unknown=3),
    types.SpendingLimit(points=500, window=None, unknown=None),
    types.LimitState(types.SpendingLimit(points=1, window=1.0, unknown=1), types.Spending(), is_allowed=True),
    types.BatchCheck(rows=2, problems=("line 2: order_id: required",), states={"new": 1}),
    types.BatchOutcome(order_id="order-1187", line=1, state="saved", path=Path("videos/order-1187.mp4")),
    types.BytesBody(BODY),
    types.Decision(what="abandoned", at=NOW, by="ann", reason="no longer needed"),
    types.Hold(until=NOW, soonest=NOW),
    types.OrderSummary.of(order),
    types.Permission(
        ref=ref, expect_attempt=0, states=(types.OrderState.QUEUED,), now=NOW, deadline_at=NOW, pacing=types.Pacing()
    ),
    types.Request(
        op="videos.create",
        method="POST",
        url=URL("https://h/openapi/v1/videos"),
        headers=types.make_headers([("Accept", "a"), ("accept", "b")]),
        body=types.BytesBody(BODY),
    ),
    types.RunningPage(tasks=[types.RunningTask(task_id="task-1", order_id="o", accepted_at=NOW)], after=7),
    types.RunningTask(task_id="task-1", order_id="order-1187", accepted_at=NOW),
    types.Turn(free=1, wait=0.0),
    types.WatcherStats(
        tasks=1, waiting=1, in_flight=0, polls=7, polls_per_second=0.1, errors={"GatewayError": 1}, lateness_last=0.0,
        lateness_p50=0.0, lateness_p99=0.0, lateness_max=float("inf"), interval_now=60.0, paused_until=None,
    ),
)  # fmt: skip
SERIALIZABLE = [value for value in VALUES if isinstance(value, Serializable)]

#: They hold connections, or stand for work in progress.
LIVE = {
    *("AccountInfo", "Client", "Files", "Models", "Orders", "VideoStream", "Videos", "Watcher"),
    *("Batch", "Body", "Clock", "Connection", "ImagesToUpload", "Journal", "Poll", "Response", "Transport"),
}


def name_of(value: object) -> str:
    return type(value).__name__


def public_objects() -> dict[str, Any]:
    modules = (vidgen_async, types)
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def test_every_public_class_is_tested_here():
    tested = {
        *map(name_of, VALUES),
        *(kind.__name__ for kind in ALL_ERRORS),
        *LIVE,
        "Serializable",
        "RequestFields",
        "VideoFields",
    }
    classes = {
        name for name, found in public_objects().items() if inspect.isclass(found) and found is not types.Headers
    }
    assert {name for name in classes - tested if not issubclass(public_objects()[name], Enum)} == set()


@pytest.mark.parametrize("name", sorted(public_objects()))
def test_every_public_name_can_be_pickled_by_reference(name):
    found = public_objects()[name]
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - our own pickle


@pytest.mark.parametrize("value", [*VALUES, *types.OrderState, *types.AttemptOutcome, *types.Phase], ids=name_of)
def test_every_public_value_survives_pickle_copy_and_deepcopy(value):
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):  # noqa: S301 - our own
        assert (type(twin), repr(twin)) == (type(value), repr(value))
        if attrs.has(type(value)):
            fields = [field.name for field in attrs.fields(type(value))]
            assert [repr(getattr(twin, name)) for name in fields] == [repr(getattr(value, name)) for name in fields]


def test_a_client_cannot_be_pickled_or_copied_and_says_why():
    client = vidgen_async.Client("key", base_url="http://127.0.0.1:1/openapi/v1")
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="make one in each process"):
            copied(client)


# -- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", SERIALIZABLE, ids=name_of)
@pytest.mark.parametrize("include_secrets", [False, True])
def test_a_document_is_strict_json_with_the_names_of_the_attributes(value, include_secrets):
    document = value.to_dict(include_secrets=include_secrets)

    # As FastAPI and Starlette encode what a handler returns.
    text = json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(text) == document == json.loads(value.to_json(include_secrets=include_secrets, indent=2))
    fields = {field.name for field in attrs.fields(type(value)) if include_secrets or field.metadata != SECRET}
    assert document.keys() == fields | set(value._computed)
    assert all(hasattr(value, name) for name in document)


@pytest.mark.parametrize("value", SERIALIZABLE, ids=name_of)
def test_encoders_of_libraries_find_the_document_without_secrets(value, monkeypatch):
    document = value.to_dict()
    assert json.loads(json.dumps({"value": [value]}, default=Serializable.to_dict)) == {"value": [document]}
    assert (vars(value), value.__json__()) == (document, document)
    with pytest.raises(TypeError, match="datetime is not JSON serializable"):
        json.dumps({"value": value, "at": NOW}, default=Serializable.to_dict)
    monkeypatch.setitem(sys.modules, "pydantic_core", None)  # which is not installed
    assert dict(inspect.getmembers(value)).keys() >= value.to_dict().keys()


@pytest.mark.parametrize("value", SERIALIZABLE, ids=name_of)
def test_secrets_are_included_only_on_request(value):
    if isinstance(value, vidgen_async.VideoRequest):
        return  # the caller's own
    texts = (KEY, "A secret boat", "tok_9bb34ae375b1", "k-9bb34ae375b1", "k-8bb34ae375b1", "\\\\xffno")
    document = value.to_dict()
    assert [text for text in texts if text in json.dumps(document)] == []
    # Apart from the results themselves, which are useless without their signature.
    links = {"video_url", "url"} & document.keys()
    assert all(document.pop(name) == LINK for name in links)
    document.pop("task", None)
    assert "c2lnbmF0dXJl" not in json.dumps(document)


def test_a_task_as_json():
    document = task.to_dict()
    assert document["created_at"] == "2026-11-29T17:30:00+00:00"
    assert document["video_url"] == LINK
    assert document["failure_reason"] == f"upstream: https://cdn.example.net/v.mp4?exp={HIDDEN}&sig={HIDDEN}"
    # An unknown field never replaces a documented one.
    assert (document["status"], document["extra"]["status"], document["is_terminal"]) == ("failed", "expired", True)
    assert document["extra"]["wallet"] == [{"points": 120, "api_key": HIDDEN}]
    assert (document["extra"]["ratio"], document["extra"]["title"]) == (None, "half a surrogate: ?")
    assert document["extra"]["half \\ud83d"] == {"half \\ud83e": 1}
    assert list(document["extra"]["usage"].values()) == [1, 2, 3]
    secret = task.to_dict(include_secrets=True)
    assert secret["extra"]["access_token"] == "tok_9bb34ae375b1"
    assert (secret["extra"]["preview"], secret["failure_reason"]) == (LINK, f"upstream: {LINK}")


def test_what_contains_other_values_is_one_document():
    assert order.to_dict()["attempts"][0]["evidence"]["balance_after"]["numbers"] == {"balance": 85}
    assert order.to_dict()["state"] == "abandoned"
    secret = order.to_dict(include_secrets=True)
    assert (secret["idempotency_key"], secret["body"]) == (KEY, BODY.decode())
    assert secret["attempts"][0]["evidence"]["body"] == "\\xffno"
    assert check.to_dict()["catalog_error"] == {"kind": "rate_limit", "message": "Wait.", "may_retry": True}
    assert (check.to_dict()["is_ok"], check.to_dict()["model"]["is_usable"]) == (False, True)


def test_every_type_of_a_field_becomes_strict_json():
    values = [
        Path("videos") / "boat.mp4",
        Path("\udcff.mp4"),
        NOW,
        types.Phase.BODY,
        b"\xff",
        {"b"},
        -0.5,
        float("nan"),
    ]
    expected = ["videos/boat.mp4", "?.mp4", NOW.isoformat(), "body", "\\xff", ["b"], -0.5, None]
    assert to_json_value(values) == expected
    assert type(to_json_value(types.Phase.BODY)) is str


def test_a_request_comes_back_from_its_document():
    request = next(value for value in VALUES if isinstance(value, vidgen_async.VideoRequest))
    assert vidgen_async.VideoRequest(**json.loads(request.to_json())) == request
