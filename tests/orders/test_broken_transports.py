"""Transports that break the rules: what the service received, what is in the journal, and what the same create does on
another event loop. Of those that send at most once, only one that sends in ``connect`` and then claims that the
connection was refused leads to a second POST."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from attrs import define

from tests.orders.conftest import FakeService, accepted, refused
from vidgen_async.errors import (
    CassetteError,
    ConnectError,
    ConnectionLostError,
    JournalError,
    NotSentError,
    ResponseTimeoutError,
    TransportError,
    UncertainCreateError,
)
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, Connection, FakeTransport, Transport
from vidgen_async.types.http import Delivery, Phase, Request
from vidgen_async.types.orders import AttemptOutcome
from vidgen_async.types.resources import VideoRequest

VIDEO = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)


class OwnError(BaseException):
    """An exception of a transport that is no Exception."""


def claim(kind: type[TransportError] = ConnectError) -> TransportError:
    return kind("nothing left", delivery=Delivery.NOT_SENT, phase=Phase.CONNECT)


#: Whatever a transport may raise that proves nothing, wherever it raises it.
ERRORS: dict[str, Callable[[], BaseException]] = {
    "an error of its own": lambda: RuntimeError("broken"),
    "an OSError": lambda: ConnectionRefusedError("refused"),
    "a timeout": TimeoutError,
    "an error of a journal": lambda: JournalError("the journal is locked"),
    "a lost connection": lambda: ConnectionLostError("lost"),
    "a CancelledError": asyncio.CancelledError,
    "a GeneratorExit": GeneratorExit,
    "a KeyboardInterrupt": KeyboardInterrupt,
    "a SystemExit": lambda: SystemExit(3),
    "a BaseException": lambda: OwnError("broken"),
    "a group": lambda: BaseExceptionGroup("broken", [OwnError("broken")]),
}
#: What proves *not sent* when ``connect`` raises it, and nothing once ``connection.send()`` was called.
CLAIMS: dict[str, Callable[[], BaseException]] = {
    "a claim": claim,
    "a claim of a closed transport": partial(claim, ResponseTimeoutError),
    "an error of a cassette": lambda: CassetteError("no interaction"),
}


class Plain(Transport):
    """Has only a ``send``, which fails before or after it has sent the request."""

    def __init__(self, inner: FakeTransport, fail: Callable[[], BaseException], *, is_sent: bool) -> None:
        self.inner, self.fail, self.is_sent = inner, fail, is_sent

    async def send(self, request: Request) -> BufferedResponse:
        if self.is_sent:
            await self.inner.send(request)
        raise self.fail()

    async def aclose(self) -> None:
        await self.inner.aclose()


class Own(Transport):
    """Has a ``connect``, which is the function that it is given."""

    def __init__(self, inner: FakeTransport, connect: Callable[[FakeTransport, Request], AsyncIterator[Connection]]):
        self.inner = inner
        self.connect = partial(asynccontextmanager(connect), inner)

    async def send(self, request: Request) -> BufferedResponse:
        return await self.inner.send(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


@define
class Run:
    """One create, and the same one in a new process, each on an event loop of its own."""

    service: FakeService
    journal: MemoryJournal
    make_orders: Callable
    transport: Transport

    def create(self) -> BaseException | str:
        """The task, or what is raised."""
        orders = self.make_orders(transport=self.transport, create_timeout=5)
        try:
            return asyncio.run(self._create(orders))
        except BaseException as error:  # noqa: BLE001 - a SystemExit is a result here
            return error

    @staticmethod
    async def _create(orders) -> str:
        return (await orders.create(VIDEO, order_id="o")).task_id

    @property
    def posts(self) -> int:
        return len(self.service.posts)

    @property
    def outcomes(self) -> list[str]:
        (order,) = self.journal._orders.values()
        return [str(attempt.outcome) for attempt in order.attempts]


@pytest.fixture
def run(service, journal, make_orders) -> Callable[[Transport], Run]:
    return partial(Run, service, journal, make_orders)


def expected_of(name: str) -> type[BaseException]:
    """What the first create raises: an exit and a cassette's error propagate."""
    kinds = {"a KeyboardInterrupt": KeyboardInterrupt, "a SystemExit": SystemExit}
    return kinds.get(name, CassetteError if name == "an error of a cassette" else UncertainCreateError)


