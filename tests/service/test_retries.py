"""Reads go again within a budget of time; what is final is raised at once."""

import json

import pytest
from yarl import URL

from vidgen_async.clock import VirtualClock
from vidgen_async.errors import (
    AuthenticationError,
    BodyError,
    CassetteError,
    ConnectionLostError,
    RateLimitError,
    ServiceUnavailableError,
    TransportClosedError,
    TransportError,
    UnexpectedResponseError,
)
from vidgen_async.service.codec import read_account
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Phase, make_headers

ACCOUNT = json.dumps({"credits": 5}).encode()
REQUEST = Endpoints(URL("https://h/openapi/v1"), "key").get_account()


class Scripted:
    """Answers a read with what the script says; the last entry is repeated."""

    def __init__(self, *script: BufferedResponse | Exception) -> None:
        self.clock = VirtualClock()
        self.script = list(script)
        self.at: list[float] = []
        self.transport = FakeTransport(self._handle)
        self.reads = Reads(self.transport, self.clock, origin="https://h", retry_for=60, rng=lambda: 1.0)

    async def _handle(self, _):
        self.at.append(self.clock.now())
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(entry, Exception):
            raise entry
        return BufferedResponse(entry.status, await entry.read(), headers=entry.headers)

    async def read(self):
        return await self.reads.retry(REQUEST, read_account)


def ok() -> BufferedResponse:
    return BufferedResponse(200, ACCOUNT)


async def cut():
    yield b"{"
    raise BodyError("cut", received=1)


@pytest.mark.parametrize(
    "failure",
    [BufferedResponse(status) for status in (408, 425, 429, 500, 502, 503, 504)]
    + [BufferedResponse(200, b"<html>"), BufferedResponse(200, b""), ConnectionLostError("lost"), BodyError("cut")],
    ids=lambda failure: str(getattr(failure, "status", type(failure).__name__)),
)
async def test_a_transient_failure_of_a_read_goes_again(failure):
    service = Scripted(failure, failure, ok())
    assert (await service.read()).balance == 5
    assert service.at == [0, 0.5, 1.5]


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 409, 422])
async def test_a_final_failure_of_a_read_is_raised_at_once(status):
    service = Scripted(BufferedResponse(status))
    with pytest.raises(UnexpectedResponseError if status in (301, 307, 403, 422) else Exception, match=str(status)):
        await service.read()
    assert service.at == [0]


async def test_a_read_is_bounded_by_time_not_by_tries():
    service = Scripted(BufferedResponse(503))
    with pytest.raises(ServiceUnavailableError):
        await service.read()
    assert 40 < service.at[-1] <= 60


@pytest.mark.rule("8 bullet 3", side="sdk")
async def test_retry_after_is_honoured_in_seconds_and_as_a_date():
    soon = BufferedResponse(429, headers=make_headers({"Retry-After": "7"}))
    later = BufferedResponse(503, headers=make_headers({"Retry-After": "Tue, 01 Jan 2030 00:00:30 GMT"}))
    service = Scripted(soon, later, ok())
    await service.read()
    assert service.at == [0, 7, 30]


async def test_a_retry_after_beyond_the_budget_is_raised_not_waited_for():
    service = Scripted(BufferedResponse(429, headers=make_headers({"Retry-After": "61"})))
    with pytest.raises(RateLimitError) as caught:
        await service.read()
    assert caught.value.retry_after == 61
    assert service.at == [0]


@pytest.mark.parametrize(
    "final",
    [
        CassetteError("miss"),
        TransportClosedError("closed"),
        TransportError("a header that cannot be sent", phase=Phase.BUILD),
        RuntimeError("a bug"),
    ],
    ids=lambda final: type(final).__name__,
)
async def test_what_is_no_fault_of_the_network_is_never_swallowed(final):
    service = Scripted(final)
    with pytest.raises(type(final)):
        await service.read()
    assert len(service.at) == 1


async def test_an_error_shows_no_key():
    service = Scripted(BufferedResponse(401, b"bad key: key-never-shown"))
    service.reads = Reads(service.transport, service.clock, origin="https://h", known=("key-never-shown",))
    with pytest.raises(AuthenticationError) as caught:
        await service.read()
    assert "key-never-shown" not in str(caught.value)


async def test_an_answer_without_end_is_not_read_on():
    taken = []

    async def endless():
        while True:
            taken.append(1)
            yield b"[" * 65536

    async def handle(_):
        return BufferedResponse(200, endless())

    reads = Reads(FakeTransport(handle), VirtualClock(), origin="https://h")
    with pytest.raises(BodyError, match="longer than"):
        await reads.once(REQUEST, read_account)
    assert len(taken) == 129
