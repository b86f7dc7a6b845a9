"""What a create is, for everything that can come back; and that nothing uncertain is sent again by itself."""

import asyncio
import traceback

import pytest

from tests.orders.conftest import REQUEST, accepted, refused
from vidgen_async.errors import (
    BodyError,
    CassetteError,
    ConnectError,
    InvalidRequestError,
    NotSentError,
    RejectedError,
    UncertainCreateError,
)
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Delivery
from vidgen_async.types.limits import Pacing
from vidgen_async.types.orders import OrderState, idempotency_key


@pytest.mark.rule("4.4 unshown body", side="sdk")
async def test_a_receipt_holds_the_task_and_what_else_the_answer_said(orders, service):
    service.answers(lambda: accepted("task-7", eta=30))

    receipt = await orders.create(REQUEST, order_id="order-1187")

    assert (receipt.order_id, receipt.task_id, receipt.extra["eta"]) == ("order-1187", "task-7", 30)
    assert receipt.idempotency_key == idempotency_key("word", "default", "order-1187") == service.posts[0].key
    assert (await orders.get("order-1187")).state is OrderState.ACCEPTED


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 406, 411, 413, 414, 415, 429, 431])
async def test_a_refusal_is_rejected_and_sent_once(orders, service, status):
    service.answers(lambda: refused(status))

    with pytest.raises(RejectedError) as caught:
        await orders.create(REQUEST, order_id="o")

    assert len(service.posts) == 1
    assert caught.value.status == status
    assert caught.value.attempts[0].outcome == "rejected"
    assert (await orders.get("o")).state is OrderState.REJECTED


@pytest.mark.parametrize("status", [100, 301, 307, 308, 408, 409, 410, 418, 422, 423, 425, 499, 500, 502, 503, 504])
async def test_any_other_status_is_uncertain_and_sent_once(orders, service, status):
    service.answers(lambda: refused(status, Retry_After="1", Location="https://elsewhere/"))

    with pytest.raises(UncertainCreateError, match="is not sent again without your decision"):
        await orders.create(REQUEST, order_id="o")
    with pytest.raises(UncertainCreateError):
        await orders.create(REQUEST, order_id="o")

    assert len(service.posts) == 1


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"<html>", b'{"id": null, "upstream_task_id": "u"}', b'{"id": ""}', b"[]", b'{"id": "t"']
)
async def test_a_2xx_without_an_id_is_uncertain_and_its_body_is_kept(orders, service, body):
    service.answers(lambda: BufferedResponse(202, body))

    with pytest.raises(UncertainCreateError) as caught:
        await orders.create(REQUEST, order_id="o")

    assert len(service.posts) == 1
    assert caught.value.attempts[0].evidence.body == body


async def test_a_2xx_that_breaks_off_is_uncertain_and_what_came_is_kept(orders, service):
    async def cut():
        yield b'{"id": "task-1", '
        raise BodyError("cut", received=17)

    service.answers(lambda: BufferedResponse(202, cut()))

    with pytest.raises(UncertainCreateError, match="was cut short") as caught:
        await orders.create(REQUEST, order_id="o")
    assert caught.value.attempts[0].evidence.body == b'{"id": "task-1", '
    assert caught.value.attempts[0].evidence.status == 202


async def test_what_fails_to_connect_is_retried_a_few_times_under_one_key(make_orders, service):
    async def refuse(request):
        keys.append(request.headers["Idempotency-Key"])
        raise ConnectError("connection refused", delivery=Delivery.NOT_SENT)

    keys: list[str] = []
    orders = make_orders(transport=FakeTransport(service.transport._handler, on_connect=refuse))

    with pytest.raises(NotSentError, match="Calling again with the same order id is safe"):
        await orders.create(REQUEST, order_id="o")

    assert (len(keys), len(set(keys)), service.posts) == (3, 1, [])
    assert (await orders.get("o")).state is OrderState.QUEUED


async def test_no_secret_of_a_transport_is_in_the_error_of_a_create_that_was_not_sent(make_orders, service):
    async def refuse(request):
        text = f"refused: {request.headers['Authorization']} {request.headers['Idempotency-Key']} a paper boat"
        raise ConnectError(text, delivery=Delivery.NOT_SENT)

    orders = make_orders(transport=FakeTransport(service.transport._handler, on_connect=refuse))

    with pytest.raises(NotSentError) as caught:
        await orders.create(REQUEST, order_id="o")
    shown = "".join(traceback.format_exception(caught.value))
    key = (await orders.get("o")).idempotency_key
    assert not [secret for secret in ("key-never-shown", key, "a paper boat") if secret in shown]


async def test_a_cassette_error_is_never_turned_into_an_outcome(make_orders, service):
    async def miss(_):
        raise CassetteError("no such interaction")

    orders = make_orders(transport=FakeTransport(service.transport._handler, on_connect=miss))
    with pytest.raises(CassetteError, match="no such interaction"):
        await orders.create(REQUEST, order_id="while it connects")

    service.script[:] = [miss]
    with pytest.raises(CassetteError, match="no such interaction"):
        await make_orders().create(REQUEST, order_id="after it")


async def test_the_attempt_is_on_record_as_sending_before_the_service_sees_a_byte(orders, service, journal):
    seen = []

    async def look(_):
        seen.extend(order.state for order in await orders.list())
        return accepted()

    service.script[:] = [look]
    await orders.create(REQUEST, order_id="o")
    assert seen == [OrderState.SENDING]


@pytest.mark.parametrize("order_id", ["", " ", " o", "o\n", "a\x00b", "x" * 201, 7])
async def test_a_bad_order_id_is_refused_before_anything_is_sent(orders, service, order_id):
    with pytest.raises(InvalidRequestError, match="order_id"):
        await orders.create(REQUEST, order_id=order_id)
    assert service.posts == []


async def test_without_an_order_id_a_new_one_is_made_and_logged_before_anything_is_sent(orders, service, caplog):
    caplog.set_level("INFO")
    receipt = await orders.create(REQUEST)
    assert receipt.order_id in caplog.text
    assert (await orders.create(REQUEST)).order_id != receipt.order_id


async def test_no_error_shows_the_key_or_the_prompt_that_the_service_echoes(orders, service):
    service.answers(lambda: BufferedResponse(500, b"failed for key-never-shown: a paper boat"))
    with pytest.raises(UncertainCreateError) as caught:
        await orders.create(REQUEST, order_id="o")
    assert "key-never-shown" not in repr(caught.value)
    assert "paper boat" not in repr(caught.value)
    assert "paper boat" not in repr(caught.value.attempts)


async def test_an_answer_without_end_is_uncertain_and_not_read_on(orders, service):
    async def endless():
        while True:
            yield b" " * 65536

    service.answers(lambda: BufferedResponse(202, endless()))
    with pytest.raises(UncertainCreateError, match="was cut short"):
        await orders.create(REQUEST, order_id="o")


async def test_a_client_closed_in_the_pause_after_a_429_tells_of_the_refusal(make_orders, service, clock):
    service.answers(lambda: refused(429, Retry_After="30"))
    orders = make_orders(pacing=Pacing(max_wait=100))
    caller = asyncio.ensure_future(orders.create(REQUEST, order_id="o"))
    await clock.sleep(1)
    await orders.aclose(grace=0.1)
    with pytest.raises(RejectedError) as caught:
        await caller
    assert caught.value.status == 429
    assert len(service.posts) == 1
