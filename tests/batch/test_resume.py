"""What a run does, for any manifest, states of its orders, files, and earlier runs that were stopped.

The table states what is right; it knows nothing of the code.
"""

import json
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.batch.conftest import FIELDS, Batches
from tests.sandbox.test_video_content import make_film
from vidgen_async import Budget, Client, InvalidRequestError, TaskFailedError
from vidgen_async.errors import BudgetExceededError, RejectedError, UncertainCreateError
from vidgen_async.media.download import check_file
from vidgen_async.sandbox import Fault
from vidgen_async.sandbox.media import render

#: By the state of an order: the state and the reason of its row after a run, and how many creates the run sends.
RULES = {
    "unknown": ("saved", "new", 1),
    "queued": ("saved", "new", 1),
    "running": ("saved", "running", 0),
    "completed": ("saved", "", 0),
    "failed": ("failed", "", 0),
    "failed twice": ("failed", "", 0),
    "failed, then completed": ("saved", "", 0),
    "refused": ("saved", "rejected before", 1),
    "invalid": ("rejected", "", 0),
    "uncertain": ("uncertain", "", 0),
    "abandoned": ("abandoned", "", 0),
    "withdrawn": ("withdrawn", "", 0),
}
#: The same with ``retry_failed``.
IF_RETRIED = {
    "failed": ("failed", "failed before", 1),
    "failed twice": ("failed", "failed before", 1),
    "invalid": ("saved", "rejected before", 1),
}
VIDEO = render(make_film(seconds=1, width=64, height=64), lambda: False)
FAILS = " [fail: no]"
NOTHING = Budget(points=0, price="points")
ROWS = st.lists(
    st.tuples(st.sampled_from(list(RULES)), st.sampled_from(["missing", "incomplete", "whole"])),
    min_size=4,
    max_size=12,
)


def fields_of(number: int, kind: str) -> dict[str, Any]:
    return {**FIELDS, "order_id": f"o{number}", "prompt": f"boat {number}{FAILS * kind.startswith('failed')}"}


def write_rows(path: Path, fields: list[dict[str, Any]], *, is_csv: bool) -> Path:
    cells = [",".join(map(str, cells)) for cells in (fields[0], *(each.values() for each in fields))]
    path.write_text("\n".join(cells if is_csv else map(json.dumps, fields)))
    return path


async def make_state(batches: Batches, kind: str, fields: dict[str, Any]) -> None:
    """Bring the order of a row into a state."""
    order_id, faults = fields["order_id"], batches.service.faults
    async with batches.client(budget=NOTHING if kind in {"queued", "withdrawn"} else None) as client:
        if kind in {"refused", "invalid", "uncertain", "abandoned"}:
            faults.add("videos.create", Fault.status({"refused": 403, "invalid": 400}.get(kind, 503), made=True))
        with suppress(BudgetExceededError, RejectedError, UncertainCreateError):
            await client.videos.create(**fields)
        if kind in {"completed", "failed", "failed twice", "failed, then completed"}:
            await end(client, order_id)
        if kind in {"failed twice", "failed, then completed"}:
            prompt = fields["prompt"] if kind == "failed twice" else "a boat"
            await client.videos.create(**fields | {"order_id": f"{order_id}~2", "prompt": prompt})
            await end(client, f"{order_id}~2")
        if kind == "withdrawn":
            await client.orders.withdraw(order_id)
        if kind == "abandoned":
            await client.orders.abandon(order_id, "x")


async def end(client: Client, order_id: str) -> None:
    receipt = (await client.orders.get(order_id)).receipt
    assert receipt is not None
    with suppress(TaskFailedError):
        await client.videos.wait(receipt)


async def stop_after(batches: Batches, rows: Any, count: int) -> None:
    """A run that is stopped after some outcomes."""
    async with batches.client() as client, client.videos.batch(rows, to=batches.to) as batch:
        if count == 0:
            batch.stop()
        async for _ in batch:
            count -= 1
            if count == 0:
                batch.stop()


def put_file(path: Path, video: bytes, kind: str) -> None:
    if kind != "missing":
        path.write_bytes(video if kind == "whole" else video[:-50])


@pytest.mark.slow
@given(
    rows=ROWS,
    is_csv=st.booleans(),
    stops=st.lists(st.integers(0, 4), max_size=2),
    retry_failed=st.booleans(),
)
@settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_a_run_does_what_the_states_of_the_orders_and_the_files_ask_for(
    batches, rows, is_csv, stops, retry_failed
):
    with tempfile.TemporaryDirectory() as name:
        batches.to, batches.journal = Path(name) / "videos", f"sqlite:///{name}/orders.db"
        batches.to.mkdir()
        fields = [fields_of(number, kind) for number, (kind, _) in enumerate(rows)]
        for each, (kind, file) in zip(fields, rows, strict=True):
            if kind != "unknown":
                await make_state(batches, kind, each)
            put_file(batches.to / f"{each['order_id']}.mp4", VIDEO, file)
        manifest = write_rows(Path(name) / "jobs", fields, is_csv=is_csv)
        strange = [each["order_id"] for each, row in zip(fields, rows, strict=True) if is_strange(*row)]
        if strange:
            with pytest.raises(InvalidRequestError) as refused:
                await batches.run(manifest)
            assert [problem.split("'")[1] for problem in refused.value.problems] == [f"{each}.mp4" for each in strange]
        for order_id in strange:
            (batches.to / f"{order_id}.mp4").unlink()
        before = len(batches.service.creates)
        for count in stops:
            await stop_after(batches, manifest, count)

        outcomes = await batches.run(manifest, retry_failed=retry_failed)

        sent = Counter(each.body["prompt"] for each in batches.service.creates[before:])
        for each, (kind, file) in zip(fields, rows, strict=True):
            outcome, path = outcomes[each["order_id"]], batches.to / f"{each['order_id']}.mp4"
            state, reason, count = (IF_RETRIED if retry_failed and kind in IF_RETRIED else RULES)[kind]
            reason = f"file {file}" if "completed" in kind and file != "whole" else reason
            assert (outcome.state, sent[each["prompt"]]) == (state, count), (kind, file)
            assert stops or outcome.reason == reason, (kind, file)
            assert outcome.ordered_as == each["order_id"] + suffix_of(kind, reason)
            assert (check_file(path) or "whole") == ("whole" if state == "saved" else file)
        again = await batches.run(manifest)
        assert {order_id: (each.state, each.reason) for order_id, each in again.items()} == {
            order_id: (each.state, "") for order_id, each in outcomes.items()
        }
        assert len(batches.service.creates) == before + sent.total()


def is_strange(kind: str, file: str) -> bool:
    return kind == "unknown" and file != "missing"


def suffix_of(kind: str, reason: str) -> str:
    """The end of the id of the order that a row has after a run."""
    number = 1 + (kind in {"failed twice", "failed, then completed"}) + (reason == "failed before")
    return f"~{number}" if number > 1 else ""
