"""Which response a request gets, and the error for a request that gets none."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cassette.recording_harness import (
    FIELDS,
    Pieces,
    Timed,
    ask,
    client_on,
    counting,
    interactions_of,
    post,
    read,
    record,
    says,
    value,
)
from vidgen_async import Client
from vidgen_async.cassette import Cassette, Document, Interaction, Meta, RecordedRequest, load, scan
from vidgen_async.cassette.document import write
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    CassetteError,
    CassetteExhaustedError,
    CassetteMissError,
    JournalError,
    TransportError,
)
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, FakeTransport, RecordingTransport, ReplayTransport, on_cassette
from vidgen_async.types.http import Request, make_headers

SECRET_PLAN = "a very secret plan"


async def answer(transport, request: Request) -> int:
    return (await value(transport, request))["answer"]


# -- what counts as the same request -----------------------------------------------------------------------------------

SAME = {
    "the query in another order": (ask("/videos/x?b=2&a=1"), ask("/videos/x?a=1&b=2")),
    "the keys of JSON in another order": (
        post(b'{"a":1,"b":{"c":2,"d":[3]}}'), post(b'{"b": {"d": [3], "c": 2}, "a": 1}')
    ),
    "JSON with other spaces": (post(b'{"a":1}'), post(b'{\n "a" : 1\n}\n')),
    "JSON with other escapes": (post('{"a":"ä"}'.encode()), post(b'{"a":"\\u00e4"}')),
    "a body in pieces": (post(b'{"a":1}'), post(Pieces(b'{"a":1}'))),
    "a long body in pieces": (post(b"x" * 100_000), post(Pieces(b"x" * 100_000))),
}  # fmt: skip

DIFFERENT = {
    "another method": (ask(), ask(method="DELETE")),
    "another host": (ask("https://a.test/x"), ask("https://b.test/x")),
    "another scheme": (ask("https://a.test/x"), ask("http://a.test/x")),
    "another port": (ask("https://a.test/x"), ask("https://a.test:444/x")),
    "another path": (ask("/videos/a"), ask("/videos/b")),
    "another case of the path": (ask("/videos/a"), ask("/videos/A")),
    "a path that is escaped": (ask("/videos/a%2Fb"), ask("/videos/a/b")),
    "a query value": (ask("/videos?page=1"), ask("/videos?page=2")),
    "equal names in another order": (ask("/videos?page=1&page=2"), ask("/videos?page=2&page=1")),
    "an empty value": (ask("/videos?page="), ask("/videos")),
    "a body": (post({"a": 1}), post({"a": 2})),
    "a number and its text": (post({"a": 1}), post({"a": "1"})),
    "the order of a list": (post({"a": [1, 2]}), post({"a": [2, 1]})),
    "null and nothing": (post({"a": None}), post({})),
    "a long body": (post(b"x" * 100_000), post(b"x" * 99_999 + b"y")),
    "bytes": (post(b"\0\1"), post(b"\0\2")),
    "no body": (post(None), post({})),
}


@pytest.mark.parametrize(("recorded", "asked"), SAME.values(), ids=SAME)
async def test_equal_requests_match_in_any_notation(path, recorded, asked):
    await record(path, counting(), [recorded])

    assert await answer(ReplayTransport(path), asked) == 1


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
async def test_different_requests_to_one_url_get_their_own_responses(path, one, other):
    await record(path, counting(), [one, other])

    transport = ReplayTransport(path)

    assert [await answer(transport, other), await answer(transport, one)] == [2, 1]
    transport.check()


async def test_headers_are_never_compared(path):
    await record(path, counting(), [ask()])
    other = Request(op="videos.get", method="GET", url=ask().url, headers=make_headers({"User-Agent": "another"}))

    assert await answer(ReplayTransport(path), other) == 1


@pytest.mark.parametrize(
    ("pointer", "recorded", "asked", "other"),
    [
        ("/prompt", {"a": 1, "prompt": "x"}, {"a": 1, "prompt": "y"}, {"a": 2, "prompt": "x"}),
        ("/prompt", {"a": 1, "prompt": "x"}, {"a": 1}, {}),
        ("/meta/id", {"meta": {"id": 1, "b": 2}}, {"meta": {"id": 2, "b": 2}}, {"meta": {"id": 1, "b": 3}}),
        ("/items/0/id", {"items": [{"id": 1, "b": 2}]}, {"items": [{"id": 2, "b": 2}]}, {"items": [{"id": 1}]}),
        ("/a~1b", {"a/b": 1}, {"a/b": 2}, {"a": 1}),
        ("/a~0b", {"a~b": 1}, {"a~b": 2}, {"b": 1}),
    ],
)
async def test_an_ignored_field_and_no_other_is_not_compared(path, pointer, recorded, asked, other):
    await record(path, counting(), [post(recorded)])

    assert await answer(ReplayTransport(Cassette(path, ignore=pointer)), post(asked)) == 1
    for cassette, missing in ((path, asked), (Cassette(path, ignore=pointer), other)):
        with pytest.raises(CassetteMissError):
            await read(ReplayTransport(cassette), post(missing))


# -- one after the other -----------------------------------------------------------------------------------------------


async def live_and_played(path: Path, seed: int) -> tuple[list[int], list[int]]:
    """The responses of five different creates and two equal reads, received in an order that depends on the seed."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    delays = [chance.random() for _ in range(7)]
    clock = VirtualClock()
    begun = []

    async def handle(request: Request) -> BufferedResponse:
        begun.append(request)
        mine = len(begun)
        await clock.sleep(delays[mine - 1])
        return says({"answer": mine})

    requests = [*(post({"order": n}) for n in range(5)), ask(), ask()]
    recording = RecordingTransport(Timed(FakeTransport(handle), clock), path)
    live = await asyncio.gather(*(answer(recording, request) for request in requests))
    await recording.aclose()
    transport = ReplayTransport(path)
    played = await asyncio.gather(*(answer(transport, request) for request in requests))
    transport.check()
    return live, played


