"""Receipt by confirmation: an answer that hides the task id gives a receipt only where all evidence agrees (4.4)."""

import asyncio
import json
from datetime import timedelta
from email.utils import format_datetime

import pytest
from attrs import evolve

from tests.orders.conftest import accepted
from vidgen_async.errors import (
    ConnectionLostError,
    GatewayError,
    JournalError,
    NotFoundError,
    UncertainCreateError,
    UnexpectedResponseError,
)
from vidgen_async.transports import BufferedResponse
from vidgen_async.types.http import make_headers
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import VideoRequest, VideoTask

VIDEO = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)


@pytest.fixture
def task(clock) -> VideoTask:
    """What the service knows of the task of a create that is sent now."""
    return VideoTask(id="t-1", status="queued", model="gen-2.0", created_at=clock.wall())


@pytest.fixture
def answer(service, clock):
    """Let creates be answered with a body without a task id at its top level."""

    def make(body: object = None, *, date: timedelta | None = timedelta(), takes: float = 0.0, **headers: str) -> None:
        raw = json.dumps({"data": {"id": "t-1"}} if body is None else body).encode()

        async def give(_: object) -> BufferedResponse:
            await clock.sleep(takes)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            dated = {} if date is None else {"Date": format_datetime(clock.wall() + date)}
            return BufferedResponse(202, raw, headers=make_headers({**dated, **named}))

        service.script[:] = [give]

    return make


async def uncertain(orders, service) -> UncertainCreateError:
    with pytest.raises(UncertainCreateError) as caught:
        await orders.create(VIDEO, order_id="o")
    assert len(service.posts) == 1
    assert (await orders.get("o")).state is OrderState.UNCERTAIN
    return caught.value


# -- it is the receipt -------------------------------------------------------------------------------------------------


async def test_the_only_candidate_that_the_service_knows_is_the_receipt(orders, service, answer, task):
    answer(X_Request_Id="r-1")
    service.found["t-1"] = task

    receipt = await orders.create(VIDEO, order_id="o")

    assert (receipt.task_id, len(service.posts)) == ("t-1", 1)
    assert [task_id for task_id, _ in service.gets] == ["t-1"]
    order = await orders.get("o")
    assert (order.state, order.receipt.task_id) == (OrderState.ACCEPTED, "t-1")
    assert await orders.create(VIDEO, order_id="o") == receipt
    assert len(service.posts) == 1


async def test_an_id_at_the_top_level_is_a_receipt_without_a_request(orders, service):
    service.answers(lambda: accepted("t-9", data={"id": "t-1"}))

    assert (await orders.create(VIDEO, order_id="o")).task_id == "t-9"
    assert service.gets == []


async def test_all_other_candidates_are_asked_for_until_they_have_been_unknown_for_ten_seconds(
    orders, service, answer, task, clock
):
    answer({"data": {"id": "t-1"}, "taskId": "no-1", "video": {"id": "no-2"}})
    service.found["t-1"] = task

    assert (await orders.create(VIDEO, order_id="o")).task_id == "t-1"

    moments = [at for task_id, at in service.gets if task_id == "no-1"]
    assert moments[-1] - moments[0] == pytest.approx(10)
    assert len([at for task_id, at in service.gets if task_id == "t-1"]) == 1


async def test_a_candidate_whose_first_answer_took_long_is_asked_for_again(make_orders, service, answer, task, clock):
    async def slowly(task_id):
        await clock.sleep(12)
        try:
            return await service.get_task(task_id)
        finally:
            service.found["t-1"] = task

    answer()
    assert (await make_orders(get_task=slowly).create(VIDEO, order_id="o")).task_id == "t-1"


@pytest.mark.parametrize("ago", [0, 1, 2])
async def test_a_task_may_be_as_old_as_the_send_and_two_seconds(orders, service, answer, task, ago):
    answer(takes=30)
    service.found["t-1"] = evolve(task, created_at=task.created_at - timedelta(seconds=ago))

    assert (await orders.create(VIDEO, order_id="o")).task_id == "t-1"


async def test_an_answer_that_comes_after_the_order_became_uncertain_is_on_record_and_is_confirmed(
    orders, service, journal, answer, task, clock
):
    answer()
    give = service.script[0]

    async def after_the_deadline(post: object) -> BufferedResponse:
        (order,) = await journal.list("https://h", "default", clock.wall() + timedelta(hours=1))
        assert order.state is OrderState.UNCERTAIN
        return await give(post)

    service.script[:] = [after_the_deadline]
    service.found["t-1"] = task

    assert (await orders.create(VIDEO, order_id="o")).task_id == "t-1"
    assert len(service.posts) == 1


