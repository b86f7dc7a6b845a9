"""Every time limit of the client, and the message that names it with the setting that changes it."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from attrs import evolve, frozen

from tests.transports import raw_service as raw
from tests.transports.raw_service import Connection, RawService, raw_service
from tests.transports.sending import create, read, respond
from vidgen_async import Client, Timeouts
from vidgen_async.client.settings import PollTimeouts
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import TransportError, VidgenError
from vidgen_async.journal import MemoryJournal, SqliteJournal
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import BytesBody, Request

VIDEO = {"model": "gen-2.0", "prompt": "a boat", "duration": 5, "validate": False}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
POLL = "(a quarter of poll_interval, at least 10 s)"


# -- of single requests, on sockets ------------------------------------------------------------------------------------


def drips(first: bytes) -> raw.Behaviour:
    """Sends a byte every few milliseconds: it never pauses for long."""

    async def behaviour(connection: Connection) -> None:
        await connection.request()
        await connection.answer(first)
        while True:
            await asyncio.sleep(0.02)
            await connection.answer(b"x")

    return behaviour


@frozen
class Row:
    limits: Timeouts
    message: str
    service: raw.Behaviour | None = raw.hangs
    """None: a port that accepts no connection."""
    make: Callable[..., Request] = read
    pools: tuple[str, ...] = ("polls", "reads", "streams")


def polls(read: float, interval: float = 0.4) -> PollTimeouts:
    """With a limit of 0.1 s instead of 10."""
    return PollTimeouts(read=read, answer=interval / 4, poll=interval / 4)


def upload(url: raw.URL, **options: object) -> Request:
    return create(url, op="files.create", body=BytesBody(b"x" * 30_000_000), **options)


SHORT_PAUSE, LONG_ANSWER = Timeouts(read=0.1, answer=5), Timeouts(read=0.1, answer=0.25)
ROWS = {
    "connecting": Row(Timeouts(connect=0.1), "no connection .* within 0.1 s (Timeouts.connect)", None),
    "connecting, the whole answer": Row(
        Timeouts(connect=5, answer=0.1), "no whole response .* within 0.1 s (Timeouts.answer)", None
    ),
    "connecting for a create": Row(
        Timeouts(connect=0.1), "no connection .* within 0.1 s (Timeouts.connect)", None, create, ("reads",)
    ),
    "no answer": Row(SHORT_PAUSE, "no response .* within 0.1 s (Timeouts.read)"),
    "no answer to a create": Row(
        SHORT_PAUSE, "no response .* within 0.1 s (Timeouts.read)", make=create, pools=("reads",)
    ),
    "a head that stops": Row(
        SHORT_PAUSE, "no response .* within 0.1 s (Timeouts.read)", raw.responds_and_hangs(HEAD[:20])
    ),
    "a body that stops": Row(
        SHORT_PAUSE,
        "sent no more of the body within 0.1 s (Timeouts.read); 3 bytes",
        raw.responds_and_hangs(HEAD + b"abc"),
    ),
    "a slow head": Row(LONG_ANSWER, "no whole response .* within 0.25 s (Timeouts.answer)", drips(HEAD[:20])),
    "a slow body": Row(
        LONG_ANSWER, "did not send its whole answer within 0.25 s (Timeouts.answer); .* bytes", drips(HEAD)
    ),
    "no answer to a poll": Row(polls(read=5), f"no whole response .* within 0.1 s {POLL}"),
    "a poll with a shorter limit of its own": Row(polls(read=0.05), "no response .* within 0.05 s (Timeouts.read)"),
    "a slow body of a poll": Row(
        polls(read=5), f"did not send its whole answer within 0.1 s {POLL}; .* bytes", drips(HEAD)
    ),
    "an upload that is not read": Row(
        SHORT_PAUSE, "read no more of the body within 0.1 s (Timeouts.read)", raw.reads_nothing, upload, ("reads",)
    ),
}


def pattern(message: str) -> str:
    return message.replace("(", r"\(").replace(")", r"\)")


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_the_limit_of_a_request_is_named(row: Row) -> None:
    transport = DirectTransport()
    with raw.full_port() as full:
        async with raw_service(row.service or raw.hangs) as service:
            url = (service if row.service else RawService(full)).url()
            for pool in row.pools:
                request = evolve(row.make(url, timeouts=row.limits), pool=pool)
                with pytest.raises(TransportError, match=pattern(row.message)):
                    async with respond(transport, request) as response:
                        await response.read()
            await transport.aclose()


@pytest.mark.slow
async def test_the_limit_of_a_slot_of_the_pool_is_named() -> None:
    transport = DirectTransport(max_connections=1)
    async with raw_service(raw.responds_and_hangs(HEAD)) as service:
        async with await transport.send(read(service.url())):
            for limits, name in ((Timeouts(connect=0.1), "connect"), (Timeouts(connect=5, answer=0.1), "answer")):
                with pytest.raises(TransportError, match=rf"within 0.1 s \(Timeouts.{name}\)"):
                    await transport.send(read(service.url(), timeouts=limits))
        await transport.aclose()


@pytest.mark.parametrize(
    ("limits", "interval", "named"),
    [
        (Timeouts(), 60, {"read": f"within 15 s {POLL}", "answer": f"within 15 s {POLL}"}),
        (Timeouts(), 20, {"read": f"within 10 s {POLL}", "answer": f"within 10 s {POLL}"}),
        (Timeouts(read=7), 60, {"read": "within 7 s (Timeouts.read)", "answer": f"within 15 s {POLL}"}),
        (Timeouts(answer=7), 60, {"read": f"within 15 s {POLL}", "answer": "within 7 s (Timeouts.answer)"}),
        (Timeouts(read=None, answer=None), 60, {"read": f"within 15 s {POLL}", "answer": f"within 15 s {POLL}"}),
        (Timeouts(connect=None), 60, {"connect": "in time", "create": "within 120 s (Timeouts.create)"}),
    ],
)
async def test_a_poll_has_the_shorter_limit_and_its_name(limits, interval, named) -> None:
    transport, clock = FakeTransport(running), VirtualClock()
    options = {"base_url": "http://127.0.0.1:9/openapi/v1", "timeouts": limits, "poll_interval": interval}
    async with Client("k", **options, transport=transport, clock=clock) as client:
        with pytest.raises(VidgenError):
            await client.videos.wait("t-1", timeout=1)
    assert {name: transport.requests[0].timeouts.within(name) for name in named} == named


# -- of calls, in virtual time -----------------------------------------------------------------------------------------


async def running(request: Request) -> BufferedResponse:
    return BufferedResponse(200, b'{"id": "t-1", "status": "running"}')


async def unavailable(request: Request) -> BufferedResponse:
    return BufferedResponse(503, b"{}")


async def silence(request: Request) -> BufferedResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def slow_body(request: Request) -> BufferedResponse:
    async def body():
        yield b'{"id": '
        await asyncio.Event().wait()

    return BufferedResponse(202, body())


class SilentKeys:
    async def __call__(self) -> str:
        await asyncio.Event().wait()
        return ""


async def wait(client: Client) -> object:
    return await client.videos.wait("t-1", timeout=90)


async def check(client: Client) -> object:
    checked = await client.videos.check(model="gen-2.0", prompt="a boat", duration=5)
    raise checked.catalog_error


async def order(client: Client) -> object:
    return await client.videos.create(**VIDEO)


async def account(client: Client) -> object:
    return await client.account.get()


Handler = Callable[[Request], Awaitable[BufferedResponse]]
Call = Callable[[Client], Awaitable[object]]
CALLS: dict[str, tuple[Call, Handler, dict[str, object], str]] = {
    "a create without an answer": (order, silence, {}, "no complete answer came within 120 s (Timeouts.create)"),
    "a create with half an answer": (order, slow_body, {}, "no complete answer came within 120 s (Timeouts.create)"),
    "a key function": (account, running, {"api_key": SilentKeys()}, "a key within 10 s (Timeouts.connect)"),
    "a key function, other limits": (
        account,
        running,
        {"api_key": SilentKeys(), "timeouts": Timeouts(connect=None, read=9, answer=7)},
        "a key within 7 s (Timeouts.answer)",
    ),
    "a key function of a create": (order, running, {"api_key": SilentKeys()}, "a key within 10 s (Timeouts.connect)"),
    "retries": (account, unavailable, {"retry_reads_for": 30}, "attempts within 30 s (retry_reads_for)"),
    "a wait": (wait, running, {}, "did not finish within 90 s .*; its timeout is the limit"),
    "a check": (check, silence, {}, "no catalog was received within 5 s (a fixed limit of checks)"),
}


@pytest.mark.parametrize(("call", "handler", "options", "message"), CALLS.values(), ids=CALLS)
async def test_the_limit_of_a_call_is_named(call, handler, options, message: str) -> None:
    options = {"api_key": "k", "base_url": "https://h/openapi/v1", "journal": MemoryJournal(), **options}
    async with Client(**options, transport=FakeTransport(handler), clock=VirtualClock()) as client:
        with pytest.raises(VidgenError, match=pattern(message)) as caught:
            await call(client)
    assert caught.value.advice in str(caught.value)
    assert caught.value.summary != caught.value.advice


async def test_a_create_that_cannot_connect_within_its_limit_names_it() -> None:
    class NeverConnects(FakeTransport):
        def connect(self, request: Request):
            return Never()

    class Never:
        async def __aenter__(self):
            await asyncio.Event().wait()

        async def __aexit__(self, *_: object) -> None:
            pass

    transport = NeverConnects(running)
    async with Client("k", base_url="https://h/openapi/v1", transport=transport, clock=VirtualClock()) as client:
        with pytest.raises(VidgenError, match=r"within 120 s \(Timeouts.create\)"):
            await client.videos.create(**VIDEO)


async def test_the_timeout_of_a_download_is_named(tmp_path: Path) -> None:
    async with Client(
        "k", base_url="https://h/openapi/v1", transport=FakeTransport(unavailable), clock=VirtualClock()
    ) as client:
        with pytest.raises(VidgenError, match=r"not saved within 20 s; .* \(the limit is the timeout of this call\)"):
            await client.videos.download("t-1", tmp_path / "a.mp4", timeout=20)


async def test_the_grace_of_closing_is_named(caplog: pytest.LogCaptureFixture) -> None:
    client = Client("k", base_url="https://h/openapi/v1", transport=FakeTransport(silence))
    creating = asyncio.ensure_future(client.videos.create(**VIDEO))
    await asyncio.sleep(0.01)
    with caplog.at_level(logging.WARNING, "vidgen_async"):
        await client.aclose(grace=0.02)
    with pytest.raises(VidgenError):
        await creating
    assert "closed after 0.02 s (grace), 1 orders unanswered" in caplog.text


@contextmanager
def locked(path: Path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


async def test_the_busy_timeout_of_a_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    options = {"base_url": "https://h/openapi/v1", "transport": FakeTransport(running)}
    async with Client("k", journal=SqliteJournal(path), **options) as client:
        await client.videos.create(**VIDEO)
    with locked(path):
        async with Client("k", journal=SqliteJournal(path, busy_timeout=0.05), **options) as client:
            with pytest.raises(VidgenError, match=r"at most 0.05 s for a lock \(busy_timeout\)"):
                await client.videos.create(**VIDEO)
