"""``api_key=`` as a function that returns the present key."""

import asyncio

import pytest

from vidgen_async import (
    AuthenticationError,
    Client,
    ConfigurationError,
    NotSentError,
    RejectedError,
    Timeouts,
    TransportError,
    UncertainCreateError,
)
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import KeyFunctionError
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types import Delivery

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
OLD = "the-key-of-yesterday"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


class Keys:
    """Returns keys in order, the last one again and again."""

    def __init__(self, *keys: object) -> None:
        self.keys = list(keys)
        self.calls = 0

    def __call__(self) -> object:
        self.calls += 1
        key = self.keys.pop(0) if len(self.keys) > 1 else self.keys[0]
        if isinstance(key, Exception):
            raise key
        return key


def client_with(service, keys) -> Client:
    return Client(keys, base_url=service.base_url, poll_interval=0.05)


def received(service, op: str) -> list[str]:
    return [r.headers["Authorization"].removeprefix("Bearer ") for r in service.requests if r.op == op]


async def use_everything(client: Client) -> None:
    """Every endpoint, and the signed link of the video on another origin."""
    await client.models.list()
    await client.account.get()
    asset = await client.files.upload(PIXEL)
    receipt = await client.videos.create(model="vendorh3", prompt="a boat", duration=5, image_ids=[asset.image_id])
    await client.videos.wait(receipt)
    async with client.videos.stream(receipt) as video:
        async for _ in video.chunks():
            pass


async def test_the_function_is_called_once_for_all_requests(service):
    keys = Keys(service.api_key)
    async with client_with(service, keys) as client:
        assert keys.calls == 0
        await use_everything(client)
    assert keys.calls == 1
    assert {key for r in service.requests if (key := r.headers.get("Authorization"))} == {f"Bearer {service.api_key}"}


async def test_an_async_function_is_awaited_once_by_concurrent_requests(service):
    calls = 0

    async def ask() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        return f" Bearer {service.api_key}\n"

    async with client_with(service, ask) as client:
        await asyncio.gather(*(client.account.get() for _ in range(20)))
    assert calls == 1


@pytest.mark.parametrize("call", ["models.list", "account.get", "files.create", "videos.get", "videos.content"])
async def test_a_read_whose_key_was_refused_is_sent_once_more_with_the_new_key(call, service):
    async with Client(service.api_key, base_url=service.base_url, poll_interval=0.05) as other:
        task = await other.videos.wait(await other.videos.create(**FIELDS))
    keys = Keys(OLD, service.api_key)
    service.requests.clear()
    async with client_with(service, keys) as client:

        async def stream() -> None:
            async with client.videos.stream(task):
                pass

        await {
            "models.list": client.models.list,
            "account.get": client.account.get,
            "files.create": lambda: client.files.upload(PIXEL),
            "videos.get": lambda: client.videos.get(task),
            "videos.content": stream,
        }[call]()
    assert received(service, call) == [OLD, service.api_key]
    assert keys.calls == 2


async def test_a_poll_whose_key_was_refused_is_sent_once_more_with_the_new_key(service):
    keys = Keys(service.api_key, OLD, service.api_key)
    async with client_with(service, keys) as client:
        receipt = await client.videos.create(**FIELDS, validate=False)
        service.faults.add("videos.get", Fault.status(401))
        service.faults.add("videos.get", Fault.status(401))
        assert (await client.videos.wait(receipt)).status == "completed"
    assert client.watcher.stats.errors == {"AuthenticationError": 1}


async def test_the_same_key_again_is_not_sent_again(service):
    keys = Keys(OLD)
    async with client_with(service, keys) as client:
        with pytest.raises(AuthenticationError):
            await client.account.get()
    assert received(service, "account.get") == [OLD]
    assert keys.calls == 2


async def test_a_read_is_sent_once_more_at_most(service):
    keys = Keys(*(f"a-refused-key-{n}" for n in range(9)))
    async with client_with(service, keys) as client:
        with pytest.raises(AuthenticationError):
            await client.account.get()
    assert received(service, "account.get") == ["a-refused-key-0", "a-refused-key-1"]


