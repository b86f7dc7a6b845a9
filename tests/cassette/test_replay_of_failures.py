"""Recorded failures are replayed with the same class and the same evidence."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path

import pytest
from yarl import URL

from tests.cassette.recording_harness import (
    FIELDS,
    NO_BLOB,
    Timed,
    ask,
    cassette_of,
    client_on,
    in_turn,
    interactions_of,
    noise,
    post,
    read,
    says,
    task,
    twice,
    video,
)
from tests.transports import raw_service as raw
from tests.transports.raw_service import dead_port, raw_service
from vidgen_async import Client
from vidgen_async import errors as all_errors
from vidgen_async.cassette import Cassette, load
from vidgen_async.errors import (
    BodyError,
    CassetteError,
    ConnectError,
    ConnectionLostError,
    CreateError,
    NotSentError,
    ProtocolError,
    RejectedError,
    ResponseTimeoutError,
    TransportError,
    UncertainCreateError,
    WaitTimeoutError,
)
from vidgen_async.transports import (
    BufferedResponse,
    DirectTransport,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
    Transport,
)
from vidgen_async.types.http import CHUNK, Delivery, Phase, Request, Timeouts
from vidgen_async.types.orders import OrderState

SHORT = Timeouts(connect=0.5, read=0.08)


# -- one send ----------------------------------------------------------------------------------------------------------


async def evidence(transport: Transport, request: Request) -> tuple[object, ...]:
    """The error of a send, with its evidence."""
    with pytest.raises(TransportError) as caught:
        async with await transport.send(request) as response:
            await response.read()
    error = caught.value
    return type(error), error.delivery, error.phase, error.op, getattr(error, "received", None), error.message


def half(length: int, sent: bytes) -> raw.Behaviour:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: {length}\r\n\r\n".encode()
    return raw.responds(head + sent)


LIVE_FAILURES = {
    "refused": (None, ConnectError),
    "closed before a word": (raw.closes_at_once, ConnectionLostError),
    "closed after the request": (raw.reads_and_closes, ConnectionLostError),
    "reset after the request": (raw.reads_and_resets, ConnectionLostError),
    "silent": (raw.hangs, ResponseTimeoutError),
    "no HTTP": (raw.responds(b"SSH-2.0-OpenSSH\r\n\r\n"), ProtocolError),
    "half a head": (raw.responds(b"HTTP/1.1 200 OK\r\nContent-Le"), TransportError),
    "a body that breaks off": (half(10, b"half"), BodyError),
    "a body that breaks off at once": (half(10, b""), BodyError),
    "a long body that breaks off": (half(1 << 20, noise(256_000)), BodyError),
    "a body that times out": (
        raw.responds_and_hangs(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), BodyError
    ),
}  # fmt: skip


@pytest.mark.parametrize(("behaviour", "kind"), LIVE_FAILURES.values(), ids=LIVE_FAILURES)
async def test_a_network_failure_is_replayed_with_its_class_and_its_evidence(path, behaviour, kind):
    async with raw_service(behaviour or raw.answers) as service:
        if behaviour is None:
            service.stop_listening()
        url = service.url() if behaviour else URL(f"http://127.0.0.1:{dead_port()}/x")
        request = Request(op="videos.get", method="POST", url=url, timeouts=SHORT)
        recording = RecordingTransport(DirectTransport(), path)
        live = await evidence(recording, request)
        await recording.aclose()
    replay = ReplayTransport(path)

    assert issubclass(live[0], kind)
    assert await evidence(replay, request) == live
    replay.check()


KINDS = [
    kind
    for kind in vars(all_errors).values()
    if isinstance(kind, type) and issubclass(kind, TransportError) and not issubclass(kind, BodyError)
]


async def test_every_class_of_error_is_replayed_with_every_delivery(path):
    rows = list(product(KINDS, Delivery))
    failures = [kind("it went wrong", delivery=delivery, phase=Phase.WAIT, op="videos.get") for kind, delivery in rows]
    requests = [ask(f"/videos/{at}") for at in range(len(rows))]
    recording = RecordingTransport(in_turn(*failures), path)
    for request in requests:
        with pytest.raises(TransportError):
            await recording.send(request)
    await recording.aclose()
    replay, played = ReplayTransport(path), []
    for request in requests:
        with pytest.raises(TransportError) as caught:
            await replay.send(request)
        played.append((type(caught.value), caught.value.message, caught.value.delivery, caught.value.phase))

    assert played == [(kind, "it went wrong", delivery, Phase.WAIT) for kind, delivery in rows]


async def test_a_subclass_of_a_user_is_replayed_as_the_class_of_the_sdk(path):
    class TunnelError(ConnectError):
        pass

    recording = RecordingTransport(in_turn(TunnelError("closed", delivery=Delivery.NOT_SENT)), path)
    with pytest.raises(TunnelError):
        await recording.send(ask())
    await recording.aclose()

    with pytest.raises(ConnectError) as caught:
        await ReplayTransport(path).send(ask())
    assert type(caught.value) is ConnectError


@pytest.mark.parametrize("length", [4, 100_000, 2 * CHUNK + 100, 400_000])
async def test_a_truncated_body_is_replayed_up_to_its_last_byte(path, length):
    data = noise(400_000)

    async def pieces():
        for start in range(0, length, 10_000):
            yield data[start : min(start + 10_000, length)]
        message = "the connection was lost"
        raise BodyError(message, op="videos.get", received=length)

    cassette = Cassette(path, largest_blob=200_000)
    recording = RecordingTransport(FakeTransport(lambda _: _answer(BufferedResponse(200, pieces()))), cassette)

    async def received(transport: Transport) -> tuple[int, BodyError]:
        count = 0
        async with await transport.send(ask()) as response:
            try:
                async for piece in response.chunks():
                    count += len(piece)
            except BodyError as error:
                return count, error
        raise AssertionError

    live = await received(recording)
    await recording.aclose()
    played = await received(ReplayTransport(cassette))

    assert played[0] == live[0] == length
    assert (played[1].received, played[1].delivery, played[1].message) == (length, Delivery.ANSWERED, live[1].message)


async def _answer(response: BufferedResponse) -> BufferedResponse:
    return response


async def test_a_cassette_with_failures_is_valid_and_readable(path):
    recording = RecordingTransport(in_turn(ConnectError("no", delivery=Delivery.NOT_SENT, phase=Phase.DNS)), path)
    with pytest.raises(ConnectError):
        await recording.send(ask())
    await recording.aclose()

    [one] = load(path).interactions
    assert str(one).endswith("(videos.get): ConnectError")
    assert interactions_of(path)[0]["error"] == {
        "type": "ConnectError", "delivery": "not_sent", "phase": "dns", "message": "no",
    }  # fmt: skip
    assert "response" not in interactions_of(path)[0]


# -- creates -----------------------------------------------------------------------------------------------------------


async def create(client: Client) -> tuple[object, ...]:
    """The outcome of a create, with its order in the journal."""
    try:
        receipt = await client.videos.create(**FIELDS, order_id="order-1", validate=False)
    except CreateError as error:
        order = await client.orders.get("order-1")
        attempts = [
            (str(one.outcome), one.evidence and (one.evidence.status, one.evidence.cause, one.evidence.answered))
            for one in error.attempts
        ]
        return type(error), attempts, order.state, len(order.attempts)
    return receipt.task_id, receipt.order_id


def status(code: int, body: bytes = b'{"error": {"code": "NO", "message": "no"}}') -> raw.Behaviour:
    head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return raw.responds(head.encode() + body)


CREATES = {
    "accepted": (status(202, b'{"id": "task-1", "status": "queued"}'), None),
    "accepted without an id": (status(202, b"{}"), UncertainCreateError),
    "accepted, but cut": (half(100, b'{"id": "task-1'), UncertainCreateError),
    "refused for want of credits": (status(402), RejectedError),
    "refused for its rate": (status(429), RejectedError),
    "a fault of the gateway": (status(502, b"<html>Bad Gateway</html>"), UncertainCreateError),
    "unavailable": (status(503), UncertainCreateError),
    "hung up on before a word": (raw.closes_at_once, (NotSentError, UncertainCreateError)),
    "hung up on after the request": (raw.reads_and_closes, UncertainCreateError),
    "reset after the request": (raw.reads_and_resets, UncertainCreateError),
    "never answered": (raw.hangs, UncertainCreateError),
    "answered in no HTTP": (raw.responds(b"220 smtp ready\r\n"), UncertainCreateError),
    "not connected": (None, NotSentError),
}


@pytest.mark.parametrize(("behaviour", "kind"), CREATES.values(), ids=CREATES)
async def test_a_create_has_the_same_outcome_in_a_replay(path, behaviour, kind):
    async with raw_service(behaviour or raw.answers) as service:
        if behaviour is None:
            service.stop_listening()
        live, played = await twice(
            path, _Guarded(DirectTransport()), create, base=service.url("/openapi/v1"), timeouts=SHORT
        )

    assert kind is None or issubclass(live[0], kind)
    if behaviour is raw.closes_at_once:  # a connection that is lost while it waits cannot be connected in a replay
        played, live = played[0], live[0]
    assert played == live


class _Guarded(Timed):
    """Real sockets, with a virtual clock that stops while they work."""

    async def send(self, request: Request):
        with self.clock.hold():
            return await self.inner.send(request)

    @contextlib.asynccontextmanager
    async def connect(self, request: Request):
        with self.clock.hold():
            async with self.inner.connect(request) as connection:
                yield connection


async def test_a_create_exceeds_the_time_limit_of_its_caller_in_virtual_time(path):
    async def handle(_: Request) -> BufferedResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def program(client: Client) -> tuple[object, ...]:
        began = client._view.shared.clock.now()
        ended = await create(client)
        return *ended, client._view.shared.clock.now() - began

    live, played = await twice(path, Timed(FakeTransport(handle)), program, timeouts=Timeouts(create=90))

    assert live[0] is UncertainCreateError
    assert live[2] is OrderState.UNCERTAIN
    assert live[-1] == 90
    assert played == live
    assert interactions_of(path)[0]["error"]["type"] == "Cancelled"


async def test_a_create_whose_response_never_ended_exceeds_its_time_limit_in_virtual_time(path):
    async def pieces():
        yield b'{"id": '
        await asyncio.Event().wait()

    inner = Timed(FakeTransport(lambda _: _answer(BufferedResponse(202, pieces()))))

    async def program(client: Client) -> tuple[object, ...]:
        return *(await create(client)), client._view.shared.clock.now()

    live, played = await twice(path, inner, program, timeouts=Timeouts(create=90))

    assert (live[0], live[-1]) == (UncertainCreateError, 90)
    assert played == live


async def test_a_create_cancelled_before_it_was_connected_is_not_sent_in_a_replay_either(path):
    async def never(_: Request) -> None:
        await asyncio.Event().wait()

    inner = Timed(FakeTransport(lambda _: _answer(says({})), on_connect=never))

    live, played = await twice(path, inner, create, timeouts=Timeouts(create=30))

    assert live[0] is NotSentError
    assert played == live


async def test_an_uncertain_order_is_resent_in_a_replay_as_in_the_recording(path):
    inner = in_turn(
        ConnectionLostError("lost", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op="videos.create"),
        says({"id": "task-2", "status": "queued"}, 202),
    )

    async def program(client: Client) -> tuple[object, ...]:
        first = await create(client)
        receipt = await client.orders.resend("order-1", expect_attempt=1, reason="looked")
        return *first, receipt.task_id, len((await client.orders.get("order-1")).attempts)

    live, played = await twice(path, inner, program)

    assert live[0] is UncertainCreateError
    assert live[-2:] == ("task-2", 2)
    assert played == live


# -- reads -------------------------------------------------------------------------------------------------------------


async def test_reads_are_retried_in_a_replay_with_the_same_result(path):
    lost = ConnectionLostError("lost", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op="videos.get")
    inner = Timed(in_turn(lost, says({}, 503), says(b"<html>", 502), task("completed")))

    async def program(client: Client) -> tuple[str, bool]:
        found = await client.videos.get("task-1")
        return found.status, 1.0 < client._view.shared.clock.now() < 20

    assert await twice(path, inner, program) == (("completed", True), ("completed", True))
    assert len(interactions_of(path)) == 4


async def test_a_wait_survives_the_same_failures_in_a_replay(path):
    lost = ConnectionLostError("lost", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op="videos.get")
    inner = Timed(in_turn(task("queued"), lost, says({}, 500), says({}, 401), task("running"), task("completed")))

    async def program(client: Client) -> str:
        return (await client.videos.wait("task-1")).status

    assert await twice(path, inner, program) == ("completed", "completed")


Limit = Callable[[Client, Awaitable[object]], Awaitable[object]]


async def _by_timeout(_: Client, work: Awaitable[object]) -> object:
    async with asyncio.timeout(0.02):
        return await work


async def _by_wait_for(_: Client, work: Awaitable[object]) -> object:
    return await asyncio.wait_for(work, 0.02)


async def _by_a_cancel(client: Client, work: Awaitable[object]) -> object:
    reading = asyncio.ensure_future(work)
    await client._view.shared.clock.sleep(5)
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    raise TimeoutError


@pytest.mark.parametrize("limit", [_by_timeout, _by_wait_for, _by_a_cancel])
async def test_a_read_whose_caller_was_cancelled_waits_for_its_cancellation(path, limit):
    left = [asyncio.Event().wait, lambda: _answer(task("completed"))]
    inner = Timed(FakeTransport(lambda _: left.pop(0)()))

    async def program(client: Client) -> tuple[object, ...]:
        with pytest.raises(TimeoutError):
            await limit(client, client.videos.get("task-1"))
        later = client._view.shared.clock.now()
        return (await client.videos.get("task-1")).status, later

    live, played = await twice(path, inner, program)

    assert played == live
    assert live[0] == "completed"
    assert played[1] <= 5


async def test_a_wait_that_ended_during_a_poll_ends_there_in_a_replay(path):
    left = [lambda: _answer(task("running")), asyncio.Event().wait]
    inner = Timed(FakeTransport(lambda _: left.pop(0)()))

    async def program(client: Client) -> tuple[str, float]:
        with pytest.raises(WaitTimeoutError) as caught:
            await client.videos.wait("task-1", timeout=100)
        return caught.value.task.status, client._view.shared.clock.now()

    live, played = await twice(path, inner, program)

    assert live == played == ("running", 100)


async def test_waiting_for_a_recorded_cancellation_ends(path, monkeypatch):
    recording = RecordingTransport(FakeTransport(lambda _: asyncio.Event().wait()), path)
    sending = asyncio.ensure_future(recording.send(ask()))
    await asyncio.sleep(0.001)
    sending.cancel()
    await asyncio.wait([sending])
    await recording.aclose()
    monkeypatch.setattr("vidgen_async.cassette.replay._CANCEL_TIMEOUT", 0.01)
    replay = ReplayTransport(path)

    with pytest.raises(CassetteError, match="is not cancelled now"):
        await replay.send(ask())

    with pytest.raises(CassetteError, match="is not cancelled now"):
        replay.check()


async def test_a_body_whose_reader_was_cancelled_waits_for_its_cancellation(path):
    async def pieces():
        yield b"x" * 1000
        await asyncio.Event().wait()

    async def program(transport: Transport) -> int:
        response = await transport.send(ask())
        received = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                async for piece in response.chunks():
                    received += len(piece)
        await response.aclose()
        return received

    recording = RecordingTransport(in_turn(BufferedResponse(200, pieces())), path)
    assert await program(recording) == 1000
    await recording.aclose()
    replay = ReplayTransport(path)

    assert await program(replay) == 1000
    replay.check()


async def test_a_cancelled_download_leaves_no_file_in_a_replay_either(path, tmp_path):
    folder = tmp_path / "videos"
    folder.mkdir()
    data = b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41" + bytes(100_000)

    async def pieces():
        yield data
        await asyncio.Event().wait()

    async def program(client: Client) -> list[Path]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.videos.download("task-1", folder / "x.mp4")
        return list(folder.iterdir())

    answer = video(data)
    inner = in_turn(lambda: BufferedResponse(200, pieces(), headers=answer.headers))

    assert await twice(path, inner, program) == ([], [])


async def test_the_failure_of_an_upload_is_replayed_and_the_upload_is_retried(path):
    lost = ConnectionLostError("lost", delivery=Delivery.MAYBE_SENT, phase=Phase.SEND, op="files.create")
    inner = Timed(in_turn(lost, says({"id": "asset-1", "image_id": "image-1", "url": "/x"})))

    async def program(client: Client) -> str:
        return (await client.files.upload(b"\x89PNG\r\n\x1a\n" + bytes(200_000))).image_id

    assert await twice(path, inner, program) == ("image-1", "image-1")


async def test_equal_creates_that_fail_and_succeed_keep_their_order(path):
    lost = ConnectionLostError("lost", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op="videos.create")
    recording = RecordingTransport(in_turn(lost, says({"answer": 2})), path)
    with pytest.raises(ConnectionLostError):
        await recording.send(post({"a": 1}))
    await read(recording, post({"a": 1}))
    await recording.aclose()
    replay = ReplayTransport(path)

    with pytest.raises(ConnectionLostError):
        await replay.send(post({"a": 1}))
    assert await read(replay, post({"a": 1})) == b'{"answer": 2}'


async def test_a_create_without_a_connection_has_as_many_attempts_in_a_replay(path):
    tries = []

    async def refuse(request: Request) -> None:
        tries.append(request)
        message = "refused"
        raise ConnectError(message, delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op=request.op)

    async def program(client: Client) -> tuple[object, ...]:
        return *(await create(client)), client._view.shared.clock.now() > 0

    inner = Timed(FakeTransport(lambda _: _answer(says({})), on_connect=refuse))
    live, played = await twice(path, inner, program)

    assert live[0] is NotSentError
    assert played == live
    assert len(tries) == len(interactions_of(path)) > 1


@pytest.mark.parametrize(
    "damage", [{"bytes": 10, "end": "closed early"}, {"blob": NO_BLOB, "bytes": 10, "stored": "all"}]
)
async def test_a_create_whose_response_cannot_be_replayed_raises_an_error_of_the_cassette(path, damage):
    inner = in_turn(says({"id": "task-1", "status": "queued"}, 202))
    async with client_on(RecordingTransport(inner, path)) as client:
        await create(client)
    data = cassette_of(path)
    data["interactions"][0]["response"]["body"] = damage
    path.write_text(json.dumps(data), "utf-8")

    async with client_on(ReplayTransport(path)) as client:
        with pytest.raises(CassetteError) as caught:
            await create(client)

    assert not isinstance(caught.value, CreateError)
