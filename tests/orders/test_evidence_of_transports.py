"""*Not sent* needs evidence on the probe of the send: what a transport raises, or says in its error, proves nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.orders.conftest import refused
from vidgen_async.errors import (
    CassetteError,
    ConnectError,
    JournalError,
    NotSentError,
    RejectedError,
    ResponseTimeoutError,
    TransportClosedError,
    TransportError,
    UncertainCreateError,
)
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import FakeTransport
from vidgen_async.types.http import Delivery, Phase, Probe, Request
from vidgen_async.types.orders import AttemptOutcome, OrderState
from vidgen_async.types.resources import VideoRequest

VIDEO = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)


class Ungated:
    """Declares the gate and sends without it; then it fails in a way of its own."""

    honours_gate = True

    def __init__(self, inner: FakeTransport, fail: Callable[[Probe], Awaitable[object]]) -> None:
        self.inner = inner
        self.fail = fail

    async def send(self, request: Request, *, probe: Probe):
        await self.inner.send(request)
        return await self.fail(probe)

    async def aclose(self) -> None:
        await self.inner.aclose()


def raising(error: BaseException, phase: Phase | None = None) -> Callable[[Probe], Awaitable[object]]:
    async def fail(probe: Probe) -> object:
        probe.learn(Delivery.NOT_SENT, phase)
        raise error

    return fail


NOT_SENT = {"delivery": Delivery.NOT_SENT, "phase": Phase.CONNECT}

FAILURES = {
    "an error of its own": raising(RuntimeError("broken")),
    "a claim in a TransportError": raising(TransportError("nothing left", **NOT_SENT)),
    "a claim in a ConnectError": raising(ConnectError("nothing left", **NOT_SENT)),
    "a claim in a closed transport": raising(TransportClosedError("closed", **NOT_SENT)),
    "a refused connection": raising(ConnectionRefusedError("refused")),
    "an OSError": raising(OSError("no route")),
    "a timeout": raising(TimeoutError()),
    "a timeout of a response": raising(ResponseTimeoutError("silent", **NOT_SENT)),
    "a phase on the probe": raising(RuntimeError("broken"), Phase.CONNECT),
    "a journal's error": raising(JournalError("the journal is locked")),
    "a value that is no response": lambda probe: asyncio.sleep(0, None),
}


@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
async def test_a_send_without_the_gate_is_uncertain_and_is_one_post(make_orders, service, journal, fail):
    orders = make_orders(transport=Ungated(service.transport, fail))

    for _ in range(2):
        with pytest.raises(UncertainCreateError):
            await orders.create(VIDEO, order_id="o")

    assert len(service.posts) == 1
    (order,) = await orders.list()
    assert order.state is OrderState.UNCERTAIN


async def test_a_cassettes_error_of_a_send_without_the_gate_leaves_the_order_uncertain(make_orders, service):
    orders = make_orders(transport=Ungated(service.transport, raising(CassetteError("no interaction"))))

    with pytest.raises(CassetteError):
        await orders.create(VIDEO, order_id="o")
    with pytest.raises(UncertainCreateError):
        await orders.create(VIDEO, order_id="o")
    assert len(service.posts) == 1


async def test_a_send_without_the_gate_that_hangs_is_uncertain_after_the_time_limit(make_orders, service, clock):
    orders = make_orders(transport=Ungated(service.transport, lambda probe: asyncio.Event().wait()), create_timeout=5)

    with pytest.raises(UncertainCreateError):
        await orders.create(VIDEO, order_id="o")
    assert len(service.posts) == 1


async def test_a_send_without_the_gate_that_is_cancelled_is_uncertain(make_orders, service, clock):
    hangs = asyncio.Event()

    async def hang(probe: Probe) -> None:
        hangs.set()
        await asyncio.Event().wait()

    orders = make_orders(transport=Ungated(service.transport, hang))
    creating = asyncio.create_task(orders.create(VIDEO, order_id="o"))
    await hangs.wait()
    await orders.aclose(grace=0)
    with pytest.raises(UncertainCreateError):
        await creating

    again = make_orders()
    with pytest.raises(UncertainCreateError):
        await again.create(VIDEO, order_id="o")
    assert len(service.posts) == 1


@pytest.mark.parametrize("what", ["withdrawn", "rejected", "accepted"])
async def test_a_send_without_the_gate_is_on_record_also_when_the_order_was_changed_meanwhile(
    make_orders, service, what
):
    async def change(probe: Probe) -> None:
        others = make_orders()
        if what == "withdrawn":
            await others.withdraw("o")
        elif what == "accepted":
            await others.create(VIDEO, order_id="o")
        else:
            service.answers(lambda: refused(402))
            with pytest.raises(RejectedError):
                await others.create(VIDEO, order_id="o")
        raise ConnectError("nothing left", **NOT_SENT)

    orders = make_orders(transport=Ungated(service.transport, change))
    if what == "accepted":
        await orders.create(VIDEO, order_id="o")
    else:
        for _ in range(2):
            with pytest.raises(UncertainCreateError):
                await orders.create(VIDEO, order_id="o")

    order = await orders.get("o")
    assert order.state is (OrderState.ACCEPTED if what == "accepted" else OrderState.UNCERTAIN)
    assert order.attempts[-1].outcome is AttemptOutcome.UNCERTAIN
    assert len(service.posts) == len(order.attempts)


async def test_a_gate_that_was_reached_and_stayed_shut_is_no_attempt_whatever_is_raised(make_orders, service, journal):
    class Relabels(Ungated):
        async def send(self, request: Request, *, probe: Probe):
            try:
                return await self.inner.send(request, probe=probe)
            except Exception:  # noqa: BLE001 - as transports do
                raise RuntimeError("something else") from None

    journal.begin = failing_once(journal.begin)
    orders = make_orders(transport=Relabels(service.transport, raising(RuntimeError())))

    with pytest.raises(JournalError):
        await orders.create(VIDEO, order_id="o")
    assert service.posts == []
    assert (await orders.create(VIDEO, order_id="o")).task_id == "task-1"
    assert len(service.posts) == 1


def failing_once(begin):
    errors = [JournalError("the journal is locked")]

    async def fail(permission):
        if errors:
            raise errors.pop()
        return await begin(permission)

    return fail


async def test_a_failure_to_connect_that_is_recorded_is_not_sent_whatever_is_raised(make_orders, service, clock):
    class Offline(Ungated):
        async def send(self, request: Request, *, probe: Probe):
            probe.record_not_sent(Phase.CONNECT)
            raise RuntimeError("no network")

    orders = make_orders(transport=Offline(service.transport, raising(RuntimeError())))

    with pytest.raises(NotSentError):
        await orders.create(VIDEO, order_id="o")
    assert (await orders.get("o")).state is OrderState.QUEUED
    assert service.posts == []


def test_what_was_recorded_before_the_gate_counts_no_more_once_it_has_opened():
    probe = Probe()
    probe.record_not_sent(Phase.DNS)
    assert (probe.is_proven_not_sent, probe.phase) == (True, Phase.DNS)
    asyncio.run(probe.pass_gate())
    probe.record_not_sent(Phase.CONNECT)
    assert (probe.is_proven_not_sent, probe.delivery, probe.phase) == (False, Delivery.MAYBE_SENT, Phase.SEND)


class Unwritable(MemoryJournal):
    """Writes no attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = True

    async def begin(self, permission):
        if self.is_full:
            message = "the disk is full"
            raise JournalError(message)
        return await super().begin(permission)


class Defiant:
    """Sends the request although the gate did not open."""

    honours_gate = True

    def __init__(self, inner: FakeTransport) -> None:
        self.inner = inner

    async def send(self, request: Request, *, probe: Probe):
        with suppress(Exception):
            await probe.pass_gate()
        return await self.inner.send(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


@pytest.mark.parametrize("make", [Defiant, lambda inner: Ungated(inner, raising(RuntimeError("broken")))])
async def test_what_may_have_left_without_being_on_record_is_uncertain_and_not_sent_again(make_orders, service, make):
    journal = Unwritable()
    orders = make_orders(transport=make(service.transport), on=journal)

    for _ in range(3):
        with pytest.raises(UncertainCreateError, match="the disk is full"):
            await orders.create(VIDEO, order_id="o")
        journal.is_full = False

    assert len(service.posts) == 1


async def test_an_answer_that_could_not_be_put_on_record_is_told_with_its_task(make_orders, service):
    orders = make_orders(transport=Defiant(service.transport), on=Unwritable())

    with pytest.raises(UncertainCreateError, match="The answer named task 'task-1'"):
        await orders.create(VIDEO, order_id="o")
