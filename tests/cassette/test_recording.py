"""A recording transport: what it passes on, and what it records."""

import asyncio
import tracemalloc

import pytest

from tests.cassette.recording_harness import (
    FIELDS,
    Timed,
    ask,
    body_of,
    client_on,
    counting,
    create,
    in_turn,
    interactions_of,
    noise,
    post,
    read,
    record,
    says,
    video,
)
from tests.loop_holds import Passes
from vidgen_async.cassette import Cassette, recover
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import CassetteError, ConnectError, CreateError, JournalError
from vidgen_async.transports import (
    AppendingTransport,
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
    Transport,
)
from vidgen_async.types.http import CHUNK, Delivery, Phase, Request, make_headers

pytestmark = pytest.mark.slow


# -- bodies ------------------------------------------------------------------------------------------------------------


async def test_each_chunk_is_passed_on_before_the_next_one_is_received_and_none_is_held_in_memory(path):
    sent = 0

    async def chunks():
        nonlocal sent
        while sent < 300:
            sent += 1
            yield bytes(CHUNK)

    answer = BufferedResponse(200, chunks(), headers=make_headers({"Content-Type": "video/mp4"}))
    transport = RecordingTransport(in_turn(answer), Cassette(path, largest_blob=1))

    tracemalloc.start()
    received = 0
    async with await transport.send(ask()) as response:
        async for chunk in response.chunks():
            received += len(chunk)
            assert received == sent * CHUNK
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await transport.aclose()

    assert received == 300 * CHUNK
    assert peak < 1 << 20


async def test_an_interaction_with_an_outcome_is_not_held_in_memory(path):
    refused = ConnectError("refused", delivery=Delivery.NOT_SENT, phase=Phase.CONNECT)
    inner = in_turn(lambda: says({}), lambda: video(b"x" * 5000), refused, asyncio.CancelledError(), KeyError())
    transport = RecordingTransport(inner, path)
    await read(transport, ask())
    async with await transport.send(ask()):
        pass
    for error in (ConnectError, asyncio.CancelledError, KeyError):
        with pytest.raises(error):
            await transport.send(ask())

    assert transport._recorder.open == {}
    transport.give_up()


@pytest.mark.parametrize("wanted", [0, 1])
async def test_a_response_that_is_closed_early_can_be_replayed_as_far_as_it_was_read(path, wanted):
    data = noise(256_000)

    async def begin(transport) -> list[bytes]:
        async with await transport.send(ask()) as response:
            chunks = response.chunks()
            return [await anext(chunks) for _ in range(wanted)]

    recording = RecordingTransport(in_turn(lambda: video(data, size=1000)), path)
    assert await begin(recording) == [data[:1000]] * wanted
    await recording.aclose()
    replay = ReplayTransport(Cassette(path, exhausted="repeat-last"))
    assert await begin(replay) == [data[:1000]] * wanted
    replay.check()

    for error_of in (lambda: read(replay, ask()), lambda: asyncio.to_thread(replay.check)):
        with pytest.raises(CassetteError, match="only the beginning"):
            await error_of()


# -- other transports inside -------------------------------------------------------------------------------------------