async def test_a_refused_create_is_not_repeated_and_the_next_call_has_the_new_key(service):
    keys = Keys(OLD, service.api_key)
    async with client_with(service, keys) as client:
        with pytest.raises(RejectedError) as caught:
            await client.videos.create(**FIELDS, order_id="order-1", validate=False)
        assert isinstance(caught.value, AuthenticationError)
        assert received(service, "videos.create") == [OLD]
        assert keys.calls == 1

        await client.videos.create(**FIELDS, order_id="order-1", validate=False)
    assert received(service, "videos.create") == [OLD, service.api_key]
    assert len({create.idempotency_key for create in service.creates}) == 1


async def test_the_same_key_is_asked_for_once_when_many_requests_were_refused(service):
    keys = Keys(OLD, service.api_key)
    async with client_with(service, keys) as client:
        await asyncio.gather(*(client.account.get() for _ in range(20)))
    assert keys.calls == 2


async def test_what_the_function_raises_is_raised_and_nothing_is_sent(service):
    keys = Keys(LookupError("the vault is closed"), service.api_key)
    async with client_with(service, keys) as client:
        expected = r"^account\.get: the api_key function raised LookupError \(test_key_functions\.py, line \d+\)$"
        with pytest.raises(KeyFunctionError, match=expected) as caught:
            await client.account.get()
        assert isinstance(caught.value, TransportError)
        assert service.requests == []
        await client.account.get()


async def test_an_error_says_whether_the_request_was_sent_with_a_key_that_was_refused(service):
    keys = Keys(LookupError("the vault is closed"), OLD, LookupError("the vault is closed"))
    async with client_with(service, keys) as client:
        for expected in (Delivery.NOT_SENT, Delivery.ANSWERED):
            with pytest.raises(KeyFunctionError) as caught:
                await client.account.get()
            assert caught.value.delivery is expected
    assert received(service, "account.get") == [OLD]


@pytest.mark.parametrize("wrong", ["", "two words", None, 7, "your-api-key"])
async def test_what_the_function_returns_is_checked_and_not_shown(wrong, service):
    async with client_with(service, Keys(wrong)) as client:
        with pytest.raises(ConfigurationError, match="the key that api_key returned") as caught:
            await client.account.get()
        assert isinstance(caught.value, KeyFunctionError)
    assert "two words" not in str(caught.value)
    assert service.requests == []


async def test_no_error_shows_an_old_or_a_new_key(service):
    keys = Keys(OLD, service.api_key)
    async with client_with(service, keys) as client:
        await client.account.get()
        service.faults.add("account.get", Fault.status(400, {"error": f"{OLD} and {service.api_key}"}))
        with pytest.raises(Exception, match="the service says: … and …"):
            await client.account.get()
        service.faults.add("videos.create", Fault.status(400, {"error": f"{OLD} and {service.api_key}"}))
        with pytest.raises(RejectedError, match="… and …"):
            await client.videos.create(**FIELDS, validate=False)


async def test_a_view_may_have_a_function(client, service):
    anna = service.add_account(name="anna", balance=100)
    view = client.with_options(api_key=Keys(OLD, anna.api_key), account="anna")
    receipt = await view.videos.create(**FIELDS)  # the check of the request reads the catalog first
    await view.videos.wait(receipt)
    assert received(service, "models.list") == [OLD, anna.api_key]
    assert set(received(service, "videos.get")) == set(received(service, "videos.create")) == {anna.api_key}


def test_a_client_with_a_function_never_shows_a_key():
    client = Client(Keys("the-secret-key"), base_url="https://h/openapi/v1")
    assert "secret" not in f"{client!r}{client.__dict__}"


# -- a function that hangs or raises ---------------------------------------------------------------------------------


class HangingKeys(Keys):
    """Never returns instead of the key ``None``."""

    async def __call__(self) -> object:
        key = super().__call__()
        if key is None:
            await asyncio.get_running_loop().create_future()
        return key


OPTIONS = {"base_url": "https://h/openapi/v1"}


async def refuse_reads(request) -> BufferedResponse:
    """A service whose answer to a create does not name the task where it should, and which then refuses the key."""
    if request.method == "POST":
        return BufferedResponse(202, b'{"data": {"id": "task_abc12345"}}')
    return BufferedResponse(401, b'{"code": "INVALID_API_KEY"}')