@pytest.mark.slow
async def test_each_caller_gets_its_own_response_in_any_order(tmp_path):
    expected = [1, 2, 3, 4, 5, 6, 7]
    got = {seed: await live_and_played(tmp_path / f"{seed}.json", seed) for seed in range(8)}
    assert got == dict.fromkeys(range(8), (expected, expected))


async def test_a_request_with_a_slow_body_keeps_its_position_in_the_queue(path):
    class Slow(Pieces):
        async def open(self):
            for _ in range(100):
                await asyncio.sleep(0)
            async for piece in super().open():
                yield piece

    bodies = [Slow(b"x" * 100_000), Pieces(b"x" * 100_000)]
    await record(path, counting(), [post(body) for body in bodies])
    transport = ReplayTransport(path)

    assert await asyncio.gather(*(answer(transport, post(body)) for body in bodies)) == [1, 2]


async def test_an_interaction_is_claimed_before_anything_is_awaited(path):
    await record(path, counting(), [ask()] * 3)
    transport = ReplayTransport(path)

    waiting = [transport.send(ask()) for _ in range(3)]
    for one in reversed(waiting):
        with pytest.raises(StopIteration) as ended:
            one.send(None)
        assert ended.value.value.status == 200

    assert transport.played == [1, 2, 3]


# -- exhausted ---------------------------------------------------------------------------------------------------------


async def test_the_error_for_one_poll_too_many_names_the_request_and_the_count(path):
    await record(path, counting(), [ask()] * 3)
    transport = ReplayTransport(path)
    for _ in range(3):
        await read(transport, ask())

    with pytest.raises(CassetteExhaustedError) as caught:
        await read(transport, ask())

    assert caught.value.lane == f"GET {ask().url}"
    assert caught.value.played == 3
    assert str(path) in str(caught.value)
    assert "3 replayed, the last one with 200" in str(caught.value)
    assert "repeat-last" in str(caught.value)


async def test_repeat_last_returns_the_last_response_each_time_with_its_own_body(path):
    await record(path, counting(), [ask()] * 3)
    transport = ReplayTransport(Cassette(path, exhausted="repeat-last"))

    responses = [await transport.send(ask()) for _ in range(6)]

    assert [json.loads(await one.read())["answer"] for one in reversed(responses)] == [3, 3, 3, 3, 2, 1]
    assert [json.loads(await one.read())["answer"] for one in responses] == [1, 2, 3, 3, 3, 3]
    transport.check()


async def test_a_repeated_response_that_was_not_sent_was_still_replayed(path):
    await record(path, counting(), [ask()])
    transport = ReplayTransport(Cassette(path, exhausted="repeat-last"))
    await read(transport, ask())

    with pytest.raises(JournalError):
        async with transport.connect(ask()):
            raise JournalError

    transport.check()
    assert await answer(transport, ask()) == 1


