"""Modes: where responses come from, and the state of the cassette after failures."""

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from attrs import define

from tests.cassette.recording_harness import (
    FIELDS,
    Pieces,
    ask,
    body_of,
    client_on,
    counting,
    in_turn,
    interactions_of,
    noise,
    post,
    read,
    record,
    record_a_cancelled_send,
    says,
    value,
    video,
)
from tests.transports import raw_service as raw
from tests.transports.raw_service import raw_service
from vidgen_async.cassette import Cassette, load, recover
from vidgen_async.cassette.modes import CI_VARIABLES
from vidgen_async.errors import (
    CassetteError,
    CassetteExhaustedError,
    CassetteNotFoundError,
    ConfigurationError,
    NotFoundError,
    TransportClosedError,
)
from vidgen_async.transports import (
    AppendingTransport,
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
    on_cassette,
)
from vidgen_async.types.http import Delivery, Request

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "one.json"


@pytest.fixture(autouse=True)
def on_a_machine_of_ones_own(monkeypatch):
    for variable in CI_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def live() -> FakeTransport:
    """Its responses differ from those of any cassette."""
    asked = []

    async def handle(request: Request) -> BufferedResponse:
        asked.append(request)
        return says({"answer": f"live {len(asked)}"})

    return FakeTransport(handle)


async def where_from(transport, request: Request) -> str:
    try:
        return str((await value(transport, request))["answer"])
    except (CassetteExhaustedError, CassetteError) as error:
        return type(error).__name__


# -- the table of modes ------------------------------------------------------------------------------------------------

MISS, USED_UP = "CassetteMissError", "CassetteExhaustedError"
LIVE = ["live 1", "live 2", "live 3"]

# mode, how many matching interactions the cassette has, is CI set, where three requests get their answers
TABLE = [
    ("replay", 0, False, [MISS] * 3),
    ("replay", 1, False, ["1", USED_UP, USED_UP]),
    ("replay", 2, False, ["1", "2", USED_UP]),
    ("record", 0, False, LIVE),
    ("record", 1, False, LIVE),
    ("record", 2, False, LIVE),
    ("append", 0, False, LIVE),
    ("append", 1, False, ["1", "live 1", "live 2"]),
    ("append", 2, False, ["1", "2", "live 1"]),
    ("auto", 0, False, [MISS] * 3),
    ("auto", 1, False, ["1", USED_UP, USED_UP]),
    ("auto", 2, False, ["1", "2", USED_UP]),
    ("auto", 2, True, ["1", "2", USED_UP]),
    ("record", 2, True, LIVE),
    ("append", 2, True, ["1", "2", "live 1"]),
]


@pytest.mark.parametrize(("mode", "recorded", "is_ci", "sources"), TABLE)
async def test_each_mode_gets_its_responses_from_the_documented_source(
    path, monkeypatch, mode, recorded, is_ci, sources
):
    await record(path, counting(), [*[ask()] * recorded, ask("/account")])
    if is_ci:
        monkeypatch.setenv("CI", "true")

    makes = live if "live 1" in sources else lambda: pytest.fail("nothing may go live")
    transport = on_cassette(path, mode, live=makes)
    found = [await where_from(transport, ask()) for _ in range(3)]
    await transport.aclose()

    assert found == sources
    again = ReplayTransport(path)
    expected = {
        "replay": recorded,
        "auto": recorded,
        "record": 3,
        "append": max(recorded, 3),
    }[mode]
    assert sum(one.request.url == str(ask().url) for one in again.unused) == expected
    if mode == "append":
        assert [await where_from(again, ask()) for _ in range(3)] == sources


@pytest.mark.parametrize(
    ("mode", "is_ci", "expected"),
    [
        ("replay", False, CassetteNotFoundError),
        ("replay", True, CassetteNotFoundError),
        ("record", False, LIVE),
        ("record", True, LIVE),
        ("append", False, LIVE),
        ("auto", False, LIVE),
        ("auto", True, CassetteNotFoundError),
    ],
)
async def test_without_a_cassette_only_recording_modes_send_requests(path, monkeypatch, mode, is_ci, expected):
    if is_ci:
        monkeypatch.setenv("CI", "1")

    if expected is CassetteNotFoundError:
        with pytest.raises(CassetteNotFoundError) as caught:
            on_cassette(path, mode, live=lambda: pytest.fail("nothing may go live"))
        assert str(path) in str(caught.value)
        assert caught.value.path == str(path)
        assert ("CI" in str(caught.value)) is (mode == "auto")
        assert "ecord it" in str(caught.value)
        assert not path.parent.exists()
        return
    transport = on_cassette(path, mode, live=live)
    assert [await where_from(transport, ask()) for _ in range(3)] == expected
    await transport.aclose()
    assert len(interactions_of(path)) == 3


