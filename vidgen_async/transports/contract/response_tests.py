"""The sentences of the contract about requests, answers and their bodies."""

import asyncio
import hashlib
from itertools import product

import pytest

from vidgen_async.errors import BodyError
from vidgen_async.transports.base import Response, Transport
from vidgen_async.transports.contract.harness import OnStage, Stage, only_what_may_escape, soon
from vidgen_async.transports.contract.service import ANSWERS, FIRST, LONG_BODY, REST, Asked, Scene
from vidgen_async.types.http import Probe

METHODS = ("GET", "POST", "PUT", "DELETE")

with_and_without_probe = pytest.mark.parametrize("is_probed", [False, True], ids=["no probe", "probe"])


def probe_if(is_probed: bool) -> Probe | None:
    return Probe() if is_probed else None


async def whole(response: Response) -> bytes:
    with only_what_may_escape():
        async with soon("read() must return or raise"):
            return await response.read()


async def answer(stage: Stage, path: str, *, method: str = "POST", probe: Probe | None = None) -> tuple[int, bytes]:
    async with await stage.send(stage.request(path, method=method), probe) as response:
        return response.status, await whole(response)


class Answers(OnStage):
    """What goes out and what comes back when all goes well."""

    async def test_it_has_the_two_methods_of_a_transport(self) -> None:
        async with self.stage() as stage:
            assert isinstance(stage.transport, Transport), "a transport has send() and aclose()"

    # -- requests ------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_the_service_gets_one_request_as_it_was_made(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            for sent, method in enumerate(METHODS):
                await answer(stage, "/short", method=method, probe=probe_if(is_probed))
                expected = [Asked(method, "/short", b"" if method == "GET" else b"{}")]
                assert list(stage.asked[sent:]) == expected, f"{method}: one send is one request, as it was made"

    @with_and_without_probe
    async def test_headers_go_out_as_they_are_with_those_of_the_body(self, is_probed: bool) -> None:
        given = (("Accept", "application/json"), ("X-Twice", "one"), ("X-Twice", "two"))
        async with self.stage() as stage:
            request = stage.request(Scene.HEADERS, headers=given)
            async with await stage.send(request, probe_if(is_probed)) as response:
                lines = (await whole(response)).decode().splitlines()
        told = [line for line in lines if line.startswith(("accept:", "x-twice:"))]
        assert told == ["accept: application/json", "x-twice: one", "x-twice: two"], "headers go out as they are"
        assert {"content-type: application/json", "content-length: 2"} <= set(lines), "a body says what it is"

    @with_and_without_probe
    async def test_a_long_body_goes_out_whole_each_time_it_is_sent(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            request = stage.request(Scene.DIGEST, body=LONG_BODY)
            for _ in range(2):
                async with await stage.send(request, probe_if(is_probed)) as response:
                    assert await whole(response) == hashlib.sha256(LONG_BODY).hexdigest().encode()

    async def test_no_cookie_is_kept(self) -> None:
        async with self.stage() as stage:
            await answer(stage, "/cookie", method="GET")
            _, headers = await answer(stage, Scene.HEADERS, method="GET")
        assert "cookie:" not in headers.decode(), "what a service sets is not sent back"

    @with_and_without_probe
    async def test_fifty_sends_at_once_get_their_own_answers(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            paths = ["/short", "/limit"] * 25
            ends = await asyncio.gather(*(answer(stage, path, probe=probe_if(is_probed)) for path in paths))
        assert ends == [(200, b"short"), (429, b"slow down")] * 25

    # -- answers -------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_an_answer_has_status_headers_url_and_body(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            request = stage.request("/short")
            async with await stage.send(request, probe_if(is_probed)) as response:
                assert (response.status, response.url) == (200, request.url)
                assert (response.headers["etag"], response.headers["ETag"]) == ('"v1"', '"v1"')
                assert await whole(response) == b"short"

    async def test_headers_that_come_twice_are_kept_twice(self) -> None:
        async with self.stage() as stage, await stage.send(stage.request("/twice")) as response:
            assert response.headers.getall("ratelimit-policy") == ["10;w=1", "50;w=60"]

    @with_and_without_probe
    async def test_no_status_is_raised_followed_or_tried_again(self, is_probed: bool) -> None:
        rows = product(("GET", "POST"), ("/empty", "/found", "/moved", "/limit", "/broken", "/busy"))
        async with self.stage() as stage:
            for sent, (method, path) in enumerate(rows):
                got = await answer(stage, path, method=method, probe=probe_if(is_probed))
                expected = (ANSWERS[path].status, ANSWERS[path].body)
                assert got == expected, f"{method} {path}: a status is an answer, neither raised nor followed"
                await stage.settle()
                assert [asked.path for asked in stage.asked[sent:]] == [path], f"{method} {path}: one send, one request"

    # -- bodies --------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_a_body_is_read_twice_as_the_same_bytes(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            for path in ("/json", "/long"):
                async with await stage.send(stage.request(path), probe_if(is_probed)) as response:
                    first, second = await whole(response), await whole(response)
                third = await whole(response)
                assert first == ANSWERS[path].body, f"{path}: bodies are handed on as bytes, undecoded"
                assert second is first, f"{path}: what was read is kept"
                assert third == first, f"{path}: after closing too"

    @with_and_without_probe
    async def test_chunks_are_at_most_as_long_as_asked(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            for size in (1000, 65536, 10_000_000):
                async with await stage.send(stage.request("/long"), probe_if(is_probed)) as response:
                    pieces = [piece async for piece in response.chunks(size)]
                assert b"".join(pieces) == LONG_BODY, f"chunks({size}) gives the whole body"
                assert max(map(len, pieces)) <= size, f"chunks({size}) gives pieces of at most that size"
                assert all(pieces), f"chunks({size}): no piece is empty"

    async def test_chunks_after_read_give_the_kept_bytes_again_and_again(self) -> None:
        async with self.stage() as stage, await stage.send(stage.request("/long")) as response:
            await whole(response)
            for _ in range(2):
                pieces = [piece async for piece in response.chunks(1000)]
                assert (b"".join(pieces) == LONG_BODY, max(map(len, pieces))) == (True, 1000)

    async def test_an_empty_body_has_no_chunks(self) -> None:
        async with self.stage() as stage, await stage.send(stage.request("/empty")) as response:
            assert [piece async for piece in response.chunks()] == []

    async def test_a_body_that_was_streamed_is_not_there_to_read(self) -> None:
        async with self.stage() as stage, await stage.send(stage.request("/long")) as response:
            async for _ in response.chunks():
                pass
            with pytest.raises(BodyError):
                await whole(response)
            with pytest.raises(BodyError):
                await anext(response.chunks())

    @with_and_without_probe
    async def test_send_returns_before_the_body_has_come(self, is_probed: bool) -> None:
        async with self.stage() as stage, await stage.send(stage.request(Scene.SLOW), probe_if(is_probed)) as response:
            assert response.status == 200
            stage.let_go()
            assert await whole(response) == FIRST + REST

    @with_and_without_probe
    async def test_a_body_is_handed_on_as_it_comes(self, is_probed: bool) -> None:
        async with self.stage() as stage, await stage.send(stage.request(Scene.SLOW), probe_if(is_probed)) as response:
            chunks, got = response.chunks(), b""
            async with soon("the piece that has come must be handed on before the rest comes"):
                while len(got) < len(FIRST):
                    got += await anext(chunks)
            stage.let_go()
            async for piece in chunks:
                got += piece
        assert got == FIRST + REST

    async def test_leaving_the_block_releases_the_answer(self) -> None:
        async with self.stage() as stage:
            async with await stage.send(stage.request("/long")) as response:
                pass
            with pytest.raises(BodyError):
                await whole(response)
            await response.aclose()
            await response.aclose()

    @with_and_without_probe
    async def test_leaving_the_block_lets_go_of_a_body_that_is_still_coming(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            async with await stage.send(stage.request(Scene.ENDLESS), probe_if(is_probed)) as response:
                pass
            async with soon("the connection of an answer that was left half-way must be closed"):
                await stage.until_released()
            # Until here it is held, so that it is not closed by being forgotten.
            del response
