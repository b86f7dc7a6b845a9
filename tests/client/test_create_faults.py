"""Whatever the network and the service do to a create: the service counts at most one POST, and the caller is told
what is known. The oracle is the service's own list of what it received."""

import asyncio

import pytest

from vidgen_async import (
    Client,
    NotSentError,
    RateLimitError,
    RejectedError,
    Timeouts,
    UncertainCreateError,
)
from vidgen_async.sandbox import Fault
from vidgen_async.types.orders import OrderState

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}

UNCERTAIN = {
    "closed after the body, task made": Fault.close_after_body(made=True),
    "closed after the body, no task": Fault.close_after_body(made=False),
    "closed before the body": Fault.close_before_body(),
    "reset before the body": Fault.reset_before_body(),
    "reset after the body, task made": Fault.reset_after_body(made=True),
    "answer cut short": Fault.cut(10, made=True),
    "answer garbled": Fault.garble(made=True),
    "an HTML page with 200": Fault.html(status=200),
    "2xx without an id": Fault.without_id(made=True),
    "not HTTP": Fault.not_http(),
    "silence, task made": Fault.stall(made=True),
    "silence, no task": Fault.stall(made=False),
    "redirected": Fault.redirect("https://elsewhere.invalid/", status=307),
    "redirected as GET": Fault.redirect("https://elsewhere.invalid/", status=303),
    "500": Fault.status(500),
    "502 from a gateway": Fault.status(502, body="<html>Bad Gateway</html>", content_type="text/html"),
    "503, task made": Fault.status(503, made=True),
    "504, task made": Fault.status(504, made=True),
    "408": Fault.status(408),
    "409": Fault.status(409),
    "422": Fault.status(422),
    "425": Fault.status(425),
}


def quick(service) -> Client:
    return Client(service.api_key, base_url=service.base_url, timeouts=Timeouts(connect=2, read=2, create=0.5))


@pytest.mark.slow
@pytest.mark.rule("4.4 note no-resend", "7 error 503", "7 error 502 504", side="sdk")
@pytest.mark.parametrize("fault", UNCERTAIN.values(), ids=UNCERTAIN.keys())
async def test_a_lost_or_unreadable_answer_is_uncertain_and_one_post(service, fault):
    service.faults.add("videos.create", fault)
    async with quick(service) as client:
        with pytest.raises(UncertainCreateError) as caught:
            await client.videos.create(**FIELDS, order_id="order-1187")
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**FIELDS, order_id="order-1187")
        order = await client.orders.get("order-1187")

    assert len(service.creates) == 1
    assert service.creates[0].idempotency_key == caught.value.idempotency_key
    assert order.state is OrderState.UNCERTAIN
    assert "order-1187" in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert service.api_key not in repr(error)
        error = error.__cause__
    own_words = str(caught.value).replace("Please try again", "the page that came")
    assert "again" not in own_words.replace("is not sent again", "")


@pytest.mark.rule("4.4 response 400", side="sdk")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 406, 407, 411, 413, 414, 415, 429, 431])
async def test_a_refusal_is_rejected_and_one_post(service, status):
    service.faults.add("videos.create", Fault.status(status, headers={"Retry-After": "0"}))
    async with quick(service) as client:
        with pytest.raises(RejectedError):
            await client.videos.create(**FIELDS, order_id="o")
        assert len(service.creates) == 1

        receipt = await client.videos.create(**FIELDS, order_id="o")
    assert receipt.task_id == service.creates[1].task_id
    assert service.creates[0].idempotency_key == service.creates[1].idempotency_key


async def test_a_kept_alive_connection_that_the_service_drops_never_makes_a_create_uncertain(service):
    async with quick(service) as client:
        service.faults.add("models.list", Fault.drop_after())
        await client.models.list()
        receipt = await client.videos.create(**FIELDS)
    assert [create.task_id for create in service.creates] == [receipt.task_id]


async def test_a_slow_answer_within_the_limit_is_a_receipt(service):
    service.faults.add("videos.create", Fault.drip(2000))
    async with quick(service) as client:
        receipt = await client.videos.create(**FIELDS)
    assert [create.task_id for create in service.creates] == [receipt.task_id]


@pytest.mark.rule("4.4 note no-resend", side="sdk")
@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "lost"])
async def test_a_caller_cancelled_at_any_await_changes_nothing_but_the_caller(service, is_answered):
    for moment in range(0, 60, 4):
        service.creates.clear()
        if not is_answered:
            service.faults.clear()
            service.faults.add("videos.create", Fault.close_after_body(made=True))
        async with quick(service) as client:
            caller = asyncio.ensure_future(client.videos.create(**FIELDS, order_id=f"order-{moment}"))
            for _ in range(moment):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
            if moment:
                again = client.videos.create(**FIELDS, order_id=f"order-{moment}")
                (result,) = await asyncio.gather(again, return_exceptions=True)
                if is_answered:
                    assert result.task_id == service.creates[0].task_id
                else:
                    assert isinstance(result, UncertainCreateError)
        assert len(service.creates) == (1 if moment else 0), moment


async def test_a_client_closed_at_any_await_leaves_at_most_one_post_and_says_what_is_known(service):
    for moment in range(1, 61, 4):
        service.creates.clear()
        client = quick(service)
        caller = asyncio.ensure_future(client.videos.create(**FIELDS, order_id=f"order-{moment}"))
        for _ in range(moment):
            await asyncio.sleep(0)
        await client.aclose(grace=0)
        (result,) = await asyncio.gather(caller, return_exceptions=True)
        arrived = [create for create in service.creates if create.body_arrived]
        assert len(service.creates) <= 1, moment
        if isinstance(result, NotSentError):
            assert arrived == [], moment
        elif not isinstance(result, UncertainCreateError):
            assert result.task_id == arrived[0].task_id, moment


@pytest.mark.rule("4.4 response 429", "7 error 429", side="sdk")
async def test_the_services_own_submission_limit_is_a_rate_limit_error(service):
    service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "7"}))
    async with quick(service) as client:
        with pytest.raises(RateLimitError) as caught:
            await client.videos.create(**FIELDS)
    assert caught.value.retry_after == 7
