"""A client in a thread: calls of other threads, their deadlines, forks, and the end of a process."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.stopped_sandbox import LIMIT, Service, stopped_sandbox
from vidgen_async import Client, ConfigurationError, JournalError, Receipt
from vidgen_async.blocking import ClientThread
from vidgen_async.errors import ClientStateError
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import BufferedResponse, FakeTransport, Request

ROOT = Path(__file__).resolve().parents[2]
needs_threads_at_exit = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 2), reason="this Python starts no thread when a process ends (gh-113964)"
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")


def create(client: Client, order_id: str = "order-1") -> Any:
    return client.videos.create(model="gen-2.0", prompt="a boat", duration=5, order_id=order_id)


async def answer(request: Request) -> BufferedResponse:
    return BufferedResponse(202, b'{"id": "task-1"}')


def make_fake(handler: Callable[[Request], Any] = answer) -> Client:
    """A client without a network, and without the catalog."""

    async def respond(request: Request) -> BufferedResponse:
        return await handler(request) if request.op == "videos.create" else BufferedResponse(503, b"{}")

    transport = FakeTransport(respond)
    return Client("key", base_url="https://h/openapi/v1", transport=transport, retry_reads_for=0)


@pytest.fixture
async def stopped(small_videos: None) -> AsyncIterator[Service]:
    async with stopped_sandbox() as stopped:
        yield stopped


@pytest.fixture
async def thread(stopped: Service, tmp_path: Path) -> AsyncIterator[ClientThread]:
    """A client of the sandbox, which runs on the event loop of the test: calls need threads of their own."""
    sandbox = stopped.sandbox
    made = ClientThread(
        lambda: Client(sandbox.api_key, base_url=sandbox.base_url, journal=f"sqlite:///{tmp_path}/orders.db")
    )
    yield made
    await asyncio.to_thread(made.close)


@pytest.fixture
def fake() -> Iterator[ClientThread]:
    with ClientThread(make_fake) as made:
        yield made


async def test_all_threads_share_one_client(thread: ClientThread, stopped: Service):
    async def client_and_receipt(client: Client) -> tuple[Client, Receipt]:
        return client, await create(client)

    results = await asyncio.gather(*(asyncio.to_thread(thread.call, client_and_receipt) for _ in range(8)))

    assert len({id(client) for client, _ in results}) == 1
    assert {receipt.task_id for _, receipt in results} == {stopped.creates[0].task_id}
    assert len(stopped.creates) == 1


async def test_a_deadline_ends_the_waiting_and_not_the_order(thread: ClientThread, stopped: Service):
    await asyncio.to_thread(thread.call, lambda client: client.account.get())
    stopped.sandbox.faults.add("videos.create", Fault.stall(1))
    with pytest.raises(TimeoutError, match=r"no result within 0\.3 s; a create under way continues"):
        await asyncio.to_thread(thread.call, create, timeout=0.3)

    await stopped.until_create()
    stopped.sandbox.clock.advance(1)
    receipt = await asyncio.to_thread(thread.call, create)
    assert [made.task_id for made in stopped.creates] == [receipt.task_id]


async def test_a_deadline_cancels_a_wait(thread: ClientThread, stopped: Service):
    ended = threading.Event()

    async def wait(client: Client) -> None:
        try:
            await client.videos.wait(await create(client))
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await asyncio.to_thread(thread.call, wait, timeout=0.3)
    assert await asyncio.to_thread(ended.wait, LIMIT)
    assert (await asyncio.to_thread(thread.call, create)).task_id == stopped.creates[0].task_id


@pytest.mark.parametrize("error", [TimeoutError("its own"), SystemExit(3), KeyboardInterrupt(), ValueError("wrong")])
def test_what_a_call_raises_reaches_its_caller_and_no_other_call(fake: ClientThread, error: BaseException):
    async def fail(client: Client) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        fake.call(fail, timeout=LIMIT)
    assert caught.value.args == error.args
    assert fake.call(create).task_id == "task-1"


def test_a_client_that_could_not_be_opened_is_opened_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("VIDGEN_API_KEY", raising=False)
    directory = tmp_path / "missing"
    with ClientThread() as thread:
        with pytest.raises(ConfigurationError, match="VIDGEN_API_KEY"):
            thread.call(lambda client: client.orders.list())
        monkeypatch.setenv("VIDGEN_API_KEY", "key")
        monkeypatch.setenv("VIDGEN_BASE_URL", "https://h/openapi/v1")
        monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{directory}/orders.db")
        with pytest.raises(JournalError, match="missing"):
            thread.call(lambda client: client.orders.list())
        directory.mkdir()
        assert thread.call(lambda client: client.orders.list()) == []


def test_the_thread_of_the_event_loop_must_not_call(fake: ClientThread):
    async def call(client: Client) -> None:
        fake.call(create)

    async def close(client: Client) -> None:
        fake.close()

    for use in (call, close):
        with pytest.raises(ClientStateError, match="await the client's method"):
            fake.call(use, timeout=LIMIT)
    assert fake.call(create).task_id == "task-1"


async def test_a_call_beside_a_running_event_loop_blocks_it_and_returns(fake: ClientThread):
    """As in a cell of a notebook."""
    order = [fake.call(create).task_id]
    asyncio.get_running_loop().call_soon(order.append, "loop")
    order.append(fake.call(create).task_id)
    await asyncio.sleep(0)
    assert order == ["task-1", "task-1", "loop"]


def test_a_call_has_the_context_variables_of_its_caller(fake: ClientThread):
    variable = contextvars.ContextVar("variable", default="none")

    async def read(client: Client) -> str:
        return variable.get()

    for value in ("first", "second"):
        variable.set(value)
        assert fake.call(read) == value


async def test_closing_waits_for_creates_and_cancels_everything_else(thread: ClientThread, stopped: Service):
    is_clean = threading.Event()

    async def wait(client: Client) -> None:
        try:
            await asyncio.sleep(LIMIT)
        finally:
            await asyncio.to_thread(is_clean.set)

    stopped.sandbox.faults.add("videos.create", Fault.stall(1))
    creating = asyncio.create_task(asyncio.to_thread(thread.call, create))
    await stopped.until_create()
    waiting = asyncio.create_task(asyncio.to_thread(thread.call, wait))
    closing = [asyncio.create_task(asyncio.to_thread(thread.close)) for _ in range(3)]
    while not thread._is_closed:  # noqa: ASYNC110 - another thread sets it
        await asyncio.sleep(0)
    stopped.sandbox.clock.advance(1)

    await asyncio.gather(*closing)
    assert is_clean.is_set()
    assert (await creating).task_id == stopped.creates[0].task_id
    with pytest.raises(ClientStateError, match="closed"):
        await waiting
    with pytest.raises(ClientStateError, match="the client is closed; make a new ClientThread"):
        thread.call(create)
    assert len(stopped.creates) == 1


def test_an_unused_one_is_closed_without_a_client():
    thread = ClientThread(lambda: pytest.fail("a client was made"))
    for _ in range(2):
        thread.close()
    with pytest.raises(ClientStateError, match="closed"):
        thread.call(create)


def test_closing_raises_what_the_client_raises_when_it_is_closed(monkeypatch: pytest.MonkeyPatch):
    async def fail(self: FakeTransport) -> None:
        raise OSError

    monkeypatch.setattr(FakeTransport, "aclose", fail)
    thread = ClientThread(make_fake)
    thread.call(create)
    with pytest.raises(OSError):  # noqa: PT011 - it has no text
        thread.close()
    assert not thread._thread.is_alive()


def test_no_client_is_made_after_closing():
    made: list[Client] = []
    is_closing = threading.Event()

    def make() -> Client:
        is_closing.wait()
        made.append(make_fake())
        return made[0]

    thread = ClientThread(make)
    errors: list[str] = []

    def call() -> None:
        try:
            thread.call(lambda client: asyncio.sleep(LIMIT))
        except ClientStateError as error:
            errors.append(str(error))

    calls = [threading.Thread(target=call) for _ in range(2)]
    for one in (*calls, closing := threading.Thread(target=thread.close)):
        one.start()
    while thread._closing is None:
        pass
    is_closing.set()
    for one in (*calls, closing):
        one.join()
    assert len(errors) == 2
    assert [client.is_closed for client in made] == [True] * len(made)


@needs_fork
def test_ctrl_c_ends_the_waiting_and_not_the_order():
    creates: list[Request] = []
    answered = threading.Event()

    async def interrupt(request: Request) -> BufferedResponse:
        creates.append(request)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await asyncio.to_thread(answered.wait)
        return await answer(request)

    with ClientThread(partial(make_fake, interrupt)) as thread:
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                thread.call(create)
        finally:
            signal.signal(signal.SIGINT, handler)
            answered.set()
        assert thread.call(create).task_id == "task-1"
    assert len(creates) == 1


def in_child(work: Callable[[], bool]) -> int:
    """The exit code of a forked child: 0 if the work returns true; a deadlock ends by a signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(int(LIMIT))
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
def test_an_unused_one_has_a_client_in_each_forked_child(fake: ClientThread):
    assert [in_child(lambda: fake.call(create).task_id == "task-1") for _ in range(2)] == [0, 0]
    assert fake.call(create).task_id == "task-1"


