"""API keys that a callable returns, for keys that change while the client is in use."""

import asyncio
import inspect
import math
from collections.abc import Callable

from attrs import evolve, field, frozen

from vidgen_async.clock import Clock, within
from vidgen_async.errors import ConfigurationError, KeyFunctionError
from vidgen_async.types.http import Delivery, Headers, KeyFunction, Phase, Request, make_headers
from vidgen_async.user_code import UserCode, describe

#: The request header of the key (5.1).
AUTHORIZATION = "Authorization"


@frozen(eq=False)
class Key:
    """What one call of the callable returned."""

    value: str = field(repr=False)


class KeyRing:
    """The keys that a callable returned: it is called when a key is first needed, and when the present one was refused.
    Those with the same callable are equal. ``check`` returns the key of a value, or raises ConfigurationError."""

    def __init__(self, ask: KeyFunction, check: Callable[[object], str]) -> None:
        self._ask = ask
        self._check = check
        self._lock = asyncio.Lock()
        self._key: Key | None = None
        self._prepared: tuple[Headers, str, Headers] | None = None
        self.known: tuple[str, ...] = ()
        """The present key, and the one before it, which an answer under way may still quote."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyRing):
            return NotImplemented
        # Each access to a method makes another object. Callables of other classes may be equal and return other keys.
        is_same_method = inspect.ismethod(self._ask) and inspect.ismethod(other._ask) and self._ask == other._ask
        return is_same_method or self._ask is other._ask

    def __hash__(self) -> int:
        return hash(self._ask) if inspect.ismethod(self._ask) else id(self._ask)

    async def get(self, request: Request, clock: Clock, *, delivery: Delivery = Delivery.NOT_SENT) -> Key:
        """The present key, within the time limits of the request; KeyFunctionError if there is none. Concurrent callers
        share one call of the callable, unless it raises or is cancelled."""
        if self._key is not None:
            return self._key
        limits = request.timeouts
        shortest = min(("connect", "read", "answer"), key=lambda name: getattr(limits, name) or math.inf)
        cause: TimeoutError | None = None
        try:
            return await within(clock, getattr(limits, shortest), self._get)
        except KeyFunctionError as error:
            message = f"{request.op}: {error.message}"
        except TimeoutError as error:
            message, cause = f"{request.op}: the api_key function did not return a key {limits.within(shortest)}", error
        raise KeyFunctionError(message, delivery=delivery, phase=Phase.BUILD, op=request.op) from cause

    async def _get(self) -> Key:
        while (key := self._key) is None:
            async with self._lock:
                if self._key is None:
                    found = await self._call()
                    if isinstance(found, str):
                        raise KeyFunctionError(found)
                    self.known = tuple(dict.fromkeys((found.value, *self.known)))[:2]
                    self._key = found
        return key

    async def _call(self) -> Key | str:
        """A new key, or why there is none. The reason is not raised here, where a traceback might show a key."""
        with UserCode() as call:
            returned = self._ask()
            value = await returned if inspect.isawaitable(returned) else returned
        if call.error is not None:
            return f"the api_key function raised {describe(call.error)}"
        try:
            return Key(self._check(value))
        except ConfigurationError as error:
            return error.message

    def discard(self, refused: Key) -> None:
        """Ask again before the next request, unless that was done since this key was returned."""
        if self._key is refused:
            self._key = None

    def add_to(self, request: Request, key: Key) -> Request:
        """The request with this key. Requests with the same headers, as polls have, get the same object of headers."""
        prepared = self._prepared
        if prepared is None or prepared[0] is not request.headers or prepared[1] != key.value:
            headers = [(name, value) for name, value in request.headers.items() if name != AUTHORIZATION]
            made = make_headers([(AUTHORIZATION, f"Bearer {key.value}"), *headers])
            prepared = self._prepared = (request.headers, key.value, made)
        return evolve(request, headers=prepared[2])