class Plain(Transport):
    """A transport of a user, without a ``connect`` of its own."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    async def send(self, request: Request) -> BufferedResponse:
        self.asked += 1
        raise self.error

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("delivery", Delivery)
async def test_a_failure_of_a_transport_without_a_connect_of_its_own_is_the_same_in_a_replay(path, delivery):
    inner = Plain(ConnectError("it failed", delivery=delivery, phase=Phase.CONNECT, op="videos.create"))

    async def program(client) -> tuple[object, ...]:
        with pytest.raises(CreateError) as caught:
            await client.videos.create(**FIELDS, order_id="order-1", validate=False)
        return type(caught.value), [str(attempt.outcome) for attempt in caught.value.attempts]

    async with client_on(RecordingTransport(inner, path)) as client:
        live = await program(client)
    replay = ReplayTransport(path)
    async with client_on(replay) as client:
        played = await program(client)

    assert played == live
    assert inner.asked == 1
    replay.check()


# -- the two steps of a create -----------------------------------------------------------------------------------------

REFUSED = ConnectError("refused", delivery=Delivery.NOT_SENT, phase=Phase.DNS, op="videos.create")


async def refuse(_: Request) -> None:
    raise REFUSED


async def test_a_create_is_the_same_in_a_recording_and_in_a_replay(path):
    recording = RecordingTransport(in_turn(says({"answer": 1})), path)
    async with recording.connect(post({})) as connection:
        assert '"op":"videos.create"' in recording.part.read_text("utf-8").replace(" ", "")
        assert (connection.is_ready, connection.is_replay) == (True, False)
        async with await connection.send() as response:
            assert await response.read() == b'{"answer": 1}'
    await recording.aclose()
    replay = ReplayTransport(path)
    async with replay.connect(post({})) as connection:
        assert (connection.is_ready, connection.is_replay) == (True, True)
        async with await connection.send() as response:
            assert await response.read() == b'{"answer": 1}'
    replay.check()


@pytest.mark.parametrize("on_connect", [refuse, None], ids=["it is refused", "it is lost before it is used"])
async def test_a_failure_to_connect_is_recorded_and_raised_by_connect_in_a_replay(path, on_connect):
    recording = RecordingTransport(FakeTransport(body_of, on_connect=on_connect), path)
    with pytest.raises(ConnectError) as live:
        async with recording.connect(post({})):
            raise REFUSED
    await recording.aclose()
    replay = ReplayTransport(path)
    with pytest.raises(ConnectError) as played:
        async with replay.connect(post({})):
            raise AssertionError

    assert live.value is REFUSED
    assert (played.value.delivery, played.value.phase) == (Delivery.NOT_SENT, Phase.DNS)
    replay.check()


@pytest.mark.parametrize("ends_by", [None, JournalError(), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_a_create_that_is_not_sent_is_not_recorded(path, ends_by):
    inner = in_turn(says({"answer": 1}))
    transport = RecordingTransport(inner, path)

    async def leave(connecting: object) -> object:
        """What ends a block that does not send."""
        try:
            async with connecting:
                if ends_by is not None:
                    raise ends_by
        except BaseException as error:  # noqa: BLE001 - it is compared
            return error
        return None

    assert await leave(transport.connect(post({}))) is ends_by
    assert transport._recorder.open == {}
    assert await create(transport, post({})) == b'{"answer": 1}'
    await transport.aclose()
    replay = ReplayTransport(path)

    assert len(inner.requests) == len(interactions_of(path)) == 1
    assert await leave(replay.connect(post({}))) is ends_by
    assert await create(replay, post({})) == b'{"answer": 1}'
    assert replay.played == [2]


async def test_a_create_that_is_cancelled_before_it_was_recorded_is_proven_not_sent(path):
    recording = RecordingTransport(counting(), path)
    async with recording._recorder.lock:
        creating = asyncio.ensure_future(create(recording, post({})))
        await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await creating
    assert caught.value.__cause__.delivery is Delivery.NOT_SENT
    await recording.aclose()


async def test_a_connection_that_waits_when_the_transport_is_closed_is_not_recorded(path):
    recording = RecordingTransport(counting(), path, auto_publish=False)
    async with recording.connect(post({})) as connection:
        await recording.aclose()
        assert not connection.is_ready
    assert recover(recording.part).document.interactions == ()


async def test_a_response_that_is_left_with_the_block_of_its_connection_is_recorded_as_closed(path):
    recording = RecordingTransport(in_turn(video(noise(5000))), path)
    async with recording.connect(post({})) as connection:
        await connection.send()
    await recording.aclose()

    assert interactions_of(path)[0]["response"]["body"]["end"] == "closed early"


@pytest.mark.parametrize("way", [read, create])
async def test_a_create_may_be_sent_in_one_step(path, way):
    await record(path, counting(), [post({})])

    assert await way(ReplayTransport(path), post({})) == b'{"answer": 1}'
    assert await way(AppendingTransport(in_turn(), path), post({})) == b'{"answer": 1}'


async def test_an_appending_transport_says_of_each_create_whether_it_is_replayed(path):
    await record(path, counting(), [post({"a": 1})])
    appending = AppendingTransport(in_turn(says({"answer": 2})), path)
    async with appending.connect(post({"a": 1})) as connection:
        assert connection.is_replay
        await connection.send()
    async with appending.connect(post({"a": 2})) as connection:
        assert not connection.is_replay
        async with await connection.send() as response:
            await response.read()
    await appending.aclose()

    assert len(interactions_of(path)) == 2


# -- long responses --------------------------------------------------------------------------------------------------


def long_catalog(models: int = 3000) -> BufferedResponse:
    """Each entry takes a part of a millisecond to redact."""
    return says({"models": [{"code": f"model-{n}", "name": f"a model with number {n}"} for n in range(models)]})


async def test_a_long_response_is_redacted_without_holding_the_event_loop(path):
    long_text = "a boat sails at dawn " * 2500
    transport = RecordingTransport(in_turn(long_catalog(5_000), says({})), path, auto_publish=False)
    passes = Passes()
    async with passes.measured():
        await read(transport, ask("/models"))
        await read(transport, post({"prompt": [long_text[n:] for n in range(2)]}))
    await transport.aclose()

    assert passes.longest < 0.05
    assert len(recover(transport.part).document.interactions) == 2


async def test_a_late_secret_is_removed_without_holding_the_event_loop(path):
    secret = "abcdefgh-12345678"
    answers = (long_catalog(5_000), says({"message": secret}), says({"token": secret}))
    transport = RecordingTransport(in_turn(*answers), path, auto_publish=False)
    await read(transport, ask("/models"))
    await read(transport, ask("/account"))
    passes = Passes()
    async with passes.measured():
        await read(transport, ask("/account"))
    await transport.aclose()

    assert passes.longest < 0.05
    assert secret not in transport.part.read_text()


async def test_virtual_time_does_not_advance_while_a_response_is_redacted(path):
    clock = VirtualClock()
    transport = RecordingTransport(Timed(in_turn(long_catalog()), clock), path, auto_publish=False)
    sleeper = asyncio.create_task(clock.sleep(3600))
    await read(transport, ask("/models"))

    assert clock.now() == 0
    sleeper.cancel()
    await transport.aclose()


async def test_requests_beside_a_long_response_are_recorded_in_their_order(path):
    async def handle(request):
        return long_catalog() if request.op == "models.list" else says({"path": request.url.path})

    transport = RecordingTransport(FakeTransport(handle), path)
    requests = [ask("/models"), *(ask(f"/videos/{n}") for n in range(5)), ask("/models"), ask("/account")]
    bodies = await asyncio.gather(*(read(transport, request) for request in requests))
    await transport.aclose()

    made = interactions_of(path)
    assert [one["request"]["url"] for one in made] == [str(request.url) for request in requests]
    replay = ReplayTransport(path)
    assert [await read(replay, request) for request in requests] == bodies


@pytest.mark.parametrize("passes", [1, 2, 5, 20])
async def test_a_reader_that_is_cancelled_while_its_response_is_recorded_loses_nothing(path, passes):
    transport = RecordingTransport(in_turn(long_catalog(), says({})), path)
    reading = asyncio.create_task(read(transport, ask("/models")))
    for _ in range(passes):
        await asyncio.sleep(0)
    other = asyncio.create_task(read(transport, ask("/account")))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, other, return_exceptions=True)
    await transport.aclose()

    made = interactions_of(path)
    assert {"response", "error"} & made[0].keys()
    assert [one["op"] for one in made] == ["models.list", "account.get"]