@pytest.mark.parametrize(
    "set_by",
    [
        {"CI": "woodpecker"},
        {"TF_BUILD": "True", "BUILD_BUILDID": "7"},  # Azure Pipelines
        {"JENKINS_URL": "https://ci.test/", "BUILD_ID": "7", "BUILD_NUMBER": "7"},
        {"TEAMCITY_VERSION": "2026.1", "BUILD_NUMBER": "7"},
        {"CODEBUILD_BUILD_ID": "shop:7"},
        {"BITBUCKET_BUILD_NUMBER": "7"},
        {"bamboo_planKey": "SHOP-PLAN"},
        {"GO_PIPELINE_NAME": "shop"},
        {"CI": "false", "TF_BUILD": "True"},
    ],
    ids="+".join,
)
async def test_auto_never_records_on_a_ci_system_and_names_the_variable(path, monkeypatch, set_by):
    for name in set_by:
        monkeypatch.setenv(name, set_by[name])

    with pytest.raises(CassetteNotFoundError) as caught:
        on_cassette(path, "auto", live=lambda: pytest.fail("nothing may go live"))

    assert any(f"({name} is set)" in str(caught.value) for name in set_by)


@pytest.mark.parametrize("said", ["", "0", "false", "no", "False"])
async def test_a_false_value_of_the_variable_ci_means_no_ci(path, monkeypatch, said):
    monkeypatch.setenv("CI", said)

    transport = on_cassette(path, "auto", live=live)

    assert await where_from(transport, ask()) == "live 1"
    await transport.aclose()


async def test_a_recording_uses_the_proxy_of_the_environment(path, monkeypatch):
    async with raw_service(raw.answers) as proxy:
        monkeypatch.setenv("VIDGEN_PROXY", f"127.0.0.1:{proxy.port}")
        transport = on_cassette(path, "record")
        await read(transport, ask("http://service.test/openapi/v1/account"))
        await transport.aclose()
    assert proxy.received[0].startswith(b"GET http://service.test/openapi/v1/account HTTP/1.1\r\n")


@pytest.mark.parametrize("name", ["once", "", "REPLAY", "none"])
def test_the_error_for_an_unknown_mode_names_the_modes(path, name):
    with pytest.raises(ConfigurationError, match="replay, record, append, auto") as caught:
        on_cassette(path, name, live=live)

    assert repr(name) in str(caught.value)


# -- append ------------------------------------------------------------------------------------------------------------


async def test_append_never_replays_what_it_recorded_itself(path):
    transport = AppendingTransport(live(), path)
    assert [await where_from(transport, ask()) for _ in range(2)] == ["live 1", "live 2"]
    await transport.aclose()

    transport = AppendingTransport(live(), path)
    assert [await where_from(transport, ask()) for _ in range(4)] == ["live 1", "live 2", "live 1", "live 2"]
    await transport.aclose()

    assert [one["n"] for one in interactions_of(path)] == [1, 2, 3, 4]


async def test_append_sends_when_all_equal_interactions_were_replayed_even_with_repeat_last(path):
    cassette = Cassette(path, exhausted="repeat-last")
    await record(cassette, counting(), [ask()])

    transport = AppendingTransport(live(), cassette)

    assert [await where_from(transport, ask()) for _ in range(2)] == ["1", "live 1"]
    await transport.aclose()


async def test_append_that_recorded_nothing_leaves_the_cassette_unchanged(path):
    await record(path, counting(), [ask()])
    before = path.read_bytes(), path.stat().st_mtime_ns

    transport = AppendingTransport(live(), path)
    await where_from(transport, ask())
    await transport.aclose()

    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


async def test_append_sends_a_request_of_which_all_recorded_callers_were_cancelled(path):
    cassette = Cassette(path, exhausted="repeat-last")
    await record_a_cancelled_send(cassette, post(Pieces(b"{}")))
    asked = post(body := Pieces(b"{}"))

    transport = AppendingTransport(live(), cassette)

    assert await where_from(transport, asked) == "live 1"
    assert len(body.opened) < 5, "it claims the same one again and again"
    await transport.aclose()


# -- a recording that fails --------------------------------------------------------------------------------------------