# -- misses ------------------------------------------------------------------------------------------------------------


async def test_a_miss_lists_the_nearest_interactions_with_their_differences(path):
    await record(
        path,
        counting(),
        [
            ask("/videos/task-1"),
            ask("/videos/task-1?page=2"),
            ask("/account"),
            ask("/videos/task-1", method="DELETE"),
            ask("https://elsewhere.test/a/b/c"),
        ],
    )
    transport = ReplayTransport(path)

    with pytest.raises(CassetteMissError) as caught:
        await read(transport, ask("/videos/task-1?page=3"))

    message = str(caught.value)
    assert f"GET {ask().url}?page=3 (videos.get)" in message
    assert len(caught.value.nearest) == 3
    assert f'GET {ask().url}?page=2: query page is "2", not "3"' in caught.value.nearest
    assert f'GET {ask().url}: query page is absent, not "3"' in caught.value.nearest
    assert "elsewhere" not in message
    assert all(line in message for line in caught.value.nearest)


async def test_a_miss_names_a_different_field_of_a_body_by_its_pointer(path):
    await record(path, counting(), [post({"model": "gen-2.0", "more": {"duration": 5}, "prompt": "x"})])

    with pytest.raises(CassetteMissError) as caught:
        await read(ReplayTransport(path), post({"model": "gen-2.0", "more": {"duration": 8}, "prompt": "x"}))

    [line] = caught.value.nearest
    assert line.endswith("body /more/duration is 5, not 8")


@pytest.mark.parametrize(
    "recorded",
    [
        post({"prompt": "another secret plan", "model": "m"}),
        post({"model": "m"}),
        post(None),
        ask("/videos"),
        post([{"prompt": "another secret plan"}]),
        post({"shots": [{"prompt": "another secret plan"}]}),
        post({"shots": {"prompt": "another secret plan"}}),
        post({"prompt": [{"content": "another secret plan"}]}),
        post(b"another secret plan"),
        post(b"\0\1\2"),
        ask("/files", method="POST", body=b"x" * 100_000),
    ],
    ids=lambda request: f"{request.method} {request.body!r}"[:40],
)
async def test_a_miss_never_shows_a_prompt(path, recorded):
    await record(path, counting(), [recorded])
    transport = ReplayTransport(path)

    for asked in (
        {"prompt": SECRET_PLAN, "model": "m"},
        {"negative_prompt": SECRET_PLAN, "model": "m"},
        {"shots": [{"prompt": SECRET_PLAN}]},
        {"shots": {"prompt": SECRET_PLAN}},
        {"prompt": [{"content": SECRET_PLAN}]},
        [{"prompt": SECRET_PLAN}],
        SECRET_PLAN.encode(),
    ):
        with pytest.raises(CassetteMissError) as caught:
            await read(transport, post(asked))
        assert "secret plan" not in f"{caught.value} {caught.value!r} {caught.value.nearest}", asked


async def test_a_miss_on_an_empty_cassette_reports_that_it_is_empty(path):
    recording = RecordingTransport(counting(), path)
    recording.publish()

    with pytest.raises(CassetteMissError, match="it is empty") as caught:
        await read(ReplayTransport(path), ask())

    assert caught.value.nearest == ()


def test_a_miss_is_no_error_of_the_network():
    assert not issubclass(CassetteError, TransportError | OSError | TimeoutError)


# -- a miss comes through everything -----------------------------------------------------------------------------------


async def all_of(changes: AsyncIterator[Any]) -> None:
    async for change in changes:
        change.unwrap()


async def stream(client: Client) -> None:
    async with client.videos.stream("gone"):
        pass


