"""The rules of the contract about requests, responses and their bodies."""

import asyncio
import hashlib
from itertools import product

import pytest

from vidgen_async.errors import BodyError
from vidgen_async.transports.base import Response, Transport
from vidgen_async.transports.contract.harness import (
    CREATE,
    FIRST,
    LONG_BODY,
    RESPONSES,
    REST,
    ContractTests,
    Harness,
    ReceivedRequest,
    Scenario,
    bounded,
    by_both_ways,
    time_limit,
)

METHODS = ("GET", "POST", "PUT", "DELETE")


async def whole(response: Response) -> bytes:
    return await bounded(response.read(), "read() must return or raise")


async def answer(
    harness: Harness, path: str, *, op: str = CREATE, method: str = "POST", read: float = 60.0
) -> tuple[int, bytes]:
    async with harness.send(harness.request(path, op=op, method=method, read=read)) as response:
        return response.status, await whole(response)


class ResponseTests(ContractTests):
    """What is sent and returned when nothing fails."""

    async def test_it_is_a_transport(self) -> None:
        async with self.harness() as harness:
            assert isinstance(harness.transport, Transport), "a transport derives from Transport"

    @by_both_ways
    async def test_the_service_gets_one_request_as_it_was_made(self, op: str) -> None:
        async with self.harness() as harness:
            for sent, method in enumerate(METHODS):
                await answer(harness, "/short", method=method, op=op)
                expected = [ReceivedRequest(method, "/short", b"" if method == "GET" else b"{}")]
                assert list(harness.received[sent:]) == expected, f"{method}: one send is one request, as it was made"

    @by_both_ways
    async def test_headers_are_sent_unchanged_with_those_of_the_body(self, op: str) -> None:
        given = (("Accept", "application/json"), ("X-Twice", "one"), ("X-Twice", "two"))
        async with (
            self.harness() as harness,
            harness.send(harness.request(Scenario.HEADERS, op=op, headers=given)) as response,
        ):
            lines = (await whole(response)).decode().splitlines()
        given_lines = [line for line in lines if line.startswith(("accept:", "x-twice:"))]
        assert given_lines == ["accept: application/json", "x-twice: one", "x-twice: two"], "headers are sent unchanged"
        assert {"content-type: application/json", "content-length: 2"} <= set(lines), "a body is sent with its headers"

    @by_both_ways
    async def test_a_long_body_is_sent_completely_each_time(self, op: str) -> None:
        async with self.harness() as harness:
            request = harness.request(Scenario.DIGEST, op=op, body=LONG_BODY)
            for _ in range(2):
                async with harness.send(request) as response:
                    assert await whole(response) == hashlib.sha256(LONG_BODY).hexdigest().encode()

    @by_both_ways
    async def test_no_cookie_is_stored(self, op: str) -> None:
        async with self.harness() as harness:
            await answer(harness, "/cookie", op=op, method="GET")
            _, headers = await answer(harness, Scenario.HEADERS, op=op, method="GET")
        assert "cookie:" not in headers.decode(), "a cookie of the service is not sent back"

    @by_both_ways
    async def test_fifty_concurrent_sends_get_their_own_responses(self, op: str) -> None:
        async with self.harness() as harness:
            paths = ["/short", "/limit"] * 25
            ends = await asyncio.gather(*(answer(harness, path, op=op) for path in paths))
        assert ends == [(200, b"short"), (429, b"slow down")] * 25

    @by_both_ways
    async def test_a_response_has_status_headers_url_and_body(self, op: str) -> None:
        async with self.harness() as harness:
            request = harness.request("/short", op=op)
            async with harness.send(request) as response:
                assert (response.status, response.url) == (200, request.url)
                assert (response.headers["etag"], response.headers["ETag"]) == ('"v1"', '"v1"')
                assert await whole(response) == b"short"

    async def test_headers_that_are_received_twice_are_returned_twice(self) -> None:
        async with self.harness() as harness, harness.send(harness.request("/twice")) as response:
            assert response.headers.getall("ratelimit-policy") == ["10;w=1", "50;w=60"]

    @by_both_ways
    async def test_no_status_is_raised_followed_or_retried(self, op: str) -> None:
        rows = product(("GET", "POST"), ("/empty", "/found", "/moved", "/limit", "/broken", "/busy"))
        async with self.harness() as harness:
            for sent, (method, path) in enumerate(rows):
                got = await answer(harness, path, method=method, op=op)
                expected = (RESPONSES[path].status, RESPONSES[path].body)
                assert got == expected, f"{method} {path}: a status is returned, neither raised nor followed"
                await harness.settle()
                assert [request.path for request in harness.received[sent:]] == [path], (
                    f"{method} {path}: one send, one request"
                )

    @by_both_ways
    async def test_a_body_is_read_twice_as_the_same_bytes(self, op: str) -> None:
        async with self.harness() as harness:
            for path in ("/json", "/long"):
                async with harness.send(harness.request(path, op=op)) as response:
                    first, second = await whole(response), await whole(response)
                third = await whole(response)
                assert first == RESPONSES[path].body, f"{path}: bodies are returned as bytes, not decoded"
                assert second is first, f"{path}: a second read returns the same bytes"
                assert third == first, f"{path}: also after closing"

    @by_both_ways
    async def test_chunks_have_at_most_the_requested_size(self, op: str) -> None:
        async with self.harness() as harness:
            for size in (1000, 65536, 10_000_000):
                async with harness.send(harness.request("/long", op=op)) as response:
                    parts = [chunk async for chunk in response.chunks(size)]
                assert b"".join(parts) == LONG_BODY, f"chunks({size}) returns the whole body"
                assert max(map(len, parts)) <= size, f"chunks({size}) returns chunks of at most that size"
                assert all(parts), f"chunks({size}): no chunk is empty"

    async def test_chunks_after_read_return_the_same_bytes_each_time(self) -> None:
        async with self.harness() as harness, harness.send(harness.request("/long")) as response:
            await whole(response)
            for _ in range(2):
                parts = [chunk async for chunk in response.chunks(1000)]
                assert (b"".join(parts) == LONG_BODY, max(map(len, parts))) == (True, 1000)

    async def test_an_empty_body_has_no_chunks(self) -> None:
        async with self.harness() as harness, harness.send(harness.request("/empty")) as response:
            assert [chunk async for chunk in response.chunks()] == []

    async def test_a_body_that_was_streamed_cannot_be_read_again(self) -> None:
        async with self.harness() as harness, harness.send(harness.request("/long")) as response:
            async for _ in response.chunks():
                pass
            with pytest.raises(BodyError):
                await whole(response)
            with pytest.raises(BodyError):
                await anext(response.chunks())

    @by_both_ways
    async def test_a_body_is_returned_as_it_is_received(self, op: str) -> None:
        async with self.harness() as harness, harness.send(harness.request(Scenario.SLOW, op=op)) as response:
            assert response.status == 200, "send() returns before the body was received"
            chunks, got = response.chunks(), b""
            async with time_limit("a received chunk must be returned before the rest is received"):
                while len(got) < len(FIRST):
                    got += await anext(chunks)
            harness.resume()
            async for chunk in chunks:
                got += chunk
        assert got == FIRST + REST

    async def test_leaving_the_block_releases_the_response(self) -> None:
        async with self.harness() as harness:
            async with harness.send(harness.request("/long")) as response:
                pass
            with pytest.raises(BodyError):
                await whole(response)
            await response.aclose()
            await response.aclose()

    @by_both_ways
    async def test_leaving_the_block_releases_an_incomplete_body(self, op: str) -> None:
        async with self.harness() as harness:
            async with harness.send(harness.request(Scenario.ENDLESS, op=op)) as response:
                pass
            async with time_limit("the connection of a response that was left early must be closed"):
                await harness.wait_for_open_requests()
            # Referenced until here, so that it is not closed by the garbage collector.
            del response