async def _in_its_block(path: Path) -> None:
    async with client_on(RecordingTransport(in_turn(says({}, 404)), path)) as client:
        await client.videos.get("gone")


async def _after_a_request(path: Path, way: str) -> None:
    transport = RecordingTransport(counting(), path, auto_publish=way != "not published")
    await read(transport, ask())
    if way == "given up":
        transport.give_up()
    if way != "closed in finally":
        await transport.aclose()
    try:
        raise NotFoundError
    finally:
        await transport.aclose()


ENDS = ("given up", "not published", "closed in finally")
WAYS_TO_FAIL = [_in_its_block, *(partial(_after_a_request, way=way) for way in ENDS)]


@pytest.mark.parametrize("fail", WAYS_TO_FAIL)
async def test_a_recording_that_fails_leaves_the_old_cassette_unchanged(path, fail):
    await record(path, counting(), [ask(), ask("/account")])
    before = path.read_bytes()

    with pytest.raises(NotFoundError):
        await fail(path)

    assert path.read_bytes() == before
    assert len(recover(Cassette(path).part).document.interactions) == 1


async def test_an_exception_that_was_handled_does_not_prevent_publication(path):
    async with client_on(RecordingTransport(in_turn(says({}, 404)), path)) as client:
        with pytest.raises(NotFoundError):
            await client.videos.get("gone")

    assert len(interactions_of(path)) == 1


# -- publishing by hand ------------------------------------------------------------------------------------------------


async def test_publish_returns_the_path_and_ends_the_recording_and_may_be_called_twice(path):
    transport = RecordingTransport(counting(), path, auto_publish=False)
    await read(transport, ask())
    assert not transport.is_published

    assert transport.publish() == path

    assert transport.publish() == path
    assert transport.is_published
    with pytest.raises(TransportClosedError) as caught:
        await transport.send(ask())
    assert caught.value.delivery is Delivery.NOT_SENT
    await transport.aclose()
    await transport.aclose()
    assert len(interactions_of(path)) == 1


async def test_a_recording_of_nothing_creates_an_empty_cassette_only_with_publish(path):
    transport = RecordingTransport(counting(), path)
    await transport.aclose()
    assert not path.exists()

    RecordingTransport(counting(), path).publish()

    assert interactions_of(path) == []
    ReplayTransport(path).check()


async def test_a_response_that_is_read_after_publishing_is_not_recorded_which_is_logged(path, caplog):
    transport = RecordingTransport(counting(), path)
    await read(transport, ask())
    late = await transport.send(ask("/late"))
    transport.publish()
    before = path.read_bytes()
    assert "1 requests have no outcome" in caplog.text
    caplog.clear()

    assert await late.read() == b'{"answer": 2}'
    await late.aclose()
    await transport.aclose()

    assert caplog.records == []
    assert path.read_bytes() == before
    assert len(interactions_of(path)) == 1
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name]


async def test_closing_the_transport_is_the_outcome_of_pending_requests(path):
    async def program(transport: RecordingTransport | ReplayTransport) -> list[object]:
        sending = asyncio.ensure_future(transport.send(ask("/never")))
        response = await transport.send(ask("/half"))
        pieces = response.chunks()
        first = await anext(pieces)
        reading = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0.001)
        await transport.aclose()
        reading.cancel()
        sending.cancel()
        return [first, *(await asyncio.gather(sending, reading, return_exceptions=True))]

    async def handle(request: Request) -> BufferedResponse:
        if request.url.path.endswith("never"):
            await asyncio.Event().wait()

        async def half():
            yield b"half"
            await asyncio.Event().wait()

        return BufferedResponse(200, half())

    live = await program(RecordingTransport(FakeTransport(handle), path))
    played = await program(ReplayTransport(path))

    assert (live[0], played[0]) == (b"half", b"half")
    half, never = interactions_of(path)
    assert never["error"]["type"] == "Cancelled"
    assert half["response"]["body"] == {"text": "half", "end": "cancelled"}


# -- a recording that cannot be written --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["full", "a file for a directory", "read-only"])
async def test_a_recording_that_cannot_begin_raises_before_anything_is_sent(path, monkeypatch, way):
    if way == "a file for a directory":
        path.parent.write_bytes(b"")
    else:
        path.parent.mkdir()
    if way == "full":
        Cassette(path).part.symlink_to("/dev/full")
    if way == "read-only":
        monkeypatch.setattr(os, "open", lambda *_, **__: no_space())
    transport = RecordingTransport(counting(), path)

    for _ in range(2):
        with pytest.raises(CassetteError, match=str(path)):
            await transport.send(ask())

    assert transport.inner.requests == []
    with suppress(CassetteError):
        await transport.aclose()
    assert not path.exists()


