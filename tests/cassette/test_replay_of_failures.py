"""Recorded failures are replayed with the same class and the same evidence."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from email.utils import format_datetime
from itertools import product

import pytest
from yarl import URL

from tests.cassette.recording_harness import (
    FIELDS,
    NO_BLOB,
    Timed,
    Watched,
    ask,
    cassette_of,
    client_on,
    hang,
    in_turn,
    lost,
    noise,
    record_a_cancelled_send,
    says,
    task,
    twice,
)
from tests.transports import raw_service as raw
from tests.transports.raw_service import dead_port, raw_service
from vidgen_async import Client
from vidgen_async import errors as all_errors
from vidgen_async.clock import VirtualClock
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
from vidgen_async.types.http import Delivery, Phase, Request, Timeouts
from vidgen_async.types.limits import Pacing

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
        return type(error), attempts, str(order.state), len(order.attempts)
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


# -- other programs: the same results, at the same virtual times -------------------------------------------------------


async def endless() -> AsyncIterator[bytes]:
    yield b'{"id": '
    await hang()


async def refuse(request: Request) -> None:
    raise ConnectError("refused", delivery=Delivery.NOT_SENT, phase=Phase.CONNECT, op=request.op)


def slow(*answers: tuple[float, object]) -> Transport:
    """Returns each answer after its time in seconds."""
    clock, left = VirtualClock(), list(answers)

    async def handle(_: Request) -> BufferedResponse:
        seconds, answer = left.pop(0)
        await clock.sleep(seconds)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Timed(FakeTransport(handle), clock)


def by_polls(**polls: int) -> Transport:
    """Tasks that are completed after so many polls."""

    async def handle(request: Request) -> BufferedResponse:
        name = request.url.path.rpartition("/")[2]
        polls[name] -= 1
        return task("running" if polls[name] else "completed", name)

    return Timed(FakeTransport(handle))


async def resend(client: Client) -> tuple[object, ...]:
    first = await create(client)
    receipt = await client.orders.resend("order-1", expect_attempt=1, reason="looked")
    return first[0], receipt.task_id, len((await client.orders.get("order-1")).attempts)


async def by_prompt(request: Request) -> BufferedResponse:
    return says({"id": f"task-{json.loads(request.body.data)['prompt']}", "status": "queued"}, 202)


async def create_25(client: Client) -> list[str]:
    creates = (
        client.videos.create(**FIELDS | {"prompt": str(n)}, order_id=f"order-{n}", validate=False) for n in range(25)
    )
    return [receipt.task_id for receipt in await asyncio.gather(*creates)]


async def get(client: Client) -> str:
    return (await client.videos.get("task-1")).status


async def get_in_vain(client: Client) -> str:
    with pytest.raises(ResponseTimeoutError) as caught:
        await client.videos.get("task-1")
    return caught.value.message


async def get_three(client: Client) -> list[str]:
    ended: list[str] = []

    async def get_one(name: str) -> None:
        ended.append((await client.videos.get(name)).id)

    await asyncio.gather(*map(get_one, "abc"))
    return ended


async def wait(client: Client) -> str:
    return (await client.videos.wait("task-1")).status


async def wait_100(client: Client) -> str:
    with pytest.raises(WaitTimeoutError) as caught:
        await client.videos.wait("task-1", timeout=100)
    return caught.value.task.status


async def wait_for_all(client: Client) -> list[str]:
    return [outcome.task_id async for outcome in client.videos.as_completed(["c", "a", "b"])]


ACCEPTED = {"id": "task-2", "status": "queued"}
SILENT = ResponseTimeoutError("it was silent", delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT, op="videos.get")
LATER = format_datetime(VirtualClock().wall() + timedelta(seconds=30), usegmt=True)

#: The transport, the program with its options, its result, and the seconds that it takes, if they are not random.
PROGRAMS = {
    "a create that takes too long": (
        lambda: Timed(in_turn(hang)), create, {"timeouts": Timeouts(create=90)}, UncertainCreateError, 90
    ),
    "a response to a create that never ends": (
        lambda: Timed(in_turn(BufferedResponse(202, endless()))), create, {"timeouts": Timeouts(create=90)},
        UncertainCreateError, 90,
    ),
    "a create that is cancelled before it is connected": (
        lambda: Timed(FakeTransport(hang, on_connect=hang)), create, {"timeouts": Timeouts(create=30)}, NotSentError,
        None,
    ),
    "a create that is never connected": (
        lambda: Timed(FakeTransport(hang, on_connect=refuse)), create, {}, NotSentError, None
    ),
    "a create that is retried after its Retry-After": (
        lambda: Timed(in_turn(says({}, 429, Retry_After="45"), says(ACCEPTED, 202))), create,
        {"pacing": Pacing(max_wait=100.0)}, "task-2", None,
    ),
    "an uncertain order that is resent": (
        lambda: Timed(in_turn(lost("videos.create"), says(ACCEPTED, 202))), resend, {},
        (UncertainCreateError, "task-2", 2), 0,
    ),
    "a read that is retried": (
        lambda: Timed(in_turn(lost(), says({}, 503), says(b"<html>", 502), task("completed"))), get, {}, "completed",
        None,
    ),
    "a read after its Retry-After in seconds": (
        lambda: Timed(in_turn(says({}, 429, Retry_After="30"), task("completed"))), get, {}, "completed", 30
    ),
    "a read after its Retry-After as a date": (
        lambda: Timed(in_turn(says({}, 503, Retry_After=LATER), task("completed"))), get, {}, "completed", 30
    ),
    "a read that is retried in vain": (
        lambda: slow((60.0, SILENT), (60.0, SILENT)), get_in_vain, {"retry_reads_for": 60.0}, "it was silent", 60
    ),
    "reads that take longer than others": (
        lambda: slow((3.0, task("running", "a")), (1.0, task("running", "b")), (2.0, task("running", "c"))),
        get_three, {}, ["b", "c", "a"], 3,
    ),
    "a wait of twenty polls": (lambda: by_polls(**{"task-1": 21}), wait, {"poll_interval": 60}, "completed", 1200),
    "creates that wait for the submission limit": (
        lambda: Timed(FakeTransport(by_prompt)), create_25, {"pacing": Pacing(limit=10)},
        [f"task-{n}" for n in range(25)], 120,
    ),
    "a wait for tasks that end one after the other": (
        lambda: by_polls(a=1, b=2, c=3), wait_for_all, {"poll_interval": 60}, ["a", "b", "c"], None
    ),
    "a wait with a Retry-After": (
        lambda: Timed(in_turn(task("running"), says({}, 429, Retry_After="300"), task("completed"))), wait,
        {"poll_interval": 60}, "completed", 420,
    ),
    "a wait that ends during a poll": (
        lambda: Timed(in_turn(task("running"), hang)), wait_100, {"poll_interval": 60}, "running", 100
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_has_the_same_results_at_the_same_times_in_a_replay(path, name):
    make, program, options, expected, seconds = PROGRAMS[name]

    async def run(transport: Transport) -> tuple[object, float, list[tuple[float, str]]]:
        watched = Watched(transport)
        async with client_on(watched, **options) as client:
            return await program(client), watched.clock.now(), watched.sends

    live = await run(RecordingTransport(make(), path))
    replay = ReplayTransport(path)
    played = await run(replay)

    replay.check()
    result = live[0][0] if program is create else live[0]
    assert (result, played[0]) == (expected, live[0])
    assert [what for _, what in played[2]] == [what for _, what in live[2]]
    if seconds is None:
        assert played[1] > 0
    else:
        assert live[1] == pytest.approx(seconds, abs=0.5)
        assert played[1:] == live[1:]


# -- a caller that was cancelled ---------------------------------------------------------------------------------------


async def test_a_read_whose_caller_was_cancelled_waits_for_its_cancellation(path):
    async def program(client: Client) -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await client.videos.get("task-1")
        return (await client.videos.get("task-1")).status

    assert await twice(path, Timed(in_turn(hang, task("completed"))), program) == ("completed", "completed")


async def test_waiting_for_a_recorded_cancellation_ends(path, monkeypatch):
    await record_a_cancelled_send(path, ask())
    assert ReplayTransport(path).unused == ()
    monkeypatch.setattr("vidgen_async.cassette.replay._CANCEL_TIMEOUT", 0.01)
    replay = ReplayTransport(path)

    with pytest.raises(CassetteError, match="is not cancelled now"):
        await replay.send(ask())

    with pytest.raises(CassetteError, match="is not cancelled now"):
        replay.check()


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
