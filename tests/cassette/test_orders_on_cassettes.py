"""Replayed orders were never made: no journal stores one, and no order counts as sent that was not."""

import logging

import pytest

from tests.cassette.recording_harness import KEY
from vidgen_async import Client
from vidgen_async.cassette import load, recover
from vidgen_async.errors import CassetteBusyError, CassetteError, ConfigurationError
from vidgen_async.otel import TracedTransport
from vidgen_async.sandbox import Sandbox
from vidgen_async.transports import (
    AppendingTransport,
    DirectTransport,
    RecordingTransport,
    ReplayTransport,
    Response,
    Transport,
    WrappingTransport,
)
from vidgen_async.types.http import Request
from vidgen_async.types.orders import OrderState

VIDEO = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}


class Forgetful(WrappingTransport):
    """A transport of a user that passes everything on but the capabilities of a replay."""

    is_replay = False
    clock = None


class SendOnly(WrappingTransport):
    """A transport of a user that overrides ``send`` only."""

    async def send(self, request: Request) -> Response:
        return await self.inner.send(request)


class Played(WrappingTransport):
    """A transport that declares itself a replay."""

    is_replay = True


@pytest.fixture
async def service():
    async with Sandbox() as service:
        yield service


async def create(service: Sandbox, transport: Transport, order_id: str, **more) -> str:
    async with Client(service.api_key, base_url=service.base_url, transport=transport, **more) as client:
        return (await client.videos.create(**VIDEO, order_id=order_id, validate=False)).task_id


@pytest.mark.parametrize("wrap", [Forgetful, lambda inner: Forgetful(Forgetful(inner))], ids=["once", "twice"])
async def test_a_wrapped_replay_writes_no_order_to_a_durable_journal(service, tmp_path, wrap):
    path, journal = tmp_path / "one.json", f"sqlite:///{tmp_path}/orders.db"
    await create(service, RecordingTransport(DirectTransport(), path), "order-1")

    with pytest.raises(CassetteError, match="would count as sent"):
        await create(service, wrap(ReplayTransport(path)), "order-2", journal=journal)

    async with Client(service.api_key, base_url=service.base_url, journal=journal) as client:
        assert [order.state for order in await client.orders.list()] == [OrderState.QUEUED]
        receipt = await client.videos.create(**VIDEO, order_id="order-2", validate=False)
    assert receipt.task_id == service.creates[-1].task_id
    assert len(service.creates) == 2


async def test_a_recording_of_a_replay_is_a_replay(tmp_path):
    recording = RecordingTransport(Played(DirectTransport()), tmp_path / "two.json")
    journal = f"sqlite:///{tmp_path}/orders.db"
    with pytest.raises(ConfigurationError, match="must not write into a durable journal"):
        Client(KEY, base_url="https://service.test/openapi/v1", transport=recording, journal=journal)


@pytest.mark.parametrize("wrap", [SendOnly, WrappingTransport])
async def test_an_order_whose_create_could_not_be_recorded_is_not_uncertain(service, tmp_path, wrap):
    path = tmp_path / "one.json"
    first = RecordingTransport(DirectTransport(), path)
    async with Client(service.api_key, base_url=service.base_url, transport=first) as client:
        await client.account.get()
        second = RecordingTransport(wrap(DirectTransport()), path, auto_publish=False)
        async with Client(service.api_key, base_url=service.base_url, transport=second) as other:
            with pytest.raises(CassetteBusyError):
                await other.videos.create(**VIDEO, order_id="order-1", validate=False)
            assert [order.state for order in await other.orders.list()] == [OrderState.QUEUED]
    assert service.creates == []


@pytest.mark.filterwarnings("ignore:this client belongs to a sandbox")
async def test_appending_to_a_cassette_without_creates_stores_orders_in_the_journal(service, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{tmp_path}/orders.db")
    path = tmp_path / "one.json"
    recording = RecordingTransport(DirectTransport(), path)
    async with Client(service.api_key, base_url=service.base_url, transport=recording) as client:
        await client.account.get()

    # The first is never published, as if it had been killed.
    appending = [AppendingTransport(DirectTransport(), path, auto_publish=False) for _ in range(2)]
    made = []
    for transport in appending:
        made.append(await create(service, transport, "order-1"))
        transport.give_up()

    assert made[0] == made[1]
    assert len(service.creates) == 1


async def test_a_create_that_is_sent_beside_replayed_ones_is_logged_as_a_warning(service, tmp_path, caplog):
    path = tmp_path / "one.json"
    await create(service, RecordingTransport(DirectTransport(), path), "order-1")

    with caplog.at_level(logging.WARNING, logger="vidgen_async"):
        await create(service, AppendingTransport(DirectTransport(), path), "order-1")
        before = caplog.text
        appending = AppendingTransport(DirectTransport(), path)
        async with Client(service.api_key, base_url=service.base_url, transport=appending) as client:
            await client.videos.create(**{**VIDEO, "prompt": "another"}, order_id="order-2", validate=False)

    assert "a create is sent to the service" not in before
    assert "a create is sent to the service" in caplog.text
    assert len(service.creates) == 2


@pytest.mark.parametrize(
    "wrap",
    [
        lambda appending, path: appending,
        lambda appending, path: WrappingTransport(appending),
        lambda appending, path: TracedTransport(appending),
        RecordingTransport,
        lambda appending, path: TracedTransport(WrappingTransport(appending)),
    ],
    ids=["raw", "wrapped", "traced", "recorded", "traced and wrapped"],
)
async def test_a_journal_named_by_the_environment_is_refused_where_creates_are_replayed_and_sent(
    service, tmp_path, monkeypatch, wrap
):
    path = tmp_path / "one.json"
    await create(service, RecordingTransport(DirectTransport(), path), "order-1")
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{tmp_path}/orders.db")

    transport = wrap(AppendingTransport(DirectTransport(), path), tmp_path / "two.json")
    with pytest.raises(ConfigurationError, match="VIDGEN_JOURNAL"):
        Client(service.api_key, base_url=service.base_url, transport=transport)


async def test_a_recording_that_could_not_begin_publishes_nothing_over_the_old_cassette(service, tmp_path):
    path = tmp_path / "one.json"
    await create(service, RecordingTransport(DirectTransport(), path), "order-1")
    before = path.read_bytes()
    first = RecordingTransport(DirectTransport(), path)
    second = RecordingTransport(DirectTransport(), path)
    async with (
        Client(service.api_key, base_url=service.base_url, transport=first) as client,
        Client(service.api_key, base_url=service.base_url, transport=second) as other,
    ):
        await client.account.get()
        with pytest.raises(CassetteBusyError):
            await other.account.get()
        with pytest.raises(CassetteError, match="nothing was published"):
            second.publish()
        assert path.read_bytes() == before


async def test_an_appending_recording_that_was_published_already_is_not_appended_again(service, tmp_path):
    path = tmp_path / "one.json"
    await create(service, RecordingTransport(DirectTransport(), path), "order-1")
    appending = AppendingTransport(DirectTransport(), path, auto_publish=False)
    async with Client(service.api_key, base_url=service.base_url, transport=appending) as client:
        await client.account.get()
    left = appending.part.read_bytes()
    appending.publish()
    appending.part.write_bytes(left)

    assert recover(appending.part).document == load(path)