@pytest.mark.parametrize("name", [*ERRORS, *CLAIMS])
@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
def test_what_a_send_raises_is_no_proof_and_leaves_one_uncertain_attempt(run, service, name, is_sent):
    end = run(Plain(service.transport, {**ERRORS, **CLAIMS}[name], is_sent=is_sent))

    assert isinstance(end.create(), expected_of(name))
    assert (end.posts, end.outcomes) == (int(is_sent), ["uncertain"])
    assert isinstance(end.create(), UncertainCreateError)
    assert (end.posts, end.outcomes) == (int(is_sent), ["uncertain"])


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("is_sent", [False, True], ids=["not sent", "sent"])
def test_what_a_connect_raises_without_proof_leaves_one_uncertain_attempt(run, service, name, is_sent):
    async def connect(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
        if is_sent:
            await inner.send(request)
        error = ERRORS[name]()
        raise error
        yield

    end = run(Own(service.transport, connect))

    assert isinstance(end.create(), expected_of(name))
    assert isinstance(end.create(), UncertainCreateError)
    assert (end.posts, end.outcomes) == (int(is_sent), ["uncertain"])


def test_a_connect_that_sends_and_claims_a_refused_connection_is_believed(run, service):
    async def connect(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
        await inner.send(request)
        raise claim()
        yield

    end = run(Own(service.transport, connect))

    assert isinstance(end.create(), NotSentError)
    assert (end.posts, end.outcomes) == (3, [])


# -- ways to connect, and to leave the block ---------------------------------------------------------------------------


async def hangs(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    await asyncio.Event().wait()
    yield Connection(partial(inner.send, request))


async def sends_and_hangs(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    await inner.send(request)
    await asyncio.Event().wait()
    yield Connection(partial(inner.send, request))


async def never_yields(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    return
    yield


async def yields_none(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    yield None  # type: ignore[misc]


async def sends_and_yields_the_response(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    yield await inner.send(request)  # type: ignore[misc]


async def yields_twice(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    yield Connection(partial(inner.send, request))
    yield Connection(partial(inner.send, request))


async def sends_at_once(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    response = await inner.send(request)
    yield Connection(partial(asyncio.sleep, 0, response))


async def raises_at_the_exit(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    yield Connection(partial(inner.send, request))
    raise claim()


async def hangs_at_the_exit(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    try:
        yield Connection(partial(inner.send, request))
    finally:
        await asyncio.Event().wait()


async def swallows_at_the_exit(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    with suppress(BaseException):
        yield Connection(partial(inner.send, request))


async def returns_none(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    await inner.send(request)
    yield Connection(partial(asyncio.sleep, 0, None))


async def swallows_cancellation(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    yield Connection(partial(inner.send, request))


async def swallows_the_cancellation_of_a_send(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    async def send() -> BufferedResponse:
        response = await inner.send(request)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return response

    yield Connection(send)


async def retries(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    async def send() -> BufferedResponse:
        await inner.send(request)
        return await inner.send(request)

    yield Connection(send)


async def is_never_ready(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
    yield Connection(partial(inner.send, request), is_ready=lambda: False)


UNCERTAIN, TASK = UncertainCreateError, "task-1"
#: What the first create ends with, the attempts, what the second one ends with, and the POSTs of both.
WAYS = {
    hangs: (UNCERTAIN, ["uncertain"], UNCERTAIN, 0),
    sends_and_hangs: (UNCERTAIN, ["uncertain"], UNCERTAIN, 1),
    never_yields: (UNCERTAIN, ["uncertain"], UNCERTAIN, 0),
    yields_none: (UNCERTAIN, ["uncertain"], UNCERTAIN, 0),
    sends_and_yields_the_response: (UNCERTAIN, ["uncertain"], UNCERTAIN, 1),
    yields_twice: (TASK, ["accepted"], TASK, 1),
    sends_at_once: (TASK, ["accepted"], TASK, 1),
    raises_at_the_exit: (TASK, ["accepted"], TASK, 1),
    hangs_at_the_exit: (TASK, ["accepted"], TASK, 1),
    swallows_at_the_exit: (TASK, ["accepted"], TASK, 1),
    returns_none: (UNCERTAIN, ["uncertain"], UNCERTAIN, 1),
    swallows_cancellation: (TASK, ["accepted"], TASK, 1),
    swallows_the_cancellation_of_a_send: (TASK, ["accepted"], TASK, 1),
    retries: (TASK, ["accepted"], TASK, 2),
    is_never_ready: (NotSentError, ["not_sent"] * 3, NotSentError, 0),
}


@pytest.mark.parametrize("connect", WAYS, ids=lambda connect: connect.__name__)
def test_however_a_transport_connects_the_journal_has_what_is_known(run, service, connect):
    first, outcomes, second, posts = WAYS[connect]
    end = run(Own(service.transport, connect))

    for expected, attempts in ((first, outcomes), (second, None)):
        result = end.create()
        assert result == expected if isinstance(expected, str) else isinstance(result, expected), result
        assert attempts is None or end.outcomes == attempts
    assert end.posts == posts


def test_what_the_block_of_a_connection_swallows_is_still_known(run, service):
    async def lose(_):
        message = "lost"
        raise ConnectionLostError(message)

    service.script[:] = [lose]
    end = run(Own(service.transport, swallows_at_the_exit))

    assert "lost" in str(end.create())
    assert (end.posts, end.outcomes) == (1, ["uncertain"])


def test_a_block_that_swallows_the_answer_of_the_journal_sends_nothing(run, service, journal, make_orders):
    async def withdraw_first(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
        await make_orders().withdraw("o")
        with suppress(BaseException):
            yield Connection(partial(inner.send, request))

    end = run(Own(service.transport, withdraw_first))

    assert "was withdrawn" in str(end.create())
    assert (end.posts, end.outcomes) == (0, [])


@pytest.mark.parametrize("what", ["withdrawn", "rejected", "accepted"])
async def test_an_unproven_send_is_stored_also_when_the_order_was_changed_meanwhile(make_orders, service, what):
    async def connect(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
        await inner.send(request)
        if what == "withdrawn":
            await make_orders().withdraw("o")
        else:
            if what == "rejected":
                service.answers(lambda: refused(402))
            await asyncio.gather(make_orders().create(VIDEO, order_id="o"), return_exceptions=True)
        raise ConnectionLostError("lost")
        yield

    orders = make_orders(transport=Own(service.transport, connect))
    for _ in range(2):
        (result,) = await asyncio.gather(orders.create(VIDEO, order_id="o"), return_exceptions=True)
        assert getattr(result, "task_id", type(result)) == (TASK if what == "accepted" else UncertainCreateError)

    order = await orders.get("o")
    assert order.attempts[-1].outcome is AttemptOutcome.UNCERTAIN
    assert len(service.posts) == len(order.attempts)


async def test_an_unproven_send_that_cannot_be_stored_is_uncertain(make_orders, service):
    class Full(MemoryJournal):
        async def begin(self, permission):
            message = "the disk is full"
            raise JournalError(message)

    orders = make_orders(transport=Own(service.transport, never_yields), on=Full())

    with pytest.raises(UncertainCreateError, match="the disk is full"):
        await orders.create(VIDEO, order_id="o")


async def test_a_client_that_is_closed_while_it_connects_has_sent_nothing(make_orders, service, journal):
    connecting = asyncio.Event()

    async def connect(_):
        connecting.set()
        await asyncio.Event().wait()

    orders = make_orders(transport=FakeTransport(service.transport._handler, on_connect=connect))
    creating = asyncio.create_task(orders.create(VIDEO, order_id="o"))
    await connecting.wait()
    await orders.aclose(grace=0)

    with pytest.raises(NotSentError):
        await creating
    assert (await make_orders().create(VIDEO, order_id="o")).task_id == TASK
    assert len(service.posts) == 1


async def test_a_connection_that_is_lost_while_the_attempt_is_stored_is_not_sent_and_made_again(make_orders, service):
    ready = [False, True]

    async def connect(inner: FakeTransport, request: Request) -> AsyncIterator[Connection]:
        yield Connection(partial(inner.send, request), is_ready=ready.pop(0).__bool__)

    orders = make_orders(transport=Own(service.transport, connect))

    assert (await orders.create(VIDEO, order_id="o")).task_id == TASK
    attempts = (await orders.get("o")).attempts
    assert [attempt.outcome for attempt in attempts] == ["not_sent", "accepted"]
    assert "before the request was sent" in attempts[0].evidence.cause
    assert [post.n for post in service.posts] == [1]


async def test_an_answer_whose_response_fails_when_it_is_closed_is_a_receipt(make_orders, service):
    async def fail() -> None:
        message = "closing failed"
        raise OSError(message)

    service.answers(lambda: BufferedResponse(202, b'{"id": "task-1"}', on_close=fail))

    assert (await make_orders().create(VIDEO, order_id="o")).task_id == TASK
    assert accepted().status == 202
