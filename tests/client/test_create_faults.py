"""Whatever the network and the service do to a create: the service counts at most one POST, and the caller is told
what is known. The oracle is the service's own list of what it received."""

import pytest

from vidgen_async import (
    Client,
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
    "503": Fault.status(503, made=True),
    "2xx without an id": Fault.without_id(made=True),
    "not HTTP": Fault.not_http(),
    "silence, task made": Fault.stall(made=True),
    "silence, no task": Fault.stall(made=False),
    "redirected": Fault.redirect("https://elsewhere.invalid/", status=307),
    "redirected as GET": Fault.redirect("https://elsewhere.invalid/", status=303),
    "502 from a gateway": Fault.status(502, body="<html>Bad Gateway</html>", content_type="text/html"),
}


def quick(service) -> Client:
    return Client(service.api_key, base_url=service.base_url, timeouts=Timeouts(connect=2, read=2, create=0.5))


@pytest.mark.slow
@pytest.mark.rule("4.4 note no-resend", "4.4 response 503", "7 error 503", "7 error 502 504", side="sdk")
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


@pytest.mark.rule("4.4 response 400", "7 error 400 other", side="sdk")
@pytest.mark.parametrize("status", [400, 407, 429])
async def test_a_refusal_is_rejected_and_one_post(service, status):
    service.faults.add("videos.create", Fault.status(status, headers={"Retry-After": "0"}))
    async with quick(service) as client:
        with pytest.raises(RejectedError):
            await client.videos.create(**FIELDS, order_id="o")
        assert len(service.creates) == 1

        receipt = await client.videos.create(**FIELDS, order_id="o")
    assert receipt.task_id == service.creates[1].task_id
    assert service.creates[0].idempotency_key == service.creates[1].idempotency_key


@pytest.mark.rule("4.4 response 429", "7 error 429", side="sdk")
async def test_the_services_own_submission_limit_is_a_rate_limit_error(service):
    service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "7"}))
    async with quick(service) as client:
        with pytest.raises(RateLimitError) as caught:
            await client.videos.create(**FIELDS)
    assert caught.value.retry_after == 7
