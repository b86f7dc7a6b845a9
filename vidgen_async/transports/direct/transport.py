"""The real network: aiohttp, made to tell what left, and to send once what may not be sent twice."""

import asyncio
import inspect
import os
import ssl as tls
from collections.abc import Mapping
from typing import Any
from urllib.request import getproxies_environment, proxy_bypass
from weakref import WeakSet

import aiohttp
from yarl import URL

from vidgen_async.errors import ClientStateError, ConfigurationError, TransportError
from vidgen_async.transports.direct import failures
from vidgen_async.transports.direct.bodies import DirectResponse
from vidgen_async.transports.direct.connections import ON_CONNECTION, GuardedConnector
from vidgen_async.transports.direct.evidence import (
    BrokenOffError,
    Evidence,
    GateRefusedError,
    make_trace,
    send_only_once,
)
from vidgen_async.transports.direct.pending_send import Exactly, Flight, Form
from vidgen_async.types.http import Delivery, Phase, Probe, Request

#: After the cut, sends are given this long (seconds) to leave: somebody's gate may refuse to be cancelled.
_LINGER = 5.0


#: Of the headers of an answer, in bytes and in number: a receipt must not be lost by a header. Not every aiohttp that
#: is allowed has each limit.
_HEADER_LIMITS: dict[str, Any] = {
    name: value
    for name, value in (("max_line_size", 65_536), ("max_field_size", 1 << 20), ("max_headers", 10_000))
    if name in inspect.signature(aiohttp.ClientSession).parameters
}


def proxy_url(value: str | URL) -> URL:
    """The URL of a proxy; ValueError names the problem, without its user name and password."""
    try:
        url = URL(value)
        url.port  # noqa: B018 - read here, where a port that is no number is an error of the setting
    except (TypeError, ValueError):
        # What yarl says quotes the URL.
        message = "is not a URL (a user name or password in it must be percent-encoded)"
        raise ValueError(message) from None
    if url.scheme not in ("http", "https") or not url.host:
        message = f"must begin with http:// or https:// and name a host, not with {url.scheme or 'nothing'!r}"
        raise ValueError(message)
    return url


