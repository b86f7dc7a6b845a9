"""A journal that an earlier release wrote opens with the same orders in the same states (the files in ``data``)."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.journal.conftest import ACCOUNT, DEADLINE, NOW, SERVICE, accepted, after, ref_of, rows, uncertain
from vidgen_async.errors import JournalError
from vidgen_async.journal.sqlite import schema
from vidgen_async.types.orders import AttemptOutcome, OrderState

DATA = Path(__file__).with_name("data")

#: The orders that 0.1.0 wrote, each named after its state or its special property.
STATES = {
    "queued": OrderState.QUEUED,
    "sending": OrderState.SENDING,
    "uncertain": OrderState.UNCERTAIN,
    "rejected": OrderState.REJECTED,
    "accepted": OrderState.ACCEPTED,
    "ended": OrderState.ACCEPTED,
    "late": OrderState.ACCEPTED,
    "abandoned": OrderState.ABANDONED,
    "alias": OrderState.QUEUED,
}


@pytest.fixture
def path(path):
    shutil.copyfile(DATA / "orders-0.1.0.db", path)
    return path


async def test_every_order_of_an_earlier_release_is_read_with_its_state_and_evidence(open_file, path):
    journal = open_file()
    orders = {order.order_id: order for order in await journal.list(SERVICE, ref_of().account, NOW)}

    assert {name: order.state for name, order in orders.items()} == STATES
    assert await journal.namespace("another") == "an-old-word"
    assert orders["uncertain"].attempts[0].evidence == uncertain(
        status=202, body=b'{"data": {"id": "t-5"}}', cause="the answer (202) holds no task id", answered=True
    )
    for state in OrderState:
        listed = await journal.list(SERVICE, ACCOUNT, NOW, states=[state])
        assert {order.order_id for order in listed} == {name for name, stored in STATES.items() if stored is state}
    assert [order.order_id for order in await journal.list(SERVICE, ACCOUNT, NOW, is_terminal=True)] == ["ended"]
    assert orders["accepted"].receipt.task_id == "task-1"
    assert (orders["ended"].is_terminal, orders["ended"].results[0].points) == (True, 15)
    assert (orders["late"].receipt.task_id, orders["late"].receipt.accepted_at) == ("task-3", after(5))
    assert (orders["abandoned"].closing.reason, orders["abandoned"].closing.by) == ("too old", "ann")
    assert orders["alias"].body == b'{"model": "gen-2.0", "prompt": "a boat", "seconds": 5}'


async def test_a_stored_sending_attempt_becomes_uncertain_at_its_own_deadline_and_accepts_a_late_receipt(
    open_file, path
):
    journal = open_file()
    assert (await journal.get(ref_of("sending"), NOW + DEADLINE)).state is OrderState.SENDING
    assert (await journal.get(ref_of("sending"), NOW + DEADLINE * 2)).state is OrderState.UNCERTAIN

    order = await journal.settle(ref_of("sending"), 1, accepted("task-9", after(500)))
    assert (order.state, order.receipt.task_id) == (OrderState.ACCEPTED, "task-9")
    again = await journal.confirm(ref_of("uncertain"), 1, accepted("t-5", after(600)))
    assert again.attempts[0].outcome is AttemptOutcome.ACCEPTED


async def test_what_a_running_process_of_an_earlier_release_writes_after_the_upgrade_is_listed(open_file, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        assert old.execute("PRAGMA user_version").fetchone() < (schema.VERSION,)
        journal = open_file()
        await journal.get(ref_of(), NOW)
        for order_id, outcome, closed, is_terminal in WRITTEN_BY_OLD_PROCESS:
            write_as_old_process(old, order_id, outcome, closed=closed, is_terminal=is_terminal)

    orders = {order.order_id: order for order in await journal.list(SERVICE, ACCOUNT, NOW)}
    assert orders.keys() - STATES.keys() == {order_id for order_id, *_ in WRITTEN_BY_OLD_PROCESS}
    for state in OrderState:
        listed = await journal.list(SERVICE, ACCOUNT, NOW, states=[state])
        assert {order.order_id for order in listed} == {name for name, order in orders.items() if order.state is state}
    stages = {name: "ended" if order.is_terminal else str(order.state) for name, order in orders.items()}
    assert dict(rows(path, "SELECT order_id, stage FROM orders")) == stages
    assert stages["new ended"] == "ended"


#: Order id, outcome of the attempt, state of the closing, whether the task is terminal.
WRITTEN_BY_OLD_PROCESS = [
    ("new queued", None, None, False),
    ("new withdrawn", None, "withdrawn", False),
    ("new sending", "sending", None, False),
    ("new uncertain", "uncertain", None, False),
    ("new abandoned", "uncertain", "abandoned", False),
    ("new rejected", "rejected", None, False),
    ("new accepted", "accepted", None, False),
    ("new ended", "accepted", None, True),
]


def write_as_old_process(
    db: sqlite3.Connection, order_id: str, outcome: str | None, *, closed: str | None, is_terminal: bool
) -> None:
    """Write an order with the columns of schema version 5."""
    now = (NOW - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    name = {"service": SERVICE, "account": ACCOUNT, "order_id": order_id}

    def insert(table: str, **values: object) -> None:
        names = ", ".join(f'"{name}"' for name in values)
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", [*values.values()])  # noqa: S608

    insert("orders", **name, idempotency_key="k", body=b"{}", created_at=now, local_images="{}")
    if outcome is not None:
        insert("attempts", **name, n=1, sent_at=now, deadline_at=now + 1, kind="create", by="", reason="")
    if outcome not in (None, "sending"):
        task_id = order_id if outcome == "accepted" else None
        texts = {"cause": "", "body": b"", "extra": "{}", "headers": "[]", "candidates": "[]"}
        insert("evidence", **name, n=1, outcome=outcome, at=now, task_id=task_id, answered=1, **texts)
    if closed is not None:
        insert("closings", **name, state=closed, at=now, reason="", by="")
    if is_terminal:
        insert("results", service=SERVICE, task_id=order_id, status="completed", at=now)


async def test_several_journals_upgrade_one_file_once(open_file, path):
    journals = [open_file() for _ in range(4)]
    found = await asyncio.gather(*(journal.get(ref_of("uncertain"), NOW) for journal in journals))

    assert {order.state for order in found} == {OrderState.UNCERTAIN}
    assert rows(path, "PRAGMA user_version") == [(schema.VERSION,)]
    assert rows(path, "SELECT count(*) FROM orders") == [(len(STATES),)]


async def test_a_newer_file_is_refused_and_not_changed(open_file, path, monkeypatch):
    await open_file().get(ref_of(), NOW)
    before = path.read_bytes()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION - 1)
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:-1])

    with pytest.raises(JournalError, match="newer vidgen_async"):
        await open_file().get(ref_of(), NOW)
    assert path.read_bytes() == before
