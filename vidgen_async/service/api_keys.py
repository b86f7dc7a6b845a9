"""API keys that a callable returns, for keys that change while the client is in use."""

import asyncio
import inspect
from collections.abc import Callable

from attrs import evolve, field, frozen

from vidgen_async.types.http import Headers, KeyFunction, Request, make_headers

#: The request header of the key (5.1).
AUTHORIZATION = "Authorization"


@frozen(eq=False)
class Key:
    """What one call of the callable returned."""

    value: str = field(repr=False)


class KeyRing:
    """The keys that a callable returned. It is called when a key is first needed, and again when the service refused
    the present one.

    Args:
        ask: The callable.
        check: Returns the key that a value stands for, or raises.
    """

    def __init__(self, ask: KeyFunction, check: Callable[[object], str]) -> None:
        self._ask = ask
        self._check = check
        self._lock = asyncio.Lock()
        self._key: Key | None = None
        self._prepared: tuple[Headers, str, Headers] | None = None
        self.known: tuple[str, ...] = ()
        """The present key, and the one before it, which an answer under way may still quote."""

    async def get(self) -> Key:
        """The present key. Concurrent callers share one call of the callable, unless it raises or is cancelled."""
        while (key := self._key) is None:
            async with self._lock:
                if self._key is None:
                    returned = self._ask()
                    value = self._check(await returned if inspect.isawaitable(returned) else returned)
                    self.known = tuple(dict.fromkeys((value, *self.known)))[:2]
                    self._key = Key(value)
        return key

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
