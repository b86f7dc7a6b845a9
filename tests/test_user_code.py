"""Every place that calls code of the application, and whatever that raises: it ends no wait of another caller, and
hides no outcome. Only a KeyboardInterrupt and a SystemExit propagate. (Cancellations have tests of their own.)"""

import asyncio
import gc
import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.media.sites import video
from vidgen_async import Client, InvalidRequestError, NotSentError, Outcome, VideoTask, VidgenError, events
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ClientStateError, DownloadError, KeyFunctionError, TransportError
from vidgen_async.events import Event
from vidgen_async.journal import MemoryJournal
from vidgen_async.transports import BufferedResponse, FakeTransport, WrappingTransport
from vidgen_async.types.http import Request, make_headers
from vidgen_async.user_code import UserCode

FIELDS: dict[str, Any] = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + b"\0" * 40
VIDEO = video(4000)


class OwnError(BaseException):
    """An exception of an application that is no Exception."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: RuntimeError("broken"),
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "BaseException": lambda: OwnError("broken"),
    "group": lambda: BaseExceptionGroup("broken", [OwnError("broken"), GeneratorExit()]),
}
EXITS: dict[str, Callable[[], BaseException]] = {"KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit}

Fail = Callable[..., NoReturn]


class Service:
    """Completes each task with the third poll of it."""

    def __init__(self) -> None:
        self.polls: dict[str, int] = {}
        self.posts = 0

    async def __call__(self, request: Request) -> BufferedResponse:
        path = request.url.path.removeprefix("/openapi/v1")
        if path.endswith("/content"):
            return BufferedResponse(200, VIDEO, headers=make_headers({"Content-Length": str(len(VIDEO))}))
        if path == "/videos":
            self.posts += 1
            return BufferedResponse(202, b'{"id": "new"}')
        if path == "/files":
            async for _ in request.body.open():
                pass
            return BufferedResponse(
                200, b'{"id": "i", "image_id": "i", "url": "/api/reference-assets/i/content/i.png"}'
            )
        if path == "/account":
            return BufferedResponse(200, b'{"balance": 1}')
        task_id = path.rpartition("/")[2]
        self.polls[task_id] = self.polls.get(task_id, 0) + 1
        state = "completed" if self.polls[task_id] >= 3 else "running"
        return BufferedResponse(200, json.dumps({"id": task_id, "status": state, "model": "gen-2.0"}).encode())


@asynccontextmanager
async def client_with(api_key: Any = "key-never-shown", **options: Any) -> AsyncIterator[Client]:
    options = {"transport": FakeTransport(Service()), "clock": VirtualClock(), **options}
    async with Client(api_key, base_url="https://h/openapi/v1", **options) as client:
        yield client


async def complete(*waits: Awaitable[VideoTask]) -> None:
    assert [task.status for task in await asyncio.gather(*waits)] == ["completed"] * len(waits)


async def error_of(call: Awaitable[object], expected: type[BaseException] = VidgenError) -> BaseException:
    """What is raised: an error of the SDK, or the exception itself if it is an Exception."""
    with pytest.raises((expected, RuntimeError, StopAsyncIteration)) as caught:
        await call
    return caught.value


def once(fail: Fail, then: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails when it is called first."""
    calls: list[Callable[..., Any]] = [fail]
    return lambda *args, **more: calls.pop()(*args, **more) if calls else then(*args, **more)


def later(fail: Fail) -> Callable[..., Awaitable[Any]]:
    async def call(*_: object, **__: object) -> NoReturn:
        await asyncio.sleep(0)
        fail()

    return call


# -- the places --------------------------------------------------------------------------------------------------------


async def a_key_function(fail: Fail) -> None:
    for ask in (fail, later(fail)):
        keys = once(ask, lambda: "key-never-shown")
        async with client_with("other-key-never-shown") as client, client_with(ask) as broken:
            view = client.with_options(api_key=keys, account="default")
            await complete(client.videos.wait("a"), view.videos.wait("a"), view.videos.wait("b"))
            assert "api_key function raised" in str(await error_of(broken.account.get(), KeyFunctionError))
            assert "closed" not in str(await error_of(broken.videos.create(**FIELDS, validate=False), NotSentError))
            assert isinstance(await error_of(broken.videos.wait("a", timeout=300)), VidgenError)