@pytest.mark.parametrize(
    "keys",
    [
        Keys("the-first-key", OSError("the vault is closed")),
        Keys("the-first-key", None),
        HangingKeys("the-first", None),
    ],
    ids=["raises", "returns no key", "hangs"],
)
async def test_a_create_that_was_sent_is_uncertain_if_there_is_no_key_to_confirm_it(keys):
    transport, clock = FakeTransport(refuse_reads), VirtualClock()
    async with Client(keys, **OPTIONS, transport=transport, clock=clock, journal=MemoryJournal()) as client:
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**FIELDS, order_id="order-1", validate=False)
        assert keys.calls > 1
    assert [request.op for request in transport.requests].count("videos.create") == 1


@pytest.mark.parametrize("call", ["read", "create"])
async def test_a_function_that_does_not_return_in_time_fails_the_request_and_nothing_is_sent(call):
    transport, clock = FakeTransport(refuse_reads), VirtualClock()
    options = {**OPTIONS, "transport": transport, "clock": clock, "timeouts": Timeouts(connect=None, read=7)}
    async with Client(HangingKeys(None), **options) as client:
        expected = KeyFunctionError if call == "read" else NotSentError
        with pytest.raises(expected, match="the api_key function did not return a key within 7 s"):
            await (client.account.get() if call == "read" else client.videos.create(**FIELDS, validate=False))
    assert transport.requests == []


async def test_a_function_that_hangs_does_not_stop_the_polls_of_other_keys():
    async def complete(request) -> BufferedResponse:
        return BufferedResponse(200, b'{"id": "t-1", "status": "completed"}')

    clock = VirtualClock()
    options = {**OPTIONS, "transport": FakeTransport(complete), "clock": clock, "max_connections": 5}
    async with Client("the-key-of-the-shop", **options) as client:
        stuck = client.with_options(api_key=HangingKeys(None), account="anna")
        waits = [asyncio.ensure_future(stuck.videos.wait(f"t-{n}")) for n in range(2, 12)]
        await clock.sleep(1)
        assert (await client.videos.wait("t-1", timeout=60)).status == "completed"
        assert not any(wait.done() for wait in waits)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def test_a_wait_continues_after_the_function_failed(service):
    keys = Keys(*[OSError("the vault is closed"), LookupError("and empty")] * 3, service.api_key)
    async with Client(service.api_key, base_url=service.base_url) as client:
        receipt = await client.videos.create(**FIELDS, validate=False)
    async with client_with(service, keys) as client:
        assert (await client.videos.wait(receipt)).status == "completed"
    assert client.watcher.stats.errors == {"KeyFunctionError": 6}


# -- views with the same function ------------------------------------------------------------------------------------


class Vault:
    def __init__(self) -> None:
        self.calls = 0

    def read_key(self) -> str:
        self.calls += 1
        return "the-key-of-anna"


async def test_views_with_the_same_function_share_the_polls_of_a_task():
    async def run(request) -> BufferedResponse:
        return BufferedResponse(200, b'{"id": "t-1", "status": "running"}')

    vault, clock, transport = Vault(), VirtualClock(), FakeTransport(run)
    async with Client("the-key-of-the-shop", **OPTIONS, transport=transport, clock=clock) as client:
        views = [client.with_options(api_key=vault.read_key, account="anna") for _ in range(3)]
        views.append(views[0].with_options(api_key=vault.read_key, account="anna"))
        waits = [asyncio.ensure_future(view.videos.wait("t-1")) for view in views]
        await clock.sleep(30)
        assert len(transport.requests) == vault.calls == 1
        other = client.with_options(api_key=Vault().read_key, account="bert")
        waits.append(asyncio.ensure_future(other.videos.wait("t-1")))
        await clock.sleep(5)
        assert len(transport.requests) == 2
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def test_a_view_with_the_function_of_its_client_has_its_key(service):
    keys = Keys(service.api_key)
    async with client_with(service, keys) as client:
        await client.account.get()
        await client.with_options(api_key=keys, account="default").account.get()
    assert keys.calls == 1
