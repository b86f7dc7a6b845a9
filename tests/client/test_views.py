"""Views of a client: other keys, accounts, headers and time limits on the same connections, journal and scheduler."""

import asyncio
import gc
import weakref
from collections import Counter

import pytest

from vidgen_async import Client, ConfigurationError, NotFoundError, OrderConflictError, Pacing, Timeouts
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ClientStateError, ResponseTimeoutError, ServiceUnavailableError
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault
from vidgen_async.transports import BufferedResponse, FakeTransport

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}


def keys_of(service, op: str) -> Counter:
    """How many requests the service received with each key."""
    return Counter(request.headers["Authorization"] for request in service.requests if request.op == op)


@pytest.fixture
def anna(service):
    return service.add_account(name="anna", balance=1000)


@pytest.fixture
def bert(service):
    return service.add_account(name="bert", balance=1000)


async def test_each_customer_orders_with_their_own_key_and_polls_with_it(client, service, anna, bert):
    async def order(customer):
        view = client.with_options(api_key=customer.api_key, account=customer.name)
        return await view.videos.wait(await view.videos.create(**FIELDS, order_id="order-1"))

    tasks = await asyncio.gather(order(anna), order(bert))

    assert [task.status for task in tasks] == ["completed", "completed"]
    assert tasks[0].id != tasks[1].id
    assert keys_of(service, "videos.create") == {f"Bearer {who.api_key}": 1 for who in (anna, bert)}
    assert set(keys_of(service, "videos.get")) == {f"Bearer {who.api_key}" for who in (anna, bert)}
    assert len({create.idempotency_key for create in service.creates}) == 2


async def test_one_customer_never_sees_the_task_of_another_who_waits_for_it(client, service, anna, bert):
    first = client.with_options(api_key=anna.api_key, account="anna")
    second = client.with_options(api_key=bert.api_key, account="bert")
    receipt = await first.videos.create(**FIELDS)
    seen = []
    with pytest.raises(NotFoundError):
        await second.videos.get(receipt.task_id)
    stranger = asyncio.ensure_future(second.videos.wait(receipt.task_id, on_update=seen.append))
    assert (await first.videos.wait(receipt)).status == "completed"
    stranger.cancel()
    await asyncio.wait({stranger})
    assert seen == []


async def test_orders_belong_to_the_account_of_the_view(client, anna, bert):
    first = client.with_options(api_key=anna.api_key, account="anna")
    second = client.with_options(api_key=bert.api_key, account="bert")
    await first.videos.create(**FIELDS, order_id="order-1")

    assert await second.orders.find("order-1") is None
    assert await client.orders.find("order-1") is None
    assert [order.order_id for order in await first.orders.list()] == ["order-1"]
    await second.videos.create(**{**FIELDS, "prompt": "a glass boat"}, order_id="order-1")
    with pytest.raises(OrderConflictError):
        await first.videos.create(**{**FIELDS, "prompt": "a glass boat"}, order_id="order-1")


async def test_after_a_restart_each_view_continues_with_the_tasks_of_its_account(service, anna, bert):
    journal = MemoryJournal()
    options = {"base_url": service.base_url, "poll_interval": 0.05, "journal": journal}
    for customer in (anna, bert):
        async with Client(service.api_key, **options) as client:
            view = client.with_options(api_key=customer.api_key, account=customer.name)
            await view.videos.create(**FIELDS, order_id=f"order of {customer.name}")
    async with Client(service.api_key, **options) as client:
        assert [outcome async for outcome in client.videos.rewatch()] == []
        view = client.with_options(api_key=bert.api_key, account="bert")
        outcomes = [outcome async for outcome in view.videos.rewatch()]
    assert [(one.order_id, one.unwrap().status) for one in outcomes] == [("order of bert", "completed")]
    assert set(keys_of(service, "videos.get")) == {f"Bearer {bert.api_key}"}


async def test_the_submission_limit_of_one_account_does_not_stop_another(service, anna, bert):
    async with Client(service.api_key, base_url=service.base_url, pacing=Pacing(limit=1)) as client:
        first = client.with_options(api_key=anna.api_key, account="anna")
        second = client.with_options(api_key=bert.api_key, account="bert")
        await first.videos.create(**FIELDS, order_id="order-1")
        waiting = asyncio.ensure_future(first.videos.create(**FIELDS, order_id="order-2"))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await second.videos.create(**FIELDS, order_id="order-1")
        assert not waiting.done()
        waiting.cancel()
        await client.aclose(grace=0)
    assert len(service.creates) == 2


async def test_a_view_with_the_same_key_uses_the_cached_catalog_and_others_do_not(client, service, anna):
    await client.videos.check(**FIELDS)
    await client.with_options(timeouts=Timeouts(read=5), account="another").videos.check(**FIELDS)
    assert len(keys_of(service, "models.list")) == 1
    view = client.with_options(api_key=anna.api_key, account="anna")
    await view.videos.check(**FIELDS)
    await view.with_options(retry_for=1).videos.check(**FIELDS)
    assert keys_of(service, "models.list") == {f"Bearer {key}": 1 for key in (service.api_key, anna.api_key)}