async def an_on_update(fail: Fail) -> None:
    for hook in (fail, later(fail)):
        async with client_with(on_update=hook) as client:
            await complete(client.videos.wait("a", on_update=hook), client.videos.wait("b"))
            assert [task.status async for task in client.videos.watch("c", on_update=hook)][-1] == "completed"
            assert [one.unwrap().id async for one in client.videos.as_completed(["d"], on_update=hook)] == ["d"]


async def a_hook_of_a_create(fail: Fail) -> None:
    for hook in (fail, later(fail)):
        async with client_with() as client:
            options: dict[str, Any] = {"on_receipt": hook, "on_update": hook, "on_progress": fail, "validate": False}
            assert (await client.videos.generate(**FIELDS, **options)).status == "completed"


async def an_on_progress_of_a_transfer(fail: Fail) -> None:
    async with client_with() as client:
        assert (await client.files.upload(PNG, on_progress=fail)).image_id == "i"
        waiting = asyncio.ensure_future(client.videos.wait("a"))
        await error_of(client.videos.download("b", TARGET, on_progress=fail))
        await complete(waiting)


async def a_transport(fail: Fail) -> None:
    class Broken(WrappingTransport):
        async def send(self, request: Request) -> Any:
            return await sends[request.url.path.rpartition("/")[2]](request)

    class BrokenBody(BufferedResponse):
        def _open(self, size: int) -> Any:
            class Chunks:
                def __aiter__(self) -> Any:
                    return self

                __anext__ = staticmethod(later(fail))

            return Chunks()

    async def answer(_: Request) -> BufferedResponse:
        return BrokenBody(200, b"{}")

    service = Service()
    sends: dict[str, Any] = {
        "a": once(later(fail), service),
        "b": once(answer, service),
        "c": service,
        "account": later(fail),
        "content": answer,
    }
    async with client_with(transport=Broken(FakeTransport(service))) as client:
        await complete(*map(client.videos.wait, "abc"))
        await error_of(client.account.get(), TransportError)
        await error_of(client.videos.download("a", TARGET))
        sends["content"] = later(fail)
        await error_of(client.videos.download("a", TARGET))


async def a_prepare(fail: Fail) -> None:
    class Broken(WrappingTransport):
        prepare = staticmethod(later(fail))

    async with client_with(transport=Broken(FakeTransport(Service()))) as client:
        await error_of(client.account.get(), TransportError)
        await error_of(client.videos.create(**FIELDS, validate=False), NotSentError)


async def a_journal(fail: Fail) -> None:
    class Broken(MemoryJournal):
        pass

    for name in ("settle", "owner", "record"):  # an outcome is known: it is written later
        journal, service = Broken(), Service()
        setattr(journal, name, once(later(fail), getattr(journal, name)))
        async with client_with(journal=journal, transport=FakeTransport(service)) as client:
            assert (await client.videos.generate(**FIELDS, order_id="o", validate=False)).id == "new"
            order = await client.orders.get("o")
            assert order.task_ids == ("new",)
        assert service.posts == 1
    for name in ("namespace", "get", "intend", "turn", "begin"):  # nothing is sent
        journal, service = Broken(), Service()
        setattr(journal, name, once(later(fail), getattr(journal, name)))
        async with client_with(journal=journal, transport=FakeTransport(service)) as client:
            waiting = asyncio.ensure_future(client.videos.wait("a"))
            create = partial(client.videos.create, **FIELDS, order_id="o", validate=False)
            assert "closed" not in str(await error_of(create()))
            assert service.posts == 0
            assert (await create()).task_id == "new"
            await complete(waiting)


async def a_clock(fail: Fail) -> None:
    class Broken(VirtualClock):
        fails = ""

        def now(self) -> float:
            return fail() if self.fails == "now" else super().now()

        async def sleep(self, seconds: float) -> None:
            if self.fails == "sleep" and seconds > 0:
                fail()
            await super().sleep(seconds)

    for name in ("now", "sleep"):
        clock = Broken()
        async with client_with(clock=clock) as client:
            waiting = asyncio.ensure_future(client.videos.wait("a", timeout=None))
            await asyncio.sleep(0)
            clock.fails = name
            # All waits of the client need its clock. The error names the cause.
            assert "was cancelled" not in str(await error_of(waiting, ClientStateError))
            clock.fails = ""
    async with client_with() as client:  # another client is not concerned
        await complete(client.videos.wait("a"))


