"""The network, by aiohttp: with evidence of what was sent, and without its own retries."""

import asyncio
import os
import ssl as tls
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakSet, finalize

import aiohttp
from yarl import URL

from vidgen_async.clock import wait_for_end
from vidgen_async.errors import ClientStateError, ConfigurationError, TransportError
from vidgen_async.transports.base import Connection, Transport
from vidgen_async.transports.direct import failures
from vidgen_async.transports.direct.bodies import DirectResponse
from vidgen_async.transports.direct.connections import (
    CURRENT_SEND,
    HEADER_LIMITS,
    GuardedConnector,
    PlainReads,
    close_dropped,
    may_bypass,
    may_hold,
)
from vidgen_async.transports.direct.pending_send import (
    NoRetryError,
    PendingCreate,
    PendingSend,
    RequestOptions,
    check_target,
    is_path_valid,
    make_trace,
    send_exact_headers,
    send_only_once,
)
from vidgen_async.transports.direct.proxies import EnvironmentProxies, proxy_url
from vidgen_async.types.http import Delivery, Phase, Request

#: Seconds for which an idle connection of the pool of polls is kept: longer than the polling interval, since a new TLS
#: connection takes ten times the CPU time of a poll. A poll whose connection the service had closed is sent once more.
_POLLS_KEPT_ALIVE = 90.0

#: The operation whose requests use connections of their own.
_CREATE = "videos.create"

#: Seconds for which aborted sends are awaited: the body of a caller may not end when it is cancelled.
_ABORT_TIMEOUT = 5.0


class _NoCookies(aiohttp.DummyCookieJar):
    """Does not parse cookies either: aiohttp logs those that are malformed, with whatever they quote."""

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: URL) -> None:
        pass