def no_space(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@define
class Disk:
    """The disk of a recording, full after ``left`` more writes; of the next one, ``torn`` bytes are written."""

    descriptor: int
    left: int
    torn: int | None
    real: Callable[[int, bytes], int] = os.write
    is_full: bool = True

    def write(self, descriptor: int, data: bytes) -> int:
        if descriptor != self.descriptor or not self.is_full:
            return self.real(descriptor, data)
        self.left -= 1
        if self.left >= 0:
            return self.real(descriptor, data)
        if self.torn is not None and self.left == -1:
            return self.real(descriptor, data[: self.torn])
        no_space()


Fill = Callable[..., Disk]


@pytest.fixture
def fill(monkeypatch) -> Fill:
    def full(transport: RecordingTransport, *, after: int, torn: int | None = None) -> Disk:
        disk = Disk(transport._recorder.part._file, after, torn)
        monkeypatch.setattr(os, "write", disk.write)
        return disk

    return full


async def test_a_request_refused_for_a_full_disk_does_not_damage_the_recording(path, fill):
    transport = RecordingTransport(counting(), path)
    await read(transport, ask())
    disk = fill(transport, after=0)
    with pytest.raises(CassetteError, match="nothing was sent"):
        await transport.send(ask("/account"))
    assert len(transport.inner.requests) == 1
    disk.is_full = False

    await read(transport, ask("/models"))
    await transport.aclose()

    assert [interaction.op for interaction in load(path).interactions] == ["videos.get", "models.list"]


@pytest.mark.parametrize("torn", [None, 30])
async def test_a_disk_that_is_full_after_the_send_loses_no_response_and_no_other_line(path, fill, torn, caplog):
    await record(path, counting(), [ask()])
    before = path.read_bytes()
    transport = RecordingTransport(live(), path)
    await read(transport, ask("/a"))
    disk = fill(transport, after=1, torn=torn)

    assert await where_from(transport, ask("/b")) == "live 2"

    disk.is_full = False
    await read(transport, ask("/c"))
    with pytest.raises(CassetteError, match="incomplete"):
        await transport.aclose()
    assert path.read_bytes() == before
    assert "incomplete" in caplog.text
    recovered = recover(transport.part)
    assert [one.request.url.rpartition("/")[2] for one in recovered.document.interactions] == ["a", "c"]
    assert (len(recovered.unfinished), recovered.damaged) == (1, 0)


async def test_a_recording_that_cannot_be_written_loses_no_receipt(path, fill):
    transport = RecordingTransport(in_turn(says([]), says({"id": "task-1", "status": "queued"}, 202)), path)
    receipts = []
    async with client_on(transport) as client:
        await client._view.shared.transport.send(ask())
        fill(transport, after=1)

        receipt = await client.videos.create(**FIELDS, order_id="order-1", on_receipt=receipts.append, validate=False)

        assert receipt.task_id == "task-1"
        assert receipts == [receipt]
        assert (await client.orders.get("order-1")).receipt == receipt
        with pytest.raises(CassetteError):
            await transport.aclose()
        transport.give_up()
    assert not path.exists()


@pytest.mark.parametrize("fails", ["directory", "replace"])
async def test_a_blob_that_cannot_be_written_loses_no_video(path, monkeypatch, fails):
    data = noise(256_000)
    transport = RecordingTransport(in_turn(lambda: video(data)), path)
    if fails == "directory":
        path.parent.mkdir()
        Cassette(path).blobs.write_bytes(b"")
    else:
        monkeypatch.setattr(Path, "replace", no_space)

    assert await read(transport, ask()) == data

    with pytest.raises(CassetteError):
        await transport.aclose()
    assert not path.exists()


async def test_a_request_whose_body_cannot_be_read_fails_as_it_does_without_a_recording(path):
    class Broken:
        length, content_type = 10, "application/json"

        async def open(self):
            yield b"{"
            message = "the file is gone"
            raise OSError(message)

    async def handle(request: Request) -> BufferedResponse:
        try:
            await body_of(request)
        except OSError as error:
            raise ConnectionAbortedError from error
        return says({})

    transport = RecordingTransport(FakeTransport(handle), path)
    with pytest.raises(ConnectionAbortedError):
        await transport.send(post(Broken()))
    await transport.aclose()
