"""The client: the six endpoints, where the key goes, and where the client may be used."""

import asyncio
import gc
import os
import pickle
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from yarl import URL

from vidgen_async import (
    AuthenticationError,
    Client,
    ConfigurationError,
    CreateError,
)
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ClientStateError
from vidgen_async.journal import MemoryJournal
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import BufferedResponse, DirectTransport, FakeTransport

FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
BASE = "https://h/openapi/v1"


@pytest.mark.rule("7 error 401", side="sdk")
async def test_a_wrong_key_is_an_authentication_error_of_the_service_key(service):
    async with Client("wrong-key", base_url=service.base_url) as client:
        with pytest.raises(AuthenticationError) as caught:
            await client.account.get()
    assert caught.value.source == "service key"
    assert "wrong-key" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.rule("1 bullet 3", "2.2 note balance", "4.2 response 200", "7 error 503", side="sdk")
async def test_reads_survive_a_bad_moment_of_the_service(client, service):
    service.faults.add("account.get", Fault.status(503))
    service.faults.add("account.get", Fault.close_after_body())
    service.faults.add("account.get", Fault.html(status=200))
    assert (await client.account.get()).balance == service.balance


# -- where a client may be used ----------------------------------------------------------------------------------------


def fake_client(**options) -> Client:
    async def handle(_):
        return BufferedResponse(200, b'{"credits": 1}')

    return Client("key", base_url=BASE, transport=FakeTransport(handle), **options)


async def test_a_closed_client_says_so_and_closing_twice_is_fine():
    client = fake_client()
    async with client:
        await client.account.get()
    await client.aclose()
    with pytest.raises(ClientStateError, match="closed"):
        await client.account.get()
    with pytest.raises(ClientStateError, match="closed"):
        await client.videos.create(**FIELDS)


def test_a_client_on_a_second_event_loop_says_so():
    client = fake_client()
    asyncio.run(client.account.get())
    with pytest.raises(ClientStateError, match=r"another event loop.*docs/how-to/without-an-event-loop\.md"):
        asyncio.run(client.account.get())


@pytest.mark.parametrize("call", ["watch", "stream", "as_completed"])
def test_a_client_without_an_event_loop_says_so_and_names_the_page(call):
    with pytest.raises(ClientStateError, match=r"no running event loop.*docs/how-to/without-an-event-loop\.md"):
        getattr(fake_client().videos, call)("task-1")
    assert Path("docs/how-to/without-an-event-loop.md").is_file()


def test_a_client_that_was_never_used_may_be_made_outside_of_a_loop():
    client = fake_client()

    async def use() -> float | None:
        async with client:
            return (await client.account.get()).balance

    assert asyncio.run(use()) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_client_in_a_forked_child_says_so():
    client = fake_client()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
        child = os.fork()
    if child == 0:
        try:
            asyncio.run(client.account.get())
        except ClientStateError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.slow
def test_a_client_that_is_dropped_unused_leaves_no_warning():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Client("key", base_url=BASE)
        gc.collect()
    assert seen == []


def test_a_client_cannot_be_pickled_and_says_why():
    with pytest.raises(TypeError, match="each process"):
        pickle.dumps(fake_client())


def test_a_client_shows_no_key():
    assert "key" not in repr(Client("key-never-shown", base_url=BASE))


@pytest.mark.rule("8 limit polling", side="sdk")
def test_an_interval_below_the_recommended_one_is_warned_about_except_on_this_machine():
    with pytest.warns(UserWarning, match="recommends 60 s"):
        fake_client(poll_interval=5)
    Client("key", base_url="http://127.0.0.1:1/openapi/v1", poll_interval=5)


@pytest.mark.parametrize("given", ["mysql://ann:hush@h/orders", "orders.db", "sqlite://"])
def test_a_journal_that_is_not_known_is_refused_without_its_password(given):
    with pytest.raises(ConfigurationError, match="sqlite:///") as caught:
        Client("key-1", base_url="https://h/openapi/v1", journal=given)
    assert "hush" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:this client belongs to a sandbox")
