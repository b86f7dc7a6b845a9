"""What aiohttp refuses of the response to a create is evidence for an operator; one rule for all of its versions."""

import asyncio
import gzip
import zlib

import pytest
from attrs import evolve

from tests.transports import raw_service as raw
from tests.transports.raw_service import Connection, raw_service
from tests.transports.sending import create, read, respond, swallowed
from vidgen_async import Client, Timeouts, UncertainCreateError
from vidgen_async.errors import BodyError, ProtocolError, TransportError
from vidgen_async.transports.direct.bodies import decompress
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import LONGEST_ANSWER, make_headers
from vidgen_async.types.orders import OrderState

VIDEO = {"model": "gen-2.0", "prompt": "a boat", "duration": 5, "order_id": "o"}
BODY = b'{"id":"t-1","status":"queued"}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def answer(*headers: bytes, body: bytes = BODY, status: bytes = b"HTTP/1.1 202 Accepted") -> bytes:
    return b"".join((status, b"\r\n", *headers, b"\r\n", body))


# Whole answers that are refused, as the status that can be read all the same, and the bytes.
REFUSED = {
    "two equal lengths": (202, answer(LENGTH, LENGTH)),
    "two other lengths": (202, answer(LENGTH, b"Content-Length: 3\r\n")),
    "a length that is a list": (202, answer(b"Content-Length: 30, 30\r\n")),
    "a length with a sign": (202, answer(b"Content-Length: +30\r\n")),
    "no length in the header": (202, answer(b"Content-Length: \r\n")),
    "a length and chunks": (202, answer(LENGTH, CHUNKED, body=b"1e\r\n" + BODY + b"\r\n0\r\n\r\n")),
    "a chunk size that is none": (202, answer(CHUNKED, body=b"zz\r\n" + BODY + b"\r\n0\r\n\r\n")),
    "a chunk size that is too small": (202, answer(CHUNKED, body=b"3\r\n" + BODY + b"\r\n0\r\n\r\n")),
    "a NUL in a header": (202, answer(LENGTH, b"X: a\0b\r\n")),
    "a NUL in the name of a header": (202, answer(LENGTH, b"X\0: a\r\n")),
    "a bare CR in a header": (202, answer(LENGTH, b"X: a\rb\r\n")),
    "a blank in the name of a header": (202, answer(LENGTH, b"X y: a\r\n")),
    "a blank before the colon": (202, answer(LENGTH, b"X : a\r\n")),
    "a header without a name": (202, answer(LENGTH, b": a\r\n")),
    "a header without a colon": (202, answer(LENGTH, b"X\r\n")),
    "too many headers": (202, answer(LENGTH, *(b"X: a\r\n" for _ in range(10_001)))),
    "a long header": (202, answer(LENGTH, b"X: " + b"x" * 2_000_000 + b"\r\n")),
    "a long reason": (202, answer(LENGTH, status=b"HTTP/1.1 202 " + b"x" * 100_000)),
    "lines that end with CR": (202, answer(LENGTH).replace(b"\r\n", b"\r")),
    "an unknown version": (202, answer(LENGTH, status=b"HTTP/3 202 Accepted")),
    "a refusal": (400, answer(LENGTH, LENGTH, status=b"HTTP/1.1 400 Bad Request")),
    "a rate limit": (429, answer(LENGTH, LENGTH, status=b"HTTP/1.1 429 Too Many Requests")),
    "after an interim response": (202, b"HTTP/1.1 100 Continue\r\n\r\n" + answer(LENGTH, LENGTH)),
    "a status of four digits": (None, answer(LENGTH, status=b"HTTP/1.1 2020 Accepted")),
    "another protocol": (None, answer(LENGTH, status=b"ICY 202 Accepted")),
    "no head": (None, b"{" + BODY),
}


NOT_FOUND = answer(b"Content-Length: 2\r\n", body=b"{}", status=b"HTTP/1.1 404 Not Found")


def in_segments(data: bytes, cut: int | None, *, end: raw.Behaviour | None = None) -> raw.Behaviour:
    """Answers creates in one segment, or in two, and closes the connection; finds nothing else."""

    async def behaviour(connection: Connection) -> None:
        if not (await connection.request()).startswith(b"POST "):
            await connection.answer(NOT_FOUND)
            return
        for part in (data,) if cut is None else (data[:cut], data[cut:]):
            await connection.answer(part)
            await asyncio.sleep(0.005)
        if end is not None:
            await end(connection)

    return behaviour


def client_of(service: raw.RawService, **limits: float) -> Client:
    return Client("key-of-the-account", base_url=str(service.url("/openapi/v1")), timeouts=Timeouts(**limits))