@contextmanager
def logging_with(fail: Fail, place: str) -> Iterator[None]:
    logger, factory = logging.getLogger("vidgen_async.watcher"), logging.getLogRecordFactory()
    handler, level = logging.Handler(), logger.level
    handler.emit = fail if place == "handler" else lambda _: None  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    if place == "filter":
        logger.addFilter(fail)
    elif place == "factory":
        logging.setLogRecordFactory(fail)
    elif place == "listener":
        events.listeners.append(fail)
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        logger.setLevel(level)
        logger.removeFilter(fail)
        logger.removeHandler(handler)
        if place == "listener":
            events.listeners.remove(fail)


async def a_log_or_a_listener(fail: Fail) -> None:
    for place in ("handler", "filter", "factory", "listener"):
        with logging_with(fail, place):
            async with client_with() as client:
                await complete(client.videos.wait("a"), client.videos.wait("b"))
                assert (await client.videos.create(**FIELDS, validate=False)).task_id == "new"


async def an_iterator_of_outcomes(fail: Fail) -> None:
    task = VideoTask(id="a", status="completed")

    class Broken:
        """Of each kind: one outcome, then the exception."""

        def __init__(self) -> None:
            self.next = iter([partial(Outcome, "a", task), fail])

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            return next(self.next)()

    class BrokenLater(Broken):
        __iter__ = None  # type: ignore[assignment]

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Any:
            return next(self.next)()

    async with client_with() as client:
        waiting = asyncio.ensure_future(client.videos.wait("b"))
        for outcomes in (Broken(), BrokenLater()):
            saved = client.videos.download_many(outcomes, to=TARGET.parent, overwrite=True)
            assert (await anext(saved)).path == TARGET.parent / "a.mp4"
            await error_of(anext(saved), VidgenError)  # or its end, for the exceptions that stand for that
        named = client.videos.download_many([Outcome("a", task)], to=fail)
        with suppress(RuntimeError, StopIteration, StopAsyncIteration):
            assert isinstance((await anext(named)).error, DownloadError)
        await complete(waiting)


async def an_image(fail: Fail) -> None:
    file = io.BytesIO(PNG)
    file.read = fail  # type: ignore[method-assign]
    async with client_with() as client:
        await error_of(client.files.upload(file), InvalidRequestError)


PLACES = [
    a_key_function,
    an_on_update,
    a_hook_of_a_create,
    an_on_progress_of_a_transfer,
    a_transport,
    a_prepare,
    a_journal,
    a_clock,
    a_log_or_a_listener,
    an_iterator_of_outcomes,
    an_image,
]
TARGET = Path()


@pytest.fixture(autouse=True)
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TARGET", tmp_path / "video.mp4")


def failing_with(make: Callable[[], BaseException]) -> Fail:
    def fail(*_: object, **__: object) -> NoReturn:
        raise make()

    return fail


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
async def test_what_user_code_raises_ends_no_other_wait_and_hides_no_outcome(place, name):
    await place(failing_with(ERRORS[name]))


@pytest.mark.parametrize("name", EXITS)
@pytest.mark.parametrize("place", [place for place in PLACES if place is not a_clock], ids=lambda place: place.__name__)
@pytest.mark.filterwarnings("ignore")
def test_an_exit_propagates_from_any_user_code(place, name):
    with pytest.raises(EXITS[name]):
        asyncio.run(place(failing_with(EXITS[name])))
    gc.collect()


# -- cancellations, and coroutines that are closed ---------------------------------------------------------------------


async def test_the_cancellation_of_the_caller_is_no_error_of_user_code():
    async def call() -> None:
        with UserCode():
            await asyncio.Event().wait()

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_coroutine_that_is_closed_from_outside_ends(caplog):
    async def call() -> None:
        with events.contain_hook(logging.getLogger("vidgen_async"), "on_update"):
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    coroutine = call()
    coroutine.send(None)
    loop_task = asyncio.ensure_future(asyncio.sleep(0))
    await loop_task
    inner = asyncio.ensure_future(asyncio.to_thread(coroutine.close))
    await inner
    assert str(Event.HOOK_FAILED) not in caplog.text
    assert caplog.records == []