async def test_a_named_journal_outlives_the_client(service, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{tmp_path}/orders.db")
    receipts = []
    for _ in range(2):
        async with Client(service.api_key, base_url=service.base_url) as client:
            receipts.append(await client.videos.create(model="gen-2.0", prompt="p", order_id="o"))

    assert receipts[0] == receipts[1]
    assert len(service.creates) == 1


async def test_a_client_of_a_sandbox_in_this_process_warns_once_that_the_environment_names_its_journal(
    service, tmp_path, monkeypatch
):
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{tmp_path}/orders.db")

    for host in ("127.0.0.1", "localhost"):
        with pytest.warns(UserWarning, match="this client belongs to a sandbox of this process") as caught:
            Client(service.api_key, base_url=service.base_url.replace("127.0.0.1", host))
        (warning,) = caught
        assert f"in the journal SqliteJournal('{tmp_path}/orders.db'). " in str(warning.message)
        assert warning.filename == __file__


def test_that_warning_hides_the_password_of_a_database(service, monkeypatch):
    monkeypatch.setenv("VIDGEN_JOURNAL", "postgresql://ann:hush@host/db")
    with pytest.warns(UserWarning, match="in the journal PostgresJournal") as caught:
        Client(service.api_key, base_url=service.base_url)
    assert "postgresql://ann@host/db" in str(caught[0].message)
    assert "hush" not in str(caught[0].message)


async def test_no_other_client_warns_of_the_journal_of_the_environment(service, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{tmp_path}/orders.db")
    async with Sandbox() as closed:
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client(service.api_key, base_url=service.base_url, journal=f"sqlite:///{tmp_path}/own.db")
        Client(service.api_key, base_url=service.base_url, journal="memory:")
        Client(closed.api_key, base_url=closed.base_url)
        Client("key-1", base_url=f"https://service.test:{URL(service.base_url).port}/openapi/v1")
        monkeypatch.setenv("VIDGEN_JOURNAL", "memory:")
        Client(service.api_key, base_url=service.base_url)


@pytest.mark.parametrize(
    ("arguments", "environment", "has_warning"),
    [
        ({}, None, True),
        ({"journal": "memory:"}, None, False),
        ({"journal": MemoryJournal()}, None, False),
        ({}, "memory:", False),
        ({"base_url": "http://127.0.0.1:9/openapi/v1"}, None, False),
        ({"transport": FakeTransport(None)}, None, False),
        ({"transport": DirectTransport(proxy="http://127.0.0.1:9")}, None, True),
    ],
)
async def test_an_order_id_that_ends_with_the_process_is_warned_about_once(
    monkeypatch, arguments, environment, has_warning
):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # where nothing listens
    if environment:
        monkeypatch.setenv("VIDGEN_JOURNAL", environment)
    arguments = {"base_url": "https://service.invalid/openapi/v1", "clock": VirtualClock(), **arguments}
    request = {"model": "gen-2.0", "prompt": "p", "validate": False}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with Client("key", **arguments) as client:
            for view in (client, client.with_options(poll_interval=90), client):
                for named in ({}, {"order_id": "o"}):
                    with suppress(CreateError):
                        await view.videos.create(**request, **named)
    assert [each.filename for each in seen] == [__file__] * has_warning
    assert all("journal=" in str(each.message) for each in seen)


async def test_the_clock_of_the_transport_is_used_unless_another_is_given():
    clock = VirtualClock()
    transport = FakeTransport(None)
    transport.clock = clock
    assert Client("key", base_url=BASE, transport=transport)._view.shared.clock is clock
    assert fake_client(clock=clock)._view.shared.clock is clock


@pytest.mark.parametrize(("arguments", "grace"), [({}, 5.0), ({"grace": 30.0}, 30.0)])
async def test_closing_a_client_waits_for_on_update_no_longer_than_its_grace(arguments, grace):
    async def complete(_) -> BufferedResponse:
        return BufferedResponse(200, b'{"id": "task-1", "status": "completed"}')

    clock = VirtualClock()
    options = {"transport": FakeTransport(complete), "clock": clock, "on_update": lambda _: clock.sleep(1000.0)}
    client = Client("key", base_url=BASE, **options)
    await client.videos.wait("task-1")
    await client.aclose(**arguments)
    assert clock.now() == grace


async def test_the_environment_names_the_namespace(monkeypatch, service):
    keys = set()
    for word in ("one", "one", "two"):
        monkeypatch.setenv("VIDGEN_NAMESPACE", word)
        async with Client(service.api_key, base_url=service.base_url) as client:
            keys.add((await client.videos.create(**FIELDS, order_id="o")).idempotency_key)
    assert len(keys) == 2


# -- the public surface ------------------------------------------------------------------------------------------------