@pytest.mark.parametrize(
    "call",
    [
        lambda client, view: client.account.get(),
        lambda client, view: view.account.get(),
        lambda client, view: view.videos.create(**FIELDS, validate=False),
    ],
    ids=["a read", "a read of a view", "a create of a view"],
)
async def test_once_the_service_has_answered_the_client_or_a_view_pages_of_others_end_no_wait(call):
    pages = [BufferedResponse(404, b"<html>Not Found</html>")] * 4

    async def answer(request):
        if request.op == "videos.get" and pages:
            return pages.pop()
        return BufferedResponse(200, b'{"id": "task-1", "status": "completed", "credits": 1}')

    options = {"base_url": "https://h/openapi/v1", "transport": FakeTransport(answer), "clock": VirtualClock()}
    async with Client("key", **options) as client:
        await call(client, client.with_options(api_key="another-key", account="anna"))
        assert (await client.videos.wait("task-1")).status == "completed"
    assert pages == []


def test_an_api_key_needs_an_account():
    client = Client("key", base_url="https://h/openapi/v1")
    with pytest.raises(ConfigurationError, match="needs account="):
        client.with_options(api_key="another-key")
    with pytest.raises(ConfigurationError, match="account"):
        client.with_options(account=" ")


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        *(("retry_for", wrong) for wrong in (float("nan"), float("inf"), -1, "60", True)),
        *(("poll_interval", wrong) for wrong in (float("nan"), float("inf"), 0, -1, "60")),
        *(("timeouts", wrong) for wrong in (0, 5, "5", {"read": 5})),
    ],
)
def test_wrong_options_are_refused(option, wrong):
    client = Client("key", base_url="https://h/openapi/v1")
    with pytest.raises(ConfigurationError, match=option):
        client.with_options(**{option: wrong})
    setting = "retry_reads_for" if option == "retry_for" else option
    with pytest.raises(ConfigurationError, match=setting):
        Client("key", base_url="https://h/openapi/v1", **{setting: wrong})


@pytest.mark.slow
async def test_very_many_views_leave_nothing_behind(client, service, anna):
    receipt = await client.videos.create(**FIELDS)
    await client.videos.wait(receipt)
    gc.collect()
    before = len(gc.get_objects())
    views = weakref.WeakSet()
    for number in range(500):
        view = client.with_options(
            api_key=anna.api_key, account=f"customer {number}", headers={"X-Tenant": str(number)}, retry_for=1
        )
        views.add(view)
        if number % 100 == 0:
            await view.account.get()
            await view.orders.list()
    del view
    gc.collect()

    assert len(views) == 0
    assert len(gc.get_objects()) - before < 500


async def test_closing_a_view_closes_nothing(client, service):
    async with client.with_options(poll_interval=0.2) as view:
        receipt = await view.videos.create(**FIELDS)
    await view.aclose()

    assert not view.is_closed
    assert not client.is_closed
    assert (await client.videos.wait(receipt)).status == "completed"
    await view.account.get()


async def test_closing_the_client_closes_its_views_and_waits_for_their_orders(service, anna):
    client = Client(service.api_key, base_url=service.base_url, journal=MemoryJournal())
    view = client.with_options(api_key=anna.api_key, account="anna")
    receipts = []
    service.faults.add("videos.create", Fault.stall(0.1))
    async with client:
        create = asyncio.ensure_future(view.videos.create(**FIELDS, on_receipt=receipts.append, validate=False))
        await asyncio.sleep(0)  # it is accepted from now on

    assert view.is_closed
    assert receipts == [await create]
    with pytest.raises(ClientStateError, match="closed"):
        await view.account.get()


async def test_a_view_of_a_view_changes_only_what_it_names(client, service, anna):
    first = client.with_options(api_key=anna.api_key, account="anna", headers={"X-Tenant": "one", "X-Team": "red"})
    second = first.with_options(headers={"x-tenant": "two"})
    await second.account.get()
    await first.account.get()
    await client.account.get()

    seen = [(r.headers["Authorization"], r.headers.get("X-Tenant"), r.headers.get("X-Team")) for r in service.requests]
    assert seen == [
        (f"Bearer {anna.api_key}", "two", "red"),
        (f"Bearer {anna.api_key}", "one", "red"),
        (f"Bearer {service.api_key}", None, None),
    ]


async def test_a_view_has_time_limits_of_its_own(client, service):
    impatient = client.with_options(timeouts=Timeouts(read=0.05), retry_for=0)
    service.faults.add("account.get", Fault.stall(0.5))
    service.faults.add("account.get", Fault.status(503))
    with pytest.raises(ResponseTimeoutError):
        await impatient.account.get()
    with pytest.raises(ServiceUnavailableError):
        await impatient.account.get()
    await client.account.get()


async def test_a_view_has_a_polling_interval_of_its_own(service):
    async with Client(service.api_key, base_url=service.base_url, poll_interval=60.0) as client:
        view = client.with_options(poll_interval=0.02)
        receipt = await view.videos.create(**FIELDS)
        service.faults.add("videos.get", Fault.status(503), times=3)
        async with asyncio.timeout(5):
            assert (await view.videos.wait(receipt)).status == "completed"
        assert client.watcher is view.watcher


def test_a_client_says_where_it_goes():
    client = Client("key", base_url="https://h:8443/openapi/v1/")
    assert str(client.base_url) == str(client.with_options(retry_for=1).base_url) == "https://h:8443/openapi/v1"
    assert not client.is_closed