@needs_fork
def test_one_that_was_called_before_a_fork_refuses_calls_in_the_child_and_waits_for_no_lock(fake: ClientThread):
    def is_refused() -> bool:
        fake.close()
        with pytest.raises(ClientStateError, match="before this process was forked"):
            fake.call(create)
        return True

    fake.call(create)
    with fake._lock:  # as if another thread had it
        assert in_child(is_refused) == 0
    assert fake.call(create).task_id == "task-1"


@needs_fork
def test_one_that_is_called_for_the_first_time_during_a_fork_waits_for_no_lock_in_the_child(fake: ClientThread):
    with fake._lock:
        first = threading.Thread(target=fake.call, args=(create,))
        first.start()
        while fake._process is None:
            pass
        assert in_child(lambda: fake.close() is None) == 0
    first.join()


async def run(program: str, service: Sandbox, directory: Path) -> str:
    """What a program prints; it must end by itself, without a warning."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "VIDGEN_API_KEY": service.api_key,
        "VIDGEN_BASE_URL": service.base_url,
        "VIDGEN_JOURNAL": f"sqlite:///{directory}/orders.db",
    }
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    return output.decode()


BEGIN = """
    import asyncio, multiprocessing, os, sys, threading, warnings
    from vidgen_async.blocking import ClientThread

    thread = ClientThread()

    async def create(client, order_id="order-1"):
        return await client.videos.create(
            model="gen-2.0", prompt="a boat", duration=5, order_id=order_id, on_receipt=print_receipt
        )

    async def print_receipt(receipt):
        await asyncio.to_thread(os.write, 1, f"{receipt.task_id}\\n".encode())  # executors still accept work

    def begin():
        \"\"\"Begin a create, for which nothing waits.\"\"\"
        threading.Thread(target=thread.call, args=(create,), daemon=True).start()
        while not thread.call(lambda client: client.orders.list(["sending"])):
            pass
    """


@pytest.mark.slow
@needs_threads_at_exit
@pytest.mark.parametrize(
    "end",
    [
        "begin()",
        pytest.param("multiprocessing.get_context('fork').Process(target=begin).start()", marks=needs_fork),
    ],
)
async def test_a_process_that_ends_waits_for_its_create(end: str, service: Sandbox, tmp_path: Path):
    service.faults.add("videos.create", Fault.stall(0.5))
    printed = await run(f"{BEGIN}\n    {end}", service, tmp_path)
    (made,) = service.creates
    assert printed == f"{made.task_id}\n"
    async with Client("key", base_url=service.base_url, journal=f"sqlite:///{tmp_path}/orders.db") as client:
        order = await client.orders.get("order-1")
    assert order is not None
    assert order.receipt is not None
    assert order.receipt.task_id == made.task_id


@pytest.mark.slow
@needs_threads_at_exit
@needs_fork
async def test_a_forked_child_that_ends_leaves_its_parent_its_client(service: Sandbox, tmp_path: Path):
    program = """
    thread.call(create)
    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
    child = os.fork()
    if child == 0:
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    thread.call(lambda client: create(client, "order-2"))
    """
    await run(BEGIN + program, service, tmp_path)
    assert len(service.creates) == 2