CALLS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.videos.get("gone"),
    "wait": lambda client: client.videos.wait("gone", timeout=1000),
    "watch": lambda client: all_of(client.videos.watch("gone", timeout=1000)),
    "as_completed": lambda client: all_of(client.videos.as_completed(["gone", "gone-too"], timeout=1000)),
    "upload": lambda client: client.files.upload(b"\x89PNG\r\n\x1a\n" + bytes(100)),
    "check": lambda client: client.videos.check(**FIELDS),
    "create": lambda client: client.videos.create(**FIELDS, order_id="order-1"),
    "create without a check": lambda client: client.videos.create(**FIELDS, validate=False),
    "generate": lambda client: client.videos.generate(**FIELDS),
    "stream": stream,
    "download": lambda client: client.videos.download("gone", "gone.mp4"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_miss_is_raised_by_calls_that_survive_network_failures(path, call, monkeypatch):
    monkeypatch.chdir(path.parent)
    await record(path, counting(), [ask("/account")])
    transport = ReplayTransport(path)

    async with client_on(transport) as client:
        with pytest.raises(CassetteMissError) as caught:
            await call(client)

    assert str(transport.misses[0]) == str(caught.value)
    assert transport.clock.now() == 0.0
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(CassetteMissError):
        transport.check()


async def test_an_order_whose_create_misses_was_not_sent_and_may_be_retried(path):
    await record(path, counting(), [ask("/account")])
    journal = MemoryJournal()
    transport = ReplayTransport(path)

    async with client_on(transport, journal=journal) as client:
        for _ in range(2):
            with pytest.raises(CassetteMissError):
                await client.videos.create(**FIELDS, order_id="order-1", validate=False)
        order = await client.orders.get("order-1")

    assert (str(order.state), order.attempts) == ("queued", ())
    assert len(transport.misses) == 2


async def test_a_suppressed_miss_is_raised_by_the_check(path):
    await record(path, counting(), [ask()])
    transport = ReplayTransport(path)
    await read(transport, ask())
    for request in (ask("/first"), ask("/second")):
        with pytest.raises(CassetteMissError):
            await read(transport, request)

    with pytest.raises(CassetteMissError, match="/first"):
        transport.check()
    with pytest.raises(CassetteMissError, match="/first"):
        transport.check(allow_unused=True)


# -- chains ------------------------------------------------------------------------------------------------------------


async def test_an_interaction_that_matches_with_and_without_its_secret_is_replayed_once(path):
    await record(path, counting(), [ask("/files?token=first-secret"), ask("/files?token=second-secret")])
    first, second = (interaction["request"]["url"] for interaction in interactions_of(path))
    replay = ReplayTransport(path)

    assert first != second
    assert await answer(replay, ask(first)) == 1
    assert await answer(replay, ask("/files?token=another-secret")) == 2
    with pytest.raises(CassetteExhaustedError):
        await replay.send(ask("/files?token=another-secret"))
    assert replay.played == [1, 2]


# -- cassettes of 0.1.0, which has the query values of the service's host ----------------------------------------------


def earlier(n: int, url: str, **request: Any) -> Interaction:
    body = {"json": {"answer": n}}
    seen = RecordedRequest("POST" if request else "GET", f"https://service.test/openapi/v1{url}", **request)
    op = "files.create" if request else "videos.get"
    return Interaction(n=n, op=op, request=seen, answered=0.0, ended=0.0, status=200, body=body)


EARLIER = [
    earlier(1, "/videos/task-1?page=1&ticket=t9-first"),
    earlier(2, "/videos/task-1?page=1&ticket=t9-second"),
    earlier(3, "/files/1?token=REDACTED-token-1&x=5"),
    earlier(4, "/files/1?token=REDACTED-token-1&x=6"),
    earlier(5, "/files", body={"json": {"image_url": "/files/1?token=REDACTED-token-1&x=6"}}),
]


def write_earlier(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = Meta(datetime(2026, 11, 27, tzinfo=UTC), "vidgen_async/0.1.0", "https://service.test/openapi/v1")
    path.write_text(write(Document(meta, tuple(EARLIER))))


EARLIER_REQUESTS = [
    (2, ask("/videos/task-1?ticket=t9-second&page=1")),
    (1, ask("/videos/task-1?page=1&ticket=t9-first")),
    (4, ask("/files/1?token=another-secret&x=6")),
    (5, ask("/files", method="POST", body={"image_url": "/files/1?token=another-secret&x=6"})),
    (3, ask("/files/1?x=5&token=REDACTED-token-1")),
]


async def test_what_is_appended_to_such_a_cassette_is_published_without_these_values(path):
    write_earlier(path)
    transport = on_cassette(path, "append", live=counting)
    for expected, request in EARLIER_REQUESTS:
        assert await answer(transport, request) == expected
    assert await answer(transport, ask("/videos/task-2?ticket=t9-third")) == 1
    await transport.aclose()

    assert "t9-" not in path.read_text()
    assert len(load(path).interactions) == len(EARLIER) + 1
    assert scan(load(path)) == []
    again = ReplayTransport(path)
    assert await answer(again, ask("/videos/task-2?ticket=t9-another")) == 1
    assert [await answer(again, ask("/videos/task-1?page=1&ticket=t9-third")) for _ in range(2)] == [1, 2]