class DirectTransport(Transport):
    """Sends requests over the network. Nothing is opened before the first send.

    A **create** uses a new connection in a private session: no limit on their number, no cookies, no retry. ``connect``
    raises only with proof that nothing was sent. **Other requests** use a pool of kept-alive connections, also without
    a retry; polls, other reads and videos have separate pools, so that none waits for another. With ``session``, all of
    these share its pool instead, and aiohttp may resend a GET whose connection was lost.

    Args:
        session: Its connections, with its certificates and proxy, are used by all requests but creates. It is never
            closed here, and its own headers, cookies, credentials and middlewares do not change the requests. Creates
            never use it: the arguments below that they need must be given, too.
        max_connections: The size of the pool of polls, and of the pool of other reads.
        max_streams: The size of the pool of videos (downloads and streams).
        trust_env: Use the proxies of ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``ALL_PROXY``, except for this machine and the
            hosts of ``NO_PROXY``; they are read when the transport is made. ``netrc`` is never read.
        proxy: The URL of a proxy for all requests, instead. Default: VIDGEN_PROXY, except for this machine.
        ssl: An ``SSLContext``, an ``aiohttp.Fingerprint``, or False to disable the verification of certificates.
    """

    user_agent = f"aiohttp/{aiohttp.__version__}"

    def __init__(
        self,
        session: aiohttp.ClientSession | None = None,
        *,
        max_connections: int = 100,
        max_streams: int = 100,
        trust_env: bool = True,
        proxy: str | URL | None = None,
        ssl: tls.SSLContext | aiohttp.Fingerprint | bool = True,
    ) -> None:
        if not isinstance(ssl, tls.SSLContext | aiohttp.Fingerprint | bool):
            kind = type(ssl).__name__
            raise ConfigurationError(f"ssl must be an SSLContext, an aiohttp.Fingerprint or a bool, not {kind}")
        for name, limit in (("max_connections", max_connections), ("max_streams", max_streams)):
            if not isinstance(limit, int) or limit < 1:
                raise ConfigurationError(f"{name} must be a whole number above 0: {limit!r}")
        self._proxy = None if proxy is None else proxy_url(proxy, "proxy")
        self._session = session
        self._max_connections = max_connections
        self._max_streams = max_streams
        environment = EnvironmentProxies.read(trust_env=trust_env)
        self._environment = environment if proxy is None and environment.proxies else None
        self._ssl = ssl
        self._pools: dict[tuple[str, bool], aiohttp.ClientSession] = {}
        """By the pool that a request names (or ``creates``), and by whether it needs a new connection."""
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._is_closed = False
        self._options: RequestOptions | None = None
        self._plain_reads: dict[str, PlainReads] = {}
        """Those that were sent last, by their pool."""
        self._pending: set[PendingSend] = set()
        self._plain_workers: dict[asyncio.Task[Any], bool] = {}
        """The tasks that are sending a plain read, and whether they were aborted."""
        self._responses: WeakSet[DirectResponse] = WeakSet()
        self._idle = asyncio.Event()

    async def send(self, request: Request) -> DirectResponse:
        """Send one request; return when the status line and the headers have been received.

        When it is cancelled, it closes the connection; data that was already passed to the operating system (a few
        chunks of 64 KiB at most) may still be sent.

        Raises:
            TransportError: With the evidence.
            ClientStateError: On another event loop or in a forked child process.
        """
        self._check_state(request)
        if request.op == _CREATE:
            create = PendingCreate(request, self._options_of(request), self._proxy_of(request))
            create.is_released.set()
            return await self._exchange(create)
        if (reads := self._plain_reads_of(request)) is not None:
            return await self._read_plainly(request, reads)
        return await self._exchange(PendingSend(request, self._options_of(request), self._proxy_of(request)))

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """Connect, and hold the request back before its first byte. Where aiohttp was replaced, as fakes of
        services do, nothing is done before ``connection.send()``.

        Raises:
            TransportError: Nothing was sent.
            ClientStateError: On another event loop or in a forked child process; nothing was sent.
        """
        if not may_hold():
            yield Connection(partial(self.send, request))
            return
        self._check_state(request)
        create = PendingCreate(request, self._options_of(request), self._proxy_of(request))
        sending = asyncio.create_task(self._exchange(create), name="create")
        sending.add_done_callback(create.on_end)
        try:
            await _wait_until_held(create, sending)
            send = partial(_send_held, create, sending)
            yield Connection(send, is_ready=create.is_ready, unparsed=create.unparsed)
        finally:
            await _cancel_send(sending)

    async def aclose(self) -> None:
        """Refuse further sends, and abort those in progress: sends raise TransportClosedError, reads of open responses
        BodyError. May be called twice."""
        self._is_closed = True
        if self._owner is None:
            return
        pid, loop = self._owner
        if pid != os.getpid():
            # The parent process has the same sockets: closing them here would end the parent's connections.
            return
        if loop is not asyncio.get_running_loop() and not loop.is_closed():
            raise ClientStateError("the transport must be closed on the event loop on which it was used")
        if not loop.is_closed():
            for pending in self._pending:
                pending.abort()
            for worker, is_aborted in self._plain_workers.items():
                if not is_aborted:
                    self._plain_workers[worker] = True
                    worker.cancel()
            for response in list(self._responses):
                response.abort()
            self._check_idle()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ABORT_TIMEOUT):
                    await self._idle.wait()
        for pool in list(self._pools.values()):
            await pool.close()

    def _check_idle(self) -> None:
        if self._is_closed and not self._pending and not self._plain_workers:
            self._idle.set()

    def _check_state(self, request: Request) -> None:
        """Raise if the transport cannot be used here; its first use binds it to this process and event loop."""
        here = (os.getpid(), asyncio.get_running_loop())
        if self._owner is None and not self._is_closed:
            self._owner = here
            # A process that ends closes its connections without a report, as those of prefork servers do.
            finalize(self, close_dropped, self._pools, *here).atexit = False
        if self._owner is not None and self._owner[0] != here[0]:
            message = f"{request.op}: this process is a fork of the one that used the transport; make a new one there"
            raise ClientStateError(message)
        if self._is_closed:
            raise failures.closed(request, failures.Progress())
        if request.op != _CREATE and self._is_session_closed():
            what = "the session that was given to the transport is closed"
            raise failures.closed(request, failures.Progress(), what=what)
        if self._owner is not None and self._owner[1] is not here[1]:
            message = f"{request.op}: the transport was used on another event loop; make a new one for this loop"
            raise ClientStateError(message)

    def _is_session_closed(self) -> bool:
        return self._session is not None and self._session.closed

    def _options_of(self, request: Request) -> RequestOptions:
        check_target(request)
        options = self._options
        if options is None or options.headers is not request.headers or options.timeouts is not request.timeouts:
            options = self._options = RequestOptions(request)
        return options

    # -- one send ----------------------------------------------------------------------------------------------------

    async def _exchange(self, pending: PendingSend) -> DirectResponse:
        if self._is_closed:  # before the task of a create has started
            raise failures.closed(pending.request, failures.Progress())
        is_answered = False
        self._pending.add(pending)
        current = CURRENT_SEND.set(pending)
        try:
            async with pending.stop:
                answer = await (self._create(pending) if isinstance(pending, PendingCreate) else self._read(pending))
            is_answered = True
            return self._respond(pending, answer)
        except asyncio.CancelledError:
            # aiohttp cancels the sends that wait for a connection when the session is closed.
            if pending.progress is not None or not self._is_session_closed() or not pending.is_cancelled_by_aiohttp():
                raise
            what = "the session that was given to the transport was closed"
            failure = failures.closed(pending.request, None, what=what)
        except TransportError as error:
            failure = error
        except NoRetryError as lost:
            failure = pending.explain(lost.args[0])
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = pending.explain(error)
        finally:
            CURRENT_SEND.reset(current)
            if not is_answered and pending.upload is not None:
                await pending.upload.aclose()
            self._pending.discard(pending)
            pending.stop = asyncio.timeout(None)  # the one that was used references the task, and so the response
            self._check_idle()
        try:
            raise failure  # outside of any except block, so that aiohttp's exception is not its context
        finally:
            del failure

    def _respond(self, pending: PendingSend, answer: aiohttp.ClientResponse) -> DirectResponse:
        if pending.upload is not None:
            pending.upload.limit = None  # the response has begun: the rest of the body has no time limit of its own
        response = DirectResponse(answer, pending.request, pending.upload, pending.proxy)
        if pending.is_aborted:
            response.abort()
        elif not answer.closed:
            self._responses.add(response)
        return response

    async def _read(self, pending: PendingSend) -> aiohttp.ClientResponse:
        """Send without trace signals."""
        request = pending.request
        options = await pending.options()
        if self._session is None:
            pending.is_pooled = True
            pool = self._pool(request.pool, needs_new_connection=request.needs_new_connection)
            return await pool.request(request.method, request.url, **options, proxy=pending.proxy)
        headers = options["headers"]
        # aiohttp refuses an Authorization header beside credentials of the session or of a netrc file.
        shown = [item for item in headers if item[0].lower() != "authorization"]
        options = {**options, "headers": shown, "middlewares": (partial(send_exact_headers, headers),)}
        return await self._session.request(request.method, request.url, **options)

    async def _create(self, create: PendingCreate) -> aiohttp.ClientResponse:
        """Send with signals, which record the progress and hold the request back."""
        options = {**await create.options(), "proxy": create.proxy, "middlewares": (create.guard,)}
        session = self._pool("creates", needs_new_connection=True)
        create.progress.delivery = Delivery.MAYBE_SENT  # until a signal proves that it was not
        request = create.request
        answer = await session.request(request.method, request.url, **options, trace_request_ctx=create)
        create.progress.delivery, create.progress.phase = Delivery.ANSWERED, Phase.BODY
        return answer

    # -- reads without a session -------------------------------------------------------------------------------------

    def _plain_reads_of(self, request: Request) -> PlainReads | None:
        """Return the PlainReads that sends the request; None if an aiohttp session must send it."""
        is_plain = request.method == "GET" and request.body is None and not request.needs_new_connection
        if self._session is not None or not is_plain or request.pool == "streams":
            return None
        reads = self._plain_reads.get(request.pool)
        if reads is not None and reads.include(request) and is_path_valid(request.url):
            return reads if may_bypass(reads.session) else None
        options = self._options_of(request)
        if not options.are_plain or self._proxy_of(request) is not None:
            return None
        session = self._pool(request.pool, needs_new_connection=False)
        if not may_bypass(session):
            return None
        reads = self._plain_reads[request.pool] = PlainReads(session, request, options.options)
        return reads

    async def _read_plainly(self, request: Request, reads: PlainReads) -> DirectResponse:
        worker: Any = asyncio.current_task()
        cancels = worker.cancelling()
        failure: TransportError | None = None
        is_reused = False
        self._plain_workers[worker] = False
        try:
            deadline = reads.deadline()
            connection = await reads.connect()
            is_reused = connection.protocol.is_reused
            answer = await reads.get(connection, request.url, deadline)
        except asyncio.CancelledError:
            if not self._plain_workers[worker] or worker.uncancel() > cancels:
                raise
            failure = failures.closed(request, None)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = failures.explain(error, request, None, is_connection_reused=is_reused)
        finally:
            del self._plain_workers[worker]
            self._check_idle()
        if failure is not None:
            try:
                raise failure  # outside of any except block, as in _exchange
            finally:
                del failure
        response = DirectResponse(answer, request)
        if not answer.closed:
            self._responses.add(response)
        return response

    def _proxy_of(self, request: Request) -> URL | None:
        if self._environment is None or (self._session is not None and request.op != _CREATE):
            return self._proxy
        try:
            return self._environment.proxy_for(request.url)
        except ConfigurationError as error:
            raise failures.unsendable(request, str(error)) from None

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _pool(self, name: str, *, needs_new_connection: bool) -> aiohttp.ClientSession:
        key = (name, needs_new_connection)
        if key not in self._pools:
            options: dict[str, Any] = {"limit": self._max_streams if name == "streams" else self._max_connections}
            if name == "creates":
                # Without the cache, a DNS query belongs to one send: it is traced and cancelled with it.
                options = {"limit": 0, "use_dns_cache": False}
            elif name == "polls" and not needs_new_connection:
                options["keepalive_timeout"] = _POLLS_KEPT_ALIVE
            self._pools[key] = aiohttp.ClientSession(
                connector=GuardedConnector(ssl=self._ssl, force_close=needs_new_connection, **options),
                cookie_jar=_NoCookies(),
                trace_configs=[make_trace()] if name == "creates" else None,
                middlewares=(send_only_once,),
                **HEADER_LIMITS,
            )
        return self._pools[key]


