"""The rules of the contract about the gate, the evidence, failures, cancellation and closing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest

from vidgen_async.errors import BodyError, TransportClosedError, TransportError
from vidgen_async.transports.base import Response
from vidgen_async.transports.contract.harness import (
    ContractTests,
    Harness,
    RecordingProbe,
    RefusingGateError,
    check_errors,
    time_limit,
)
from vidgen_async.transports.contract.response_tests import METHODS, answer, probe_if, whole, with_and_without_probe
from vidgen_async.transports.contract.service import FIRST, ReceivedRequest, Scenario
from vidgen_async.types.http import Delivery, Phase, Probe, Request

#: Read timeouts in seconds: where nothing is ever received, and where the beginning of a response is received first.
SHORT, LONGER = 0.05, 0.3
#: Where the connection is lost after the request has arrived.
LOST = (Scenario.DROPPED, Scenario.RESET, Scenario.HALF)


def limit_for(path: str) -> float:
    return SHORT if path == Scenario.SILENT else 60.0


@asynccontextmanager
async def start_send(
    harness: Harness, request: Request, probe: Probe | None = None
) -> AsyncIterator[asyncio.Task[Response]]:
    """A send that the service has received; it is cancelled when the block is left."""
    sending = asyncio.create_task(harness.send(request, probe))
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


async def failure(harness: Harness, request: Request, probe: Probe | None) -> TransportError:
    """The error of a send that must fail; its evidence must be that of the probe."""
    row = f"{request.method} {request.url.path}"
    error = None
    try:
        await harness.send(request, probe)
    except TransportError as raised:
        error = raised
    if error is None:
        pytest.fail(f"{row}: a send without a response must raise a TransportError")
    assert error.op == request.op, f"{row}: a TransportError names the operation"
    if probe is not None and harness.honours_gate:
        assert error.delivery == probe.delivery, f"{row}: the error and the probe say the same of the delivery"
    return error


class FailureTests(ContractTests):
    """What is known, raised and released when a send fails."""

    # -- gate and evidence ---------------------------------------------------------------------------------------------

    async def test_the_gate_is_passed_once_and_before_the_service_receives_anything(self) -> None:
        counts: list[int] = []

        async def gate() -> None:
            await harness.settle()
            counts.append(len(harness.received))

        async with self.harness() as harness:
            await answer(harness, "/short", probe=Probe(gate=gate))
            assert len(harness.received) == 1
        assert counts == [0], "the gate is passed once, before the service has received anything"

    async def test_what_the_gate_raises_is_raised_unchanged_and_nothing_is_sent(self) -> None:
        async def gate() -> None:
            raise error

        error = RefusingGateError("the journal is gone")
        probe = Probe(gate=gate)
        async with self.harness() as harness:
            with pytest.raises(RefusingGateError) as caught:
                await harness.send(harness.request(), probe)
            await harness.settle()
            assert (list(harness.received), probe.delivery) == ([], Delivery.NOT_SENT)
        assert caught.value is error

    async def test_a_send_that_is_cancelled_at_the_gate_sends_nothing(self) -> None:
        async def gate() -> None:
            reached.set()
            await asyncio.Event().wait()

        reached = asyncio.Event()
        probe = Probe(gate=gate)
        async with self.harness() as harness:
            sending = asyncio.create_task(harness.send(harness.request(), probe))
            async with time_limit("the gate must be awaited"):
                await reached.wait()
            sending.cancel()
            await cancelled(sending)
            await harness.settle()
            assert (list(harness.received), probe.delivery) == ([], Delivery.NOT_SENT)

    async def test_evidence_only_grows(self) -> None:
        async with self.harness() as harness:
            for path in ("/short", Scenario.DROPPED, Scenario.SILENT, Scenario.REFUSED):
                probe = RecordingProbe()
                try:
                    async with await harness.send(harness.request(path, read=limit_for(path)), probe) as response:
                        await whole(response)
                except TransportError:
                    assert path != "/short", "a response is not a failure"
                deliveries = [*probe.deliveries, probe.delivery]
                assert deliveries == sorted(deliveries, key=list(Delivery).index), f"{path}: evidence only grows"

    async def test_a_send_that_returns_has_recorded_that_it_was_answered(self) -> None:
        probe = Probe()
        async with self.harness() as harness, await harness.send(harness.request(Scenario.SLOW), probe):
            if harness.honours_gate:
                assert (probe.delivery, probe.phase) == (Delivery.ANSWERED, Phase.BODY)

    # -- failures ------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_a_refused_connection_is_a_transport_error_and_nothing_was_sent(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.harness() as harness:
            error = await failure(harness, harness.request(Scenario.REFUSED), probe)
            await harness.settle()
            assert Scenario.REFUSED not in [request.path for request in harness.received]
            if probe is not None:
                assert probe.delivery == harness.unsent, "without a connection, nothing was sent"
                is_unsent = harness.unsent == Delivery.NOT_SENT
                assert probe.is_proven_not_sent == is_unsent, "a failure to connect is recorded on the probe"
                assert not harness.honours_gate or error.delivery == Delivery.NOT_SENT

    async def test_with_a_probe_a_lost_connection_is_one_request_that_may_have_arrived(self) -> None:
        async with self.harness() as harness:
            for sent, (path, method) in enumerate(product(LOST, METHODS)):
                probe = Probe()
                await failure(harness, harness.request(path, method=method), probe)
                await harness.settle()
                got = [(request.method, request.path) for request in harness.received[sent:]]
                assert got == [(method, path)], f"{method} {path}: one send is one request"
                allowed = {Delivery.MAYBE_SENT, Delivery.ANSWERED} if path == Scenario.HALF else {Delivery.MAYBE_SENT}
                assert probe.delivery in allowed, f"{method} {path}: the service may have received it"

    async def test_without_a_probe_a_lost_post_is_one_request_too(self) -> None:
        async with self.harness() as harness:
            for sent, path in enumerate(LOST):
                error = await failure(harness, harness.request(path), None)
                await harness.settle()
                assert list(harness.received[sent:]) == [ReceivedRequest("POST", path, b"{}")], (
                    f"{path}: one send is one request"
                )
                assert error.delivery != Delivery.NOT_SENT, f"{path}: the service may have received it"

    async def test_without_a_probe_a_lost_get_is_a_transport_error(self) -> None:
        async with self.harness() as harness:
            for path in LOST:
                await failure(harness, harness.request(path, method="GET"), None)

    @with_and_without_probe
    async def test_a_send_that_fails_leaves_no_connection_behind(self, is_probed: bool) -> None:
        async with self.harness() as harness:
            for path in (Scenario.GARBAGE, Scenario.SILENT):
                probe = probe_if(is_probed)
                await failure(harness, harness.request(path, read=limit_for(path)), probe)
                async with time_limit(f"{path}: the connection of a send that failed must be closed"):
                    await harness.wait_for_open_requests()
                assert probe is None or probe.delivery != Delivery.NOT_SENT, f"{path}: the service has received it"

    @with_and_without_probe
    async def test_a_cancelled_send_leaves_its_evidence_and_no_connection_behind(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.harness() as harness, start_send(harness, harness.request(Scenario.SILENT), probe) as sending:
            await harness.settle()
            sending.cancel()
            await cancelled(sending)
            async with time_limit("the connection of a send that was cancelled must be closed"):
                await harness.wait_for_open_requests()
        assert probe is None or probe.delivery == Delivery.MAYBE_SENT

    # -- incomplete bodies ---------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_an_incomplete_body_is_a_body_error_with_what_was_received(self, is_probed: bool) -> None:
        async with (
            self.harness() as harness,
            await harness.send(harness.request(Scenario.CUT), probe_if(is_probed)) as response,
        ):
            error, got = await broken_chunks(harness, response)
        assert (error.received, error.delivery) == (len(got), Delivery.ANSWERED)
        assert got == FIRST, "what was received is returned"

    @with_and_without_probe
    async def test_an_incomplete_body_that_is_read_is_a_body_error(self, is_probed: bool) -> None:
        async with self.harness() as harness:
            harness.resume()
            async with await harness.send(harness.request(Scenario.CUT), probe_if(is_probed)) as response:
                with pytest.raises(BodyError) as caught:
                    await whole(response)
        assert caught.value.delivery == Delivery.ANSWERED
        assert 0 <= caught.value.received <= len(FIRST)

    async def test_a_body_that_times_out_is_a_body_error(self) -> None:
        async with self.harness() as harness:
            async with await harness.send(harness.request(Scenario.ENDLESS, read=LONGER)) as response:
                error, got = await broken_chunks(harness, response)
            async with time_limit("the connection of a body that timed out must be closed"):
                await harness.wait_for_open_requests()
        assert (error.received, error.delivery) == (len(got), Delivery.ANSWERED)

    # -- closing -------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_after_closing_a_send_is_refused(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.harness() as harness:
            await close(harness)
            await close(harness)
            error = await failure(harness, harness.request(), probe)
            await harness.settle()
            assert (type(error), error.delivery) == (TransportClosedError, Delivery.NOT_SENT)
            assert list(harness.received) == []
            assert probe is None or probe.delivery == harness.unsent

    @with_and_without_probe
    async def test_closing_ends_the_kept_alive_connections(self, is_probed: bool) -> None:
        async with self.harness() as harness:
            await answer(harness, "/short", probe=probe_if(is_probed))
            await close(harness)
            async with time_limit("closing the transport must close its connections"):
                await harness.wait_for_connections()

    @with_and_without_probe
    async def test_closing_ends_the_sends_in_progress(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.harness() as harness, start_send(harness, harness.request(Scenario.SILENT), probe) as sending:
            await close(harness)
            async with time_limit("a send in progress must end when its transport is closed"):
                await asyncio.wait({sending})
            assert not sending.cancelled(), "its caller did not cancel it"
            error = sending.exception()
            assert isinstance(error, TransportClosedError)
            assert error.delivery == Delivery.MAYBE_SENT, "the service has received it"

    @with_and_without_probe
    async def test_closing_ends_the_bodies_that_are_incomplete(self, is_probed: bool) -> None:
        async with (
            self.harness() as harness,
            await harness.send(harness.request(Scenario.ENDLESS), probe_if(is_probed)) as response,
        ):
            await close(harness)
            with pytest.raises(BodyError):
                await whole(response)


async def close(harness: Harness) -> None:
    async with time_limit("aclose() must return"):
        await harness.transport.aclose()


async def cancelled(sending: asyncio.Task[Response]) -> None:
    async with time_limit("a cancelled send must end"):
        await asyncio.wait({sending})
    assert sending.cancelled(), f"a cancelled send ends as cancelled: {sending}"


async def broken_chunks(harness: Harness, response: Response) -> tuple[BodyError, bytes]:
    """The error of an incomplete body, and what was received of it; the service continues after the first part."""
    got = b""
    with check_errors():
        try:
            async with time_limit("chunks() must end or raise"):
                async for chunk in response.chunks():
                    got += chunk
                    if len(got) >= len(FIRST):
                        harness.resume()
        except BodyError as error:
            return error, got
    pytest.fail("an incomplete body must end with a BodyError")