@pytest.mark.slow
@pytest.mark.parametrize("is_cut", [False, True], ids=["in one segment", "in two"])
@pytest.mark.parametrize(("status", "data"), REFUSED.values(), ids=REFUSED)
async def test_an_order_whose_whole_answer_is_refused_is_uncertain_and_has_it_as_evidence(status, data, is_cut) -> None:
    cut = max(data.find(BODY), 1) if is_cut else None
    async with raw_service(in_segments(data, cut)) as service, client_of(service) as client:
        for _ in range(2):
            with pytest.raises(UncertainCreateError):
                await client.videos.create(**VIDEO)
        order = await client.orders.get("o")
        assert sum(data.startswith(b"POST ") for data in service.received) == 1
    (evidence,) = (attempt.evidence for attempt in order.attempts)
    assert (order.state, evidence.task_id, evidence.candidates) == (OrderState.UNCERTAIN, None, ())
    assert evidence.status == status
    assert BODY in evidence.body.replace(b"\r", b"")
    assert evidence.retry_at is None
    if status is None:
        assert evidence.body == data
    else:
        assert b"HTTP/1.1" not in evidence.body
        assert evidence.headers


@pytest.mark.slow
@pytest.mark.parametrize("end", [raw.hangs, None], ids=["the connection stays open", "it is closed"])
@pytest.mark.parametrize(
    "data",
    [b"HTTP/1.1 202 Accepted\r\nX-Request-Id: r-1\r\nContent-Le", b"HTTP/1.1 202 Accepted\r\nX-Request-Id: r-1\r"],
)
async def test_a_head_that_is_cut_is_evidence_whatever_ended_it(data: bytes, end) -> None:
    for limits in ({"read": 0.1}, {"create": 0.1}):
        async with raw_service(in_segments(data, None, end=end)) as service, client_of(service, **limits) as client:
            with pytest.raises(UncertainCreateError, match="status 202 was received"):
                await client.videos.create(**VIDEO)
            evidence = (await client.orders.get("o")).attempts[0].evidence
        assert (evidence.status, evidence.request_id, evidence.answered) == (202, "r-1", True)


async def test_a_body_that_is_refused_half_way_is_evidence_with_all_of_it() -> None:
    body = b"6\r\n" + BODY[:6] + b"\r\nzz\r\n" + BODY[6:]
    async with raw_service(in_segments(answer(CHUNKED, body=body), 60)) as service, client_of(service) as client:
        with pytest.raises(UncertainCreateError, match="was cut short"):
            await client.videos.create(**VIDEO)
        evidence = (await client.orders.get("o")).attempts[0].evidence
    assert (evidence.status, evidence.body, evidence.candidates) == (202, body, ())


@pytest.mark.slow
async def test_what_follows_a_refused_head_for_longer_than_a_second_is_not_waited_for() -> None:
    async with (
        raw_service(in_segments(answer(LENGTH, LENGTH), None, end=raw.hangs)) as service,
        client_of(service) as client,
    ):
        async with asyncio.timeout(3):
            with pytest.raises(UncertainCreateError):
                await client.videos.create(**VIDEO)
        assert (await client.orders.get("o")).attempts[0].evidence.body == BODY


@pytest.mark.slow
async def test_an_endless_refused_answer_is_kept_in_part() -> None:
    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.answer(answer(LENGTH, LENGTH))
        while True:
            await connection.answer(b"x" * (1 << 20))

    async with raw_service(endless) as service:
        transport = DirectTransport()
        async with transport.connect(create(service.url())) as connection:
            with pytest.raises(ProtocolError):
                await connection.send()
            assert len(BODY) < len(connection.unparsed) <= LONGEST_ANSWER
        await transport.aclose()


async def test_nothing_is_kept_of_a_response_that_is_http() -> None:
    async with raw_service(raw.responds(answer(LENGTH))) as service:
        transport = DirectTransport()
        async with transport.connect(create(service.url())) as connection:
            async with await connection.send() as response:
                assert await response.read() == BODY
            assert connection.unparsed == b""
        await transport.aclose()


# -- one rule for all versions of aiohttp ------------------------------------------------------------------------------

DISPUTED = ("two equal lengths", "two other lengths", "a length and chunks", "a NUL in a header", "too many headers")


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("form", DISPUTED)
async def test_reads_refuse_the_same_heads(form: str) -> None:
    async with raw_service(raw.responds(REFUSED[form][1])) as service:
        transport = DirectTransport()
        for pool in ("polls", "reads", "streams"):
            with pytest.raises(TransportError) as caught:
                await swallowed(transport, evolve(read(service.url(), Accept="application/json"), pool=pool))
            assert type(caught.value) is ProtocolError
        await transport.aclose()
        await service.quiet()