# -- it is not: one condition each -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        GatewayError("bad gateway", status=502, body=b"{}"),
        ConnectionLostError("lost"),
        TimeoutError(),
        OSError("a bug of a transport"),
        UnexpectedResponseError("is about another task", status=200, body=b"{}"),
        NotFoundError("a proxy's page", status=404, body=b"<html>"),
    ],
    ids=lambda failure: type(failure).__name__,
)
@pytest.mark.parametrize("which", ["t-1", "t-2"])
async def test_a_candidate_that_cannot_be_read_leaves_it_uncertain(orders, service, answer, task, failure, which):
    answer({"data": {"id": "t-1"}, "taskId": "t-2"})
    service.found["t-1"] = task
    service.failures[which] = failure

    await uncertain(orders, service)


@pytest.mark.parametrize(
    "change",
    [{"model": "other"}, {"model": None}, {"created_at": None}],
    ids=["another model", "no model", "no time"],
)
async def test_a_task_that_does_not_show_that_it_is_the_orders_leaves_it_uncertain(
    orders, service, answer, task, change
):
    answer()
    service.found["t-1"] = evolve(task, **change)

    await uncertain(orders, service)


#: Seconds by which the service's clock is ahead; creation of the task, in seconds after the send by that clock.
IMPOSSIBLE_TIMES = [(0, -4), (0, 95), (0, 86_400), (0, 1e9), (10_800, -10_800), (7_200, 0), (-86_400, 0), (2e11, 0)]


@pytest.mark.parametrize(("ahead", "created"), IMPOSSIBLE_TIMES)
async def test_a_time_that_the_task_of_this_send_cannot_have_leaves_it_uncertain(
    orders, service, answer, task, ahead, created
):
    answer(takes=30, date=timedelta(seconds=ahead))
    service.found["t-1"] = evolve(task, created_at=task.created_at + timedelta(seconds=ahead + created))

    await uncertain(orders, service)


@pytest.mark.parametrize(("ahead", "created"), [(0, 30), (0, 85), (3_500, 0), (-3_500, 85)])
async def test_the_services_own_clock_counts(orders, service, answer, task, ahead, created):
    answer(takes=30, date=timedelta(seconds=ahead))
    service.found["t-1"] = evolve(task, created_at=task.created_at + timedelta(seconds=ahead + created))

    assert (await orders.create(VIDEO, order_id="o")).task_id == "t-1"


@pytest.mark.parametrize("date", [None, "yesterday", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"])
async def test_an_answer_without_a_usable_date_leaves_it_uncertain(orders, service, answer, task, date):
    answer(date=None, **({} if date is None else {"Date": date}))
    service.found["t-1"] = task

    await uncertain(orders, service)


# -- what is left behind -----------------------------------------------------------------------------------------------


async def test_candidates_and_evidence_are_written_before_anything_is_asked_for(
    make_orders, service, journal, answer, task
):
    answer(X_Request_Id="r-1", Set_Cookie="session=hush-hush-hush", X_Plain="yes")
    seen = []

    async def get_task(task_id: str) -> VideoTask:
        orders_of_it = await make_orders().list()
        seen.extend(attempt.evidence for attempt in orders_of_it[0].attempts)
        raise GatewayError("bad gateway", status=502, body=b"{}")

    orders = make_orders(get_task=get_task)
    with pytest.raises(UncertainCreateError):
        await orders.create(VIDEO, order_id="o")

    (evidence,) = seen
    assert (evidence.candidates, evidence.request_id) == (("t-1",), "r-1")
    assert [name for name, _ in evidence.headers] == ["Date", "X-Request-Id", "Set-Cookie", "X-Plain"]
    assert "hush" not in repr(evidence.headers)


async def test_a_receipt_that_the_journal_does_not_take_leaves_it_uncertain(orders, service, journal, answer, task):
    async def confirm(*_: object) -> None:
        raise JournalError("the disk is full")

    answer()
    service.found["t-1"] = task
    before, journal.confirm = journal.confirm, confirm
    await uncertain(orders, service)
    journal.confirm = before

    assert (await orders.create(VIDEO, order_id="o")).task_id == "t-1"
    assert len(service.posts) == 1


async def test_a_client_that_is_closed_while_it_asks_leaves_it_uncertain(make_orders, service, answer, task):
    answer()
    asked = asyncio.Event()

    async def get_task(task_id: str) -> VideoTask:
        asked.set()
        await asyncio.Event().wait()

    orders = make_orders(get_task=get_task)
    creating = asyncio.create_task(orders.create(VIDEO, order_id="o"))
    await asked.wait()
    await orders.aclose(grace=0)
    with pytest.raises(UncertainCreateError):
        await creating

    service.found["t-1"] = task
    assert (await make_orders().create(VIDEO, order_id="o")).task_id == "t-1"
    assert len(service.posts) == 1
