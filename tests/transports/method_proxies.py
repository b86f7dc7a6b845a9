"""How agents for monitoring wrap methods of aiohttp."""

from collections.abc import Callable


class Proxy:
    """Wraps a method as wrapt does, with which agents for monitoring are written: it equals the method, and has all of
    its attributes."""

    def __init__(self, wrapped: Callable[..., object], seen: list[str]) -> None:
        self.__wrapped__, self._seen = wrapped, seen

    @property
    def __class__(self) -> type:
        return type(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == other

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __getattr__(self, name: str) -> object:
        return getattr(self.__wrapped__, name)

    def __get__(self, instance: object, owner: type) -> "Proxy":
        return Proxy(self.__wrapped__.__get__(instance, owner), self._seen)

    def __call__(self, *args: object, **options: object) -> object:
        self._seen.append(self.__name__)
        return self.__wrapped__(*args, **options)
