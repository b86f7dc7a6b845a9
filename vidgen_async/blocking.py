"""A client for code without an event loop: Flask, Django under WSGI, Celery, a script, a thread."""

import asyncio
import concurrent.futures.thread
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from vidgen_async.client import Client
from vidgen_async.errors import ClientStateError
from vidgen_async.user_code import EXITS

__all__ = ["ClientThread"]

T = TypeVar("T")


class ClientThread:
    """One client for all threads of a process, on an event loop in a thread of its own.

    The first call starts the thread and makes the client, so an object made while a prefork server loads your program
    has a client in each of its processes. Once it was called, it is of no use to a forked child: :meth:`call` raises
    ClientStateError there, :meth:`close` does nothing, and neither waits.

    It is a context manager. When the main thread has ended, it is closed as by :meth:`close`; a process that ends by
    ``os._exit`` or a signal must call that itself.

    Args:
        make_client: Makes the client, in the thread. Default: a client with the settings of the environment.
        grace: Seconds for which closing waits for creates under way.
    """

    def __init__(self, make_client: Callable[[], Client] = Client, *, grace: float = 5.0) -> None:
        self._make_client = make_client
        self._grace = grace
        self._lock = threading.Lock()
        self._process: int | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._closing: concurrent.futures.Future[None] | None = None
        # Of the event loop:
        self._opening = asyncio.Lock()
        self._ended = asyncio.Event()
        self._client: Client | None = None

    def call(self, use: Callable[[Client], Awaitable[T]], *, timeout: float | None = None) -> T:
        """Return the result of ``await use(client)``, which runs on the event loop; this thread waits for it.

        It runs with the context variables of the caller. A KeyboardInterrupt, or another exception of a signal handler,
        cancels it like ``timeout``.

        Args:
            use: A coroutine function, or ``lambda client: client.videos.get(task_id)``.
            timeout: Seconds; opening the client is part of them.

        Raises:
            TimeoutError: There was no result in time. The call is cancelled: reads and waits end. An order is not: a
                create under way continues, its outcome is stored, and another call with its order id returns it.
            ClientStateError: It is closed, or was closed during the call; this process is a fork of the one that called
                it first; or this is the thread of the event loop, which would wait for itself.
            ConfigurationError, JournalError: The client could not be opened. The next call opens one again.
        """
        self._check()
        with self._lock:
            if self._is_closed:
                raise ClientStateError("the client is closed; make a new ClientThread")
            if self._thread is None:
                self._start()
            future = asyncio.run_coroutine_threadsafe(self._run(use), self._loop)
        try:
            concurrent.futures.wait([future], timeout)
        finally:
            is_cancelled = not future.done() and future.cancel()
        if is_cancelled:
            message = f"no result within {timeout:g} s; a create under way continues: call it again with its order id"
            raise TimeoutError(message)
        try:
            result = future.result()
        except concurrent.futures.CancelledError:
            if not self._is_closed:
                raise
            raise ClientStateError("the client was closed during the call") from None
        if isinstance(result, EXITS):
            raise result
        return result

    def close(self) -> None:
        """Close the client, which waits for creates under way, and end the thread. Any thread may call it, repeatedly.

        Other calls under way are cancelled.

        Raises:
            ClientStateError: This is the thread of the event loop.
            CassetteError: The cassette of the client could not be published.
        """
        if self._process not in (None, os.getpid()):
            return
        self._check()
        with self._lock:
            self._is_closed = True
            if self._thread is None:
                return
            if self._closing is None:
                self._closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._thread.join()
        _running.discard(self)
        self._closing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        """Raise ClientStateError where waiting would not end: in a forked child, whose lock is never released."""
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            message = "this ClientThread was called before this process was forked; call it after the fork only"
            raise ClientStateError(message)
        if threading.current_thread() is self._thread:
            message = "this is the thread of the event loop, which would wait for itself; await the client's method"
            raise ClientStateError(message)

    def _start(self) -> None:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)  # which is not set for this thread
        self._loop = runner.get_loop()
        thread = threading.Thread(target=self._serve, args=(runner,), name="vidgen client", daemon=True)
        thread.start()
        self._thread = thread
        _running.add(self)

    def _serve(self, runner: asyncio.Runner) -> None:
        with runner:
            runner.run(self._ended.wait())

    async def _run(self, use: Callable[[Client], Awaitable[T]]) -> T | KeyboardInterrupt | SystemExit:
        try:
            return await use(self._client or await self._open())
        except EXITS as error:  # raised here, it would end the event loop
            return error

    async def _open(self) -> Client:
        async with self._opening:
            if self._is_closed:
                raise asyncio.CancelledError
            self._client = self._client or await self._make_client().__aenter__()
            return self._client

    async def _close(self) -> None:
        try:
            async with self._opening:
                if self._client is not None:
                    await self._client.aclose(grace=self._grace)
        finally:
            self._ended.set()


#: Those that a process closes when it ends.
_running: set[ClientThread] = set()


def _close_all() -> None:
    for thread in list(_running):
        try:
            thread.close()
        except Exception:
            logging.getLogger(__name__).exception("a client could not be closed")


# Such functions are called in reverse order. That of concurrent.futures, which is imported above, refuses all further
# work to executors, which journals and downloads need. Those of atexit are called after it.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public is as early