MEMBER, HALF = gzip.compress(BODY), gzip.compress(BODY[:9])
RAW_DEFLATE = zlib.compress(BODY)[2:-4]
COMPRESSED = {
    "gzip": ("gzip", MEMBER, BODY),
    "x-gzip": ("x-gzip", MEMBER, BODY),
    "in capitals": ("GZIP", MEMBER, BODY),
    "gzip, and bytes": ("gzip", MEMBER + b"xx", BODY),
    "gzip, and NULs": ("gzip", MEMBER + bytes(8), BODY),
    "two members": ("gzip", HALF + gzip.compress(BODY[9:]), BODY),
    "an empty member": ("gzip", MEMBER + gzip.compress(b""), BODY),
    "a member that is cut": ("gzip", MEMBER[:-4], None),
    "a second member that is cut": ("gzip", HALF + gzip.compress(BODY[9:])[:-4], None),
    "a wrong checksum": ("gzip", MEMBER[:-8] + b"abcdefgh", None),
    "gzip twice": ("gzip, gzip", gzip.compress(MEMBER), BODY),
    "gzip and identity": ("gzip, identity", MEMBER, BODY),
    "zlib": ("deflate", zlib.compress(BODY), BODY),
    "zlib, and bytes": ("deflate", zlib.compress(BODY) + b"xx", BODY),
    "raw deflate": ("deflate", RAW_DEFLATE, BODY),
    "gzip as deflate": ("deflate", MEMBER, BODY),
    "too long": ("gzip", gzip.compress(bytes(LONGEST_ANSWER + 1)), None),
    "not compressed": ("gzip", BODY, None),
    "empty": ("gzip", b"", b""),
    "an unknown coding": ("zstd", BODY, BODY),
}


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize(("coding", "data", "body"), COMPRESSED.values(), ids=COMPRESSED)
async def test_a_compressed_answer_is_read_by_one_rule(coding: str, data: bytes, body: bytes | None) -> None:
    headers = f"Content-Encoding: {coding}\r\nContent-Length: {len(data)}\r\n".encode()

    async def behaviour(connection: Connection) -> None:
        while True:
            assert b"Accept-Encoding: gzip, deflate\r\n" in await connection.request()
            await connection.answer(answer(headers, body=data))

    async with raw_service(behaviour) as service:
        transport = DirectTransport()
        request = read(service.url(), Accept="application/json")
        if body is None:
            with pytest.raises(BodyError, match="compressed"):
                await swallowed(transport, request)
        else:
            assert await swallowed(transport, request) == body
            async with respond(transport, request) as response:
                assert b"".join([chunk async for chunk in response.chunks(7)]) == body
                with pytest.raises(BodyError, match="already read"):
                    await response.read()
        assert len(service.connections) == 1
        await transport.aclose()


@pytest.mark.parametrize(("coding", "data", "body"), COMPRESSED.values(), ids=COMPRESSED)
async def test_a_receipt_is_read_from_the_same_answers(coding: str, data: bytes, body: bytes | None) -> None:
    headers = f"Content-Encoding: {coding}\r\nContent-Length: {len(data)}\r\n".encode()
    is_read = body == BODY or data == BODY  # what is JSON as it was received is read in spite of a wrong header
    async with raw_service(in_segments(answer(headers, body=data), None)) as service, client_of(service) as client:
        if is_read:
            assert (await client.videos.create(**VIDEO)).task_id == "t-1"
        else:
            with pytest.raises(UncertainCreateError) as caught:
                await client.videos.create(**VIDEO)
            assert caught.value.attempts[0].evidence.body == data


def test_compressed_data_is_not_decompressed_without_a_limit() -> None:
    members = gzip.compress(bytes(LONGEST_ANSWER // 2)) * 3
    with pytest.raises(ValueError, match="too long"):
        decompress(members, make_headers({"Content-Encoding": "gzip"}))


# -- bodies of responses that have none --------------------------------------------------------------------------------


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("length", [b"", b"Content-Length: 10\r\n"], ids=["without a length", "with one"])
@pytest.mark.parametrize("status", [b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified"])
async def test_after_a_status_without_a_body_the_next_read_uses_another_connection(status, length) -> None:
    async def behaviour(connection: Connection) -> None:
        await connection.request()
        is_first = service.requests_begun == 1
        await connection.answer(answer(length, body=b"", status=status) if is_first else raw.OK)
        await connection.rest()

    async with raw_service(behaviour) as service:
        transport = DirectTransport()
        request = read(service.url(), Accept="application/json")
        assert [await swallowed(transport, request) for _ in range(2)] == [b"", b"ok"]
        assert len(service.connections) == 2
        await transport.aclose()


EMPTY = {
    "200, without a length of 0": answer(b"Content-Length: 0\r\n", body=b""),
    "200, compressed": answer(b"Content-Encoding: gzip\r\n", b"Content-Length: 0\r\n", body=b""),
    "200, in chunks": answer(CHUNKED, body=b"0\r\n\r\n"),
    "404": answer(b"Content-Length: 0\r\n", body=b"", status=b"HTTP/1.1 404 Not Found"),
}


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("data", EMPTY.values(), ids=EMPTY)
async def test_a_read_that_ends_without_a_body_leaves_its_connection_open(data: bytes) -> None:
    async def behaviour(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.answer(data)

    async with raw_service(behaviour) as service:
        async with Client("k", base_url=str(service.url("/openapi/v1")), retry_reads_for=0) as client:
            for _ in range(3):
                with pytest.raises(Exception, match=r"account\.get"):
                    await client.account.get()
        assert (service.requests_begun, len(service.connections)) == (3, 1)