async def _wait_until_held(create: PendingCreate, sending: asyncio.Task[DirectResponse]) -> None:
    """Return when the connection is ready; raise if it is proven that nothing was sent. If the send has ended in
    any other way, return: ``connection.send()`` returns or raises its outcome."""
    try:
        await create.is_held.wait()
        if sending.cancelled():
            raise asyncio.CancelledError
    except asyncio.CancelledError as cancelled:
        with suppress(asyncio.CancelledError):  # cancelled twice: the first one is raised
            await _cancel_send(sending)
        if create.progress.delivery is Delivery.NOT_SENT:
            cancelled.__cause__ = failures.cancelled(create.request, create.progress)
        raise
    if sending.done() and create.progress.delivery is Delivery.NOT_SENT and (error := sending.exception()) is not None:
        raise create.explain(error) if isinstance(error, Exception) and not isinstance(error, TransportError) else error


async def _send_held(create: PendingCreate, sending: asyncio.Task[DirectResponse]) -> DirectResponse:
    create.is_released.set()
    return await sending


async def _cancel_send(sending: asyncio.Task[DirectResponse]) -> None:
    """Cancel a send, await its end, and close its response if it has one."""
    sending.cancel()
    await wait_for_end({sending})
    if not sending.cancelled() and sending.exception() is None:
        await sending.result().aclose()
