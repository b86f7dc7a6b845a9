"""The rules of the contract about creates, evidence, failures, cancellation and closing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest

from vidgen_async.errors import BodyError, TransportClosedError, TransportError
from vidgen_async.transports.base import Response
from vidgen_async.transports.contract.harness import (
    CREATE,
    FIRST,
    ContractTests,
    Harness,
    Scenario,
    bounded,
    by_both_ways,
    time_limit,
)
from vidgen_async.transports.contract.response_tests import METHODS, answer, whole
from vidgen_async.types.http import Delivery

#: Read timeouts in seconds: where nothing is ever received, and where the beginning of a response is received first.
SHORT, LONGER = 0.05, 0.3
#: Where the connection is lost after the request has arrived.
LOST = (Scenario.DROPPED, Scenario.RESET, Scenario.HALF)


@asynccontextmanager
async def start_send(harness: Harness, op: str) -> AsyncIterator["asyncio.Task[tuple[int, bytes]]"]:
    """A send without a response, which the service has received; it is cancelled when the block is left."""
    sending = asyncio.create_task(answer(harness, Scenario.SILENT, op=op))
    try:
        async with time_limit("a request that is sent must reach the service"):
            while not harness.received and not sending.done():  # noqa: ASYNC110 - a user's harness sets no event
                await asyncio.sleep(0)
        if sending.done():
            pytest.fail(f"a send without a response must not end by itself: {sending}")
        yield sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def failure(harness: Harness, path: str, op: str, method: str = "POST") -> TransportError:
    """The error of a send that must fail."""
    try:
        await answer(harness, path, op=op, method=method, read=SHORT)
    except TransportError as raised:
        error = raised
    else:
        pytest.fail(f"{method} {path}: a send without a response must raise a TransportError")
    assert error.op == op, f"{method} {path}: a TransportError names the operation"
    return error


async def check_nothing_was_sent(harness: Harness) -> None:
    await harness.settle()
    assert list(harness.received) == [], "before connection.send() nothing is sent"
    async with time_limit("the connection of a create that was not sent must be closed"):
        await harness.wait_for_connections()


class FailureTests(ContractTests):
    """What is known, raised and released when a send fails, or a create is not sent."""

    async def test_connect_sends_nothing_and_its_connection_sends_once(self) -> None:
        async with self.harness() as harness, harness.connect(harness.request()) as connection:
            await harness.settle()
            assert list(harness.received) == [], "connect() sends nothing"
            assert connection.is_ready, "a connection that is open is ready"
            async with await bounded(connection.send(), "send() must return or raise") as response:
                assert await whole(response) == b"short"
            with pytest.raises(RuntimeError):
                await connection.send()
            await harness.settle()
            assert len(harness.received) == 1, "a connection sends one request"

    async def test_what_is_raised_in_the_block_is_raised_unchanged_and_nothing_is_sent(self) -> None:
        async with self.harness() as harness:
            # None, and classes that a transport converts when the network raises them.
            for error in (None, OSError("the journal is gone"), TimeoutError(), asyncio.CancelledError(), SystemExit()):
                raised = None
                try:
                    async with harness.connect(harness.request()):
                        if error is not None:
                            raise error
                except BaseException as caught:  # noqa: BLE001 - compared below
                    raised = caught
                assert raised is error, "what is raised in the block is raised unchanged"
                await check_nothing_was_sent(harness)

    async def test_a_create_that_is_cancelled_before_it_is_sent_sends_nothing(self) -> None:
        async def connect() -> None:
            async with harness.connect(harness.request()):
                entered.set()
                await asyncio.Event().wait()

        async with self.harness() as harness:
            for steps in (0, 1, 2, 3, 5, None):
                entered = asyncio.Event()
                creating = asyncio.create_task(connect())
                async with time_limit("connect() must yield"):
                    for _ in range(steps or 0):
                        await asyncio.sleep(0)
                    if steps is None:
                        await entered.wait()
                creating.cancel()
                await cancelled(creating)
                await check_nothing_was_sent(harness)

    async def test_closing_ends_a_create_that_is_not_sent(self) -> None:
        async with self.harness() as harness, harness.connect(harness.request()) as connection:
            await close(harness)
            if connection.is_ready:
                with pytest.raises(TransportClosedError):
                    await bounded(connection.send(), "send() must raise")
            await check_nothing_was_sent(harness)

    @by_both_ways
    async def test_a_refused_connection_is_a_transport_error(self, op: str) -> None:
        async with self.harness() as harness:
            await failure(harness, Scenario.REFUSED, op)
            await harness.settle()
            assert Scenario.REFUSED not in [request.path for request in harness.received]

    @by_both_ways
    async def test_a_lost_connection_is_one_request_that_may_have_arrived(self, op: str) -> None:
        async with self.harness() as harness:
            for path, method in product(LOST, METHODS):
                sent = len(harness.received)
                error = await failure(harness, path, op, method)
                await harness.settle()
                got = [(request.method, request.path) for request in harness.received[sent:]]
                # A pool of connections may repeat what is idempotent and no create.
                expected = [(method, path)] if op == CREATE or method == "POST" else got[:2]
                assert got == expected, f"{method} {path}: one send is one request"
                allowed = {Delivery.MAYBE_SENT, Delivery.ANSWERED} if path == Scenario.HALF else {Delivery.MAYBE_SENT}
                assert error.delivery in allowed, f"{method} {path}: the service may have received it"

    @by_both_ways
    async def test_a_send_that_fails_leaves_no_connection_behind(self, op: str) -> None:
        async with self.harness() as harness:
            for path in (Scenario.GARBAGE, Scenario.SILENT):
                error = await failure(harness, path, op)
                assert error.delivery != Delivery.NOT_SENT, f"{path}: the service has received it"
                async with time_limit(f"{path}: the connection of a send that failed must be closed"):
                    await harness.wait_for_open_requests()

    @by_both_ways
    async def test_a_send_that_is_cancelled_leaves_no_connection_behind(self, op: str) -> None:
        async with self.harness() as harness, start_send(harness, op) as sending:
            await harness.settle()
            sending.cancel()
            await cancelled(sending)
            async with time_limit("the connection of a send that was cancelled must be closed"):
                await harness.wait_for_open_requests()

    @by_both_ways
    async def test_an_incomplete_body_is_a_body_error_with_what_was_received(self, op: str) -> None:
        async with self.harness() as harness, harness.send(harness.request(Scenario.CUT, op=op)) as response:
            error, got = await broken_chunks(harness, response)
        assert (error.received, error.delivery) == (len(got), Delivery.ANSWERED)
        assert got == FIRST, "what was received is returned"

    @by_both_ways
    async def test_an_incomplete_body_that_is_read_is_a_body_error(self, op: str) -> None:
        async with self.harness() as harness:
            harness.resume()
            async with harness.send(harness.request(Scenario.CUT, op=op)) as response:
                with pytest.raises(BodyError) as caught:
                    await whole(response)
        assert caught.value.delivery == Delivery.ANSWERED
        assert 0 <= caught.value.received <= len(FIRST)

    async def test_a_body_that_times_out_is_a_body_error(self) -> None:
        async with self.harness() as harness:
            async with harness.send(harness.request(Scenario.ENDLESS, read=LONGER)) as response:
                error, got = await broken_chunks(harness, response)
            async with time_limit("the connection of a body that timed out must be closed"):
                await harness.wait_for_open_requests()
        assert (error.received, error.delivery) == (len(got), Delivery.ANSWERED)

    @by_both_ways
    async def test_after_closing_a_send_is_refused(self, op: str) -> None:
        async with self.harness() as harness:
            await close(harness)
            await close(harness)
            error = await failure(harness, "/short", op)
            await harness.settle()
            assert (type(error), error.delivery) == (TransportClosedError, Delivery.NOT_SENT)
            assert list(harness.received) == []

    @by_both_ways
    async def test_closing_ends_the_kept_alive_connections(self, op: str) -> None:
        async with self.harness() as harness:
            await answer(harness, "/short", op=op)
            await close(harness)
            async with time_limit("closing the transport must close its connections"):
                await harness.wait_for_connections()

    @by_both_ways
    async def test_closing_ends_the_sends_in_progress(self, op: str) -> None:
        async with self.harness() as harness, start_send(harness, op) as sending:
            await close(harness)
            async with time_limit("a send in progress must end when its transport is closed"):
                await asyncio.wait({sending})
            assert not sending.cancelled(), "its caller did not cancel it"
            error = sending.exception()
            assert isinstance(error, TransportClosedError)
            assert error.delivery == Delivery.MAYBE_SENT, "the service has received it"

    @by_both_ways
    async def test_closing_ends_the_bodies_that_are_incomplete(self, op: str) -> None:
        async with self.harness() as harness, harness.send(harness.request(Scenario.ENDLESS, op=op)) as response:
            await close(harness)
            with pytest.raises(BodyError):
                await whole(response)


async def close(harness: Harness) -> None:
    async with time_limit("aclose() must return"):
        await harness.transport.aclose()


async def cancelled(sending: "asyncio.Task[tuple[int, bytes]] | asyncio.Task[None]") -> None:
    async with time_limit("a cancelled send must end"):
        await asyncio.wait({sending})
    assert sending.cancelled(), f"a cancelled send ends as cancelled: {sending}"


async def broken_chunks(harness: Harness, response: Response) -> tuple[BodyError, bytes]:
    """The error of an incomplete body, and what was received of it; the service continues after the first part."""
    got = bytearray()

    async def receive() -> None:
        async for chunk in response.chunks():
            got.extend(chunk)
            if len(got) >= len(FIRST):
                harness.resume()

    try:
        await bounded(receive(), "chunks() must end or raise")
    except BodyError as error:
        return error, bytes(got)
    pytest.fail("an incomplete body must end with a BodyError")
