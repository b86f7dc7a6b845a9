"""The sentences of the contract about the gate, the evidence, failures, cancellation and closing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest

from vidgen_async.errors import BodyError, TransportClosedError, TransportError
from vidgen_async.transports.base import Response
from vidgen_async.transports.contract.harness import GateError, OnStage, Stage, WatchedProbe, only_what_may_escape, soon
from vidgen_async.transports.contract.response_tests import METHODS, answer, probe_if, whole, with_and_without_probe
from vidgen_async.transports.contract.service import FIRST, Asked, Scene
from vidgen_async.types.http import Delivery, Phase, Probe, Request

#: Seconds of silence that are allowed where nothing ever comes, and where the beginning of an answer must come first.
SHORT, LONGER = 0.05, 0.3
#: Where the connection is lost after the request has arrived.
LOST = (Scene.DROPPED, Scene.RESET, Scene.HALF)


def limit_for(path: str) -> float:
    return SHORT if path == Scene.SILENT else 60.0


@asynccontextmanager
async def under_way(
    stage: Stage, request: Request, probe: Probe | None = None
) -> AsyncIterator[asyncio.Task[Response]]:
    """A send that has come so far that the service knows of it; it ends with the block."""
    sending = asyncio.create_task(stage.send(request, probe))
    try:
        async with soon("a request that is sent must reach the service"):
            while not stage.asked and not sending.done():  # noqa: ASYNC110 - a stage of somebody's own sets no event
                await asyncio.sleep(0)
        if sending.done():
            pytest.fail(f"a send that gets no answer must not end by itself: {sending}")
        yield sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def failure(stage: Stage, request: Request, probe: Probe | None) -> TransportError:
    """What a send that must fail fails with; its evidence must be that of the probe."""
    row = f"{request.method} {request.url.path}"
    error = None
    try:
        await stage.send(request, probe)
    except TransportError as raised:
        error = raised
    if error is None:
        pytest.fail(f"{row}: a send that gets no answer must raise a TransportError")
    assert error.op == request.op, f"{row}: a TransportError names the operation"
    if probe is not None and stage.honours_gate:
        assert error.delivery == probe.delivery, f"{row}: the error and the probe say the same of the delivery"
    return error


class Failures(OnStage):
    """What is known, what comes out, and what is left behind when not all goes well."""

    # -- gate and evidence ---------------------------------------------------------------------------------------------

    async def test_the_gate_is_passed_once_and_before_the_service_hears_anything(self) -> None:
        heard: list[int] = []

        async def gate() -> None:
            await stage.settle()
            heard.append(len(stage.asked))

        async with self.stage() as stage:
            await answer(stage, "/short", probe=Probe(gate=gate))
            assert len(stage.asked) == 1
        assert heard == [0], "one passing of the gate, and nothing of the request at the service by then"

    async def test_what_the_gate_raises_comes_out_as_it_is_and_nothing_is_sent(self) -> None:
        async def gate() -> None:
            raise error

        error = GateError("the journal is gone")
        probe = Probe(gate=gate)
        async with self.stage() as stage:
            with pytest.raises(GateError) as caught:
                await stage.send(stage.request(), probe)
            await stage.settle()
            assert (list(stage.asked), probe.delivery) == ([], Delivery.NOT_SENT)
        assert caught.value is error

    async def test_cancelled_at_the_gate_nothing_is_sent(self) -> None:
        async def gate() -> None:
            reached.set()
            await asyncio.Event().wait()

        reached = asyncio.Event()
        probe = Probe(gate=gate)
        async with self.stage() as stage:
            sending = asyncio.create_task(stage.send(stage.request(), probe))
            async with soon("the gate must be awaited"):
                await reached.wait()
            sending.cancel()
            await cancelled(sending)
            await stage.settle()
            assert (list(stage.asked), probe.delivery) == ([], Delivery.NOT_SENT)

    async def test_evidence_only_grows(self) -> None:
        async with self.stage() as stage:
            for path in ("/short", Scene.DROPPED, Scene.SILENT, Scene.REFUSED):
                probe = WatchedProbe()
                try:
                    async with await stage.send(stage.request(path, read=limit_for(path)), probe) as response:
                        await whole(response)
                except TransportError:
                    assert path != "/short", "an answer is no failure"
                seen = [*probe.seen, probe.delivery]
                assert seen == sorted(seen, key=list(Delivery).index), f"{path}: what is proven is never taken back"

    async def test_a_send_that_returns_has_said_that_it_was_answered(self) -> None:
        probe = Probe()
        async with self.stage() as stage, await stage.send(stage.request(Scene.SLOW), probe):
            if stage.honours_gate:
                assert (probe.delivery, probe.phase) == (Delivery.ANSWERED, Phase.BODY)

    # -- failures ------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_a_refused_connection_is_a_transport_error_and_nothing_was_sent(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.stage() as stage:
            error = await failure(stage, stage.request(Scene.REFUSED), probe)
            await stage.settle()
            assert Scene.REFUSED not in [asked.path for asked in stage.asked]
            if probe is not None:
                assert probe.delivery == stage.unsent, "no connection, no byte"
                is_unsent = stage.unsent == Delivery.NOT_SENT
                assert probe.is_proven_not_sent == is_unsent, "a failure to connect is recorded on the probe"
                assert not stage.honours_gate or error.delivery == Delivery.NOT_SENT

    async def test_with_a_probe_a_lost_connection_is_one_request_that_may_have_arrived(self) -> None:
        async with self.stage() as stage:
            for sent, (path, method) in enumerate(product(LOST, METHODS)):
                probe = Probe()
                await failure(stage, stage.request(path, method=method), probe)
                await stage.settle()
                got = [(asked.method, asked.path) for asked in stage.asked[sent:]]
                assert got == [(method, path)], f"{method} {path}: one send is one request"
                told = {Delivery.MAYBE_SENT, Delivery.ANSWERED} if path == Scene.HALF else {Delivery.MAYBE_SENT}
                assert probe.delivery in told, f"{method} {path}: the service may have it"

    async def test_without_a_probe_a_lost_post_is_one_request_too(self) -> None:
        async with self.stage() as stage:
            for sent, path in enumerate(LOST):
                error = await failure(stage, stage.request(path), None)
                await stage.settle()
                assert list(stage.asked[sent:]) == [Asked("POST", path, b"{}")], f"{path}: one send is one request"
                assert error.delivery != Delivery.NOT_SENT, f"{path}: it cannot be excluded that the service has it"

    async def test_without_a_probe_a_lost_get_is_a_transport_error(self) -> None:
        async with self.stage() as stage:
            for path in LOST:
                await failure(stage, stage.request(path, method="GET"), None)

    @with_and_without_probe
    async def test_a_send_that_fails_leaves_no_connection_behind(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            for path in (Scene.GARBAGE, Scene.SILENT):
                probe = probe_if(is_probed)
                await failure(stage, stage.request(path, read=limit_for(path)), probe)
                async with soon(f"{path}: the connection of a send that failed must be closed"):
                    await stage.until_released()
                assert probe is None or probe.delivery != Delivery.NOT_SENT, f"{path}: the service has it"

    @with_and_without_probe
    async def test_a_cancelled_send_leaves_no_connection_and_its_evidence_behind(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.stage() as stage, under_way(stage, stage.request(Scene.SILENT), probe) as sending:
            await stage.settle()
            sending.cancel()
            await cancelled(sending)
            async with soon("the connection of a send that was cancelled must be closed"):
                await stage.until_released()
        assert probe is None or probe.delivery == Delivery.MAYBE_SENT

    # -- bodies that break off -----------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_a_body_that_breaks_off_is_a_body_error_with_what_was_received(self, is_probed: bool) -> None:
        async with self.stage() as stage, await stage.send(stage.request(Scene.CUT), probe_if(is_probed)) as response:
            error, got = await broken_chunks(stage, response)
        assert (error.received, error.delivery) == (len(got), Delivery.ANSWERED)
        assert got == FIRST, "what had come was handed on"

    @with_and_without_probe
    async def test_a_body_that_breaks_off_while_it_is_read_is_a_body_error(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            stage.let_go()
            async with await stage.send(stage.request(Scene.CUT), probe_if(is_probed)) as response:
                with pytest.raises(BodyError) as caught:
                    await whole(response)
        assert caught.value.delivery == Delivery.ANSWERED
        assert 0 <= caught.value.received <= len(FIRST)

    async def test_a_body_that_falls_silent_is_a_body_error(self) -> None:
        async with self.stage() as stage:
            async with await stage.send(stage.request(Scene.ENDLESS, read=LONGER)) as response:
                error, got = await broken_chunks(stage, response)
            async with soon("the connection of a body that fell silent must be closed"):
                await stage.until_released()
        assert (error.received, error.delivery) == (len(got), Delivery.ANSWERED)

    # -- closing -------------------------------------------------------------------------------------------------------

    @with_and_without_probe
    async def test_after_closing_a_send_is_refused(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.stage() as stage:
            await close(stage)
            await close(stage)
            error = await failure(stage, stage.request(), probe)
            await stage.settle()
            assert (type(error), error.delivery) == (TransportClosedError, Delivery.NOT_SENT)
            assert list(stage.asked) == []
            assert probe is None or probe.delivery == stage.unsent

    @with_and_without_probe
    async def test_closing_ends_the_connections_that_were_kept(self, is_probed: bool) -> None:
        async with self.stage() as stage:
            await answer(stage, "/short", probe=probe_if(is_probed))
            await close(stage)
            async with soon("closing the transport must close its connections"):
                await stage.until_empty()

    @with_and_without_probe
    async def test_closing_ends_the_sends_that_are_under_way(self, is_probed: bool) -> None:
        probe = probe_if(is_probed)
        async with self.stage() as stage, under_way(stage, stage.request(Scene.SILENT), probe) as sending:
            await close(stage)
            async with soon("a send under way must end when its transport is closed"):
                await asyncio.wait({sending})
            assert not sending.cancelled(), "nobody cancelled it"
            error = sending.exception()
            assert isinstance(error, TransportClosedError)
            assert error.delivery == Delivery.MAYBE_SENT, "the service had it"

    @with_and_without_probe
    async def test_closing_ends_the_bodies_that_are_still_coming(self, is_probed: bool) -> None:
        async with (
            self.stage() as stage,
            await stage.send(stage.request(Scene.ENDLESS), probe_if(is_probed)) as response,
        ):
            await close(stage)
            with pytest.raises(BodyError):
                await whole(response)


async def close(stage: Stage) -> None:
    async with soon("aclose() must return"):
        await stage.transport.aclose()


async def cancelled(sending: asyncio.Task[Response]) -> None:
    async with soon("a cancelled send must end"):
        await asyncio.wait({sending})
    assert sending.cancelled(), f"a cancelled send ends as cancelled: {sending}"


async def broken_chunks(stage: Stage, response: Response) -> tuple[BodyError, bytes]:
    """What a body breaks off with, and what came before; the service goes on once the first part has come."""
    got = b""
    with only_what_may_escape():
        try:
            async with soon("chunks() must end or raise"):
                async for piece in response.chunks():
                    got += piece
                    if len(got) >= len(FIRST):
                        stage.let_go()
        except BodyError as error:
            return error, got
    pytest.fail("a body that is not whole must end with a BodyError")