class DirectTransport:
    """Carries requests over the network. Nothing is opened before the first send.

    A send **with a probe** (a create) gets a connection of its own in a private session: never a kept-alive one, no
    limit on how many, no cookies, no second try, its gate awaited when the connection is up. A send **without** one
    (reads, uploads) uses a pool of kept-alive connections, also without a second try; polls, other reads and videos
    have a pool each, so that none of them waits for another. Or ``session`` where one is given: there aiohttp may
    repeat a GET whose connection broke, and all share its pool.

    :param session: lends its connections, with its own certificates and proxy, to the sends without a probe. It is
        never closed here, and headers, cookies, credentials and middlewares of its own do not touch the requests.
        Creates never use it: what they need of the following must be given here too.
    :param max_connections: of the pool of polls, and as many of the pool of other reads.
    :param max_streams: of the pool of videos: downloads and streams.
    :param trust_env: take the proxy from ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``; ``netrc`` is never read.
    :param proxy: the URL of a proxy, instead.
    :param ssl: an ``SSLContext``, an ``aiohttp.Fingerprint``, or False for no check of certificates.
    :param grace: seconds that :meth:`aclose` waits for what is under way.
    """

    honours_gate = True

    def __init__(
        self,
        session: aiohttp.ClientSession | None = None,
        *,
        max_connections: int = 100,
        max_streams: int = 100,
        trust_env: bool = False,
        proxy: str | URL | None = None,
        ssl: tls.SSLContext | aiohttp.Fingerprint | bool = True,
        grace: float = 0.0,
    ) -> None:
        if not isinstance(ssl, tls.SSLContext | aiohttp.Fingerprint | bool):
            message = f"ssl must be an SSLContext, an aiohttp.Fingerprint or a bool, not {type(ssl).__name__}"
            raise ConfigurationError(message)
        for name, limit in (("max_connections", max_connections), ("max_streams", max_streams)):
            if not isinstance(limit, int) or limit < 1:
                message = f"{name} must be a whole number above 0: {limit!r}"
                raise ConfigurationError(message)
        try:
            self._proxy = None if proxy is None else proxy_url(proxy)
        except ValueError as error:
            message = f"proxy {error}"
            raise ConfigurationError(message) from None
        self._given = session
        self._max_connections = max_connections
        self._max_streams = max_streams
        self._trust_env = trust_env
        self._ssl = ssl
        self._grace = grace
        self._pools: dict[tuple[str, bool], aiohttp.ClientSession] = {}
        """By the pool that a request names, and by whether it needs a new connection."""
        self._private: aiohttp.ClientSession | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._is_closed = False
        self._form: Form | None = None
        self._flights: set[Flight] = set()
        self._responses: WeakSet[DirectResponse] = WeakSet()
        self._idle = asyncio.Event()

    async def send(self, request: Request, *, probe: Probe | None = None) -> DirectResponse:
        """Send one request; returns when status and headers have come.

        Raises a TransportError with the evidence, ClientStateError on another event loop or in a forked child, and
        what the gate raised, as it was raised. Cancelled, it closes the connection; what was already handed to the
        operating system (at most a few pieces of 64 KiB) may still leave, and the probe says so.
        """
        try:
            self._check_state(request, probe)
            flight = Flight(request, probe, self._form_of(request))
        except Exception:
            if probe is not None:
                probe.record_not_sent(Phase.BUILD)
            raise
        self._flights.add(flight)
        outcome: DirectResponse | Exception | None = None
        try:
            outcome = await self._attempt(flight)
        finally:
            if not isinstance(outcome, DirectResponse):
                await flight.aclose()
            self._flights.discard(flight)
            self._note_idle()
        if isinstance(outcome, DirectResponse):
            return outcome
        try:
            # Outside of any except block, so that a gate's own exception keeps its cause and context.
            raise outcome
        finally:
            del outcome

    async def aclose(self) -> None:
        """Refuse further sends, wait ``grace`` seconds for what is under way, then end it: sends with a
        TransportClosedError, reads of open responses with a BodyError. Twice is fine."""
        self._is_closed = True
        if self._home is None:
            return
        pid, home = self._home
        if pid != os.getpid():
            # The sockets are the parent's too: closing them here would take them from its event loop.
            return
        if home is not asyncio.get_running_loop() and not home.is_closed():
            message = "the transport must be closed on the event loop that it was used on"
            raise ClientStateError(message)
        if not home.is_closed():
            await self._wait_idle(self._grace)
            self._cut()
            await self._wait_idle(_LINGER)
        for session in (self._private, *self._pools.values()):
            if session is not None:
                await session.close()

    def _check_state(self, request: Request, probe: Probe | None) -> None:
        here = (os.getpid(), asyncio.get_running_loop())
        if self._home is None and not self._is_closed:
            self._home = here
        if self._home is not None and self._home[0] != here[0]:
            message = f"{request.op}: this process is a fork of the one that used the transport; make a new one in it"
            raise ClientStateError(message)
        if self._is_closed:
            raise failures.closed(request, Probe())
        if probe is None and self._given is not None and self._given.closed:
            raise failures.closed(request, Probe(), what="the session that was given to the transport is closed")
        if self._home is not None and self._home[1] is not here[1]:
            message = f"{request.op}: the transport was used on another event loop; make a new one for this loop"
            raise ClientStateError(message)

    def _form_of(self, request: Request) -> Form:
        form = self._form
        if form is None or form.headers is not request.headers or form.timeouts is not request.timeouts:
            failures.check_request(request)
            form = self._form = Form(request)
        else:
            failures.check_request(request, checked=form.headers)
        return form

    # -- one send ----------------------------------------------------------------------------------------------------

    async def _attempt(self, flight: Flight) -> DirectResponse | Exception:
        """The response, or what is to be raised."""
        request, probe = flight.request, flight.probe
        try:
            async with flight.stop:
                answer = await (self._read(flight) if probe is None else self._create(flight, probe))
        except asyncio.CancelledError:
            if probe is None and flight.is_nobodys_cancel() and self._given is not None and self._given.closed:
                # aiohttp cancels whoever waits for a connection when the session is closed.
                return failures.closed(request, probe, what="the session that was given to the transport was closed")
            raise
        except GateRefusedError as refused:
            return refused.error
        except TransportError as error:
            return error
        except BrokenOffError as broken:
            return flight.explain(broken.error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return flight.explain(error)
        flight.answered()
        if answer.closed and flight.upload is None:  # it has come as a whole: nothing to wait for, nothing to cut
            return DirectResponse(answer, request)
        response = DirectResponse(answer, request, flight.upload, self._forget)
        if flight.is_cut:
            response.cut()
        else:
            self._responses.add(response)
        return response

    async def _read(self, flight: Flight) -> aiohttp.ClientResponse:
        """The lean path: no traces."""
        request = flight.request
        options = await flight.options()
        if self._given is None:
            pool = self._pool_of(request)
            connecting = ON_CONNECTION.set(flight.connected)
            try:
                return await pool.request(request.method, request.url, **options, **self._route(request))
            finally:
                ON_CONNECTION.reset(connecting)
        flight.is_on_new_connection = True  # of a session of the user's own nothing is known
        headers = options["headers"]
        headers = headers if isinstance(headers, list) else list(headers.items())
        # aiohttp refuses an Authorization header beside credentials of the session or of a netrc file.
        shown = [item for item in headers if item[0].lower() != "authorization"]
        options = {**options, "headers": shown, "middlewares": (Exactly(headers),)}
        return await self._given.request(request.method, request.url, **options)

    async def _create(self, flight: Flight, probe: Probe) -> aiohttp.ClientResponse:
        """The careful path."""
        request = flight.request
        try:
            options = {**await flight.options(), **self._route(request)}
            session = self._own_private()
        except BaseException:
            probe.record_not_sent(Phase.BUILD)
            raise
        evidence = Evidence(probe, flight, body_length=0 if request.body is None else request.body.length)
        connecting = ON_CONNECTION.set(flight.connected)
        try:
            answer = await session.request(request.method, request.url, **options, trace_request_ctx=evidence)
        except BaseException:
            evidence.conclude()
            raise
        finally:
            ON_CONNECTION.reset(connecting)
        probe.learn(Delivery.ANSWERED, Phase.BODY)
        return answer

    def _route(self, request: Request) -> Mapping[str, Any]:
        proxy, url = self._proxy, request.url
        if proxy is None and self._trust_env:
            # Not aiohttp's own trust_env: that reads netrc too, and fails where it has an entry for the host.
            named = getproxies_environment().get(url.scheme)
            if named and not proxy_bypass(url.host or ""):
                try:
                    proxy = proxy_url(named if "://" in named else f"http://{named}")
                except ValueError as error:
                    problem = f"the environment's {url.scheme.upper()}_PROXY {error}"
                    raise failures.unsendable(request, problem) from None
        return {} if proxy is None else {"proxy": proxy}

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _pool_of(self, request: Request) -> aiohttp.ClientSession:
        key = (request.pool, request.needs_new_connection)
        pool = self._pools.get(key)
        if pool is None:
            connector = GuardedConnector(
                ssl=self._ssl,
                limit=self._max_streams if request.pool == "streams" else self._max_connections,
                force_close=request.needs_new_connection,
            )
            pool = self._pools[key] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(send_only_once,),
                **_HEADER_LIMITS,
            )
        return pool

    def _own_private(self) -> aiohttp.ClientSession:
        if self._private is None:
            self._private = aiohttp.ClientSession(
                # Without the cache, a look-up belongs to one send: it is traced and cancelled with it.
                connector=GuardedConnector(ssl=self._ssl, limit=0, force_close=True, use_dns_cache=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[make_trace()],
                middlewares=(send_only_once,),
                **_HEADER_LIMITS,
            )
        return self._private

    # -- closing -----------------------------------------------------------------------------------------------------

    def _forget(self, response: DirectResponse) -> None:
        self._responses.discard(response)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._flights and not self._responses:
            self._idle.set()

    async def _wait_idle(self, seconds: float) -> None:
        self._idle.clear()
        self._note_idle()
        if seconds > 0 and not self._idle.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                return

    def _cut(self) -> None:
        for flight in self._flights:
            flight.cut()
        for response in list(self._responses):
            response.cut()
            self._responses.discard(response)
