"""What a message hides is in no cause and no context of the error either: tracebacks and error trackers show them."""

import asyncio
import io
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from vidgen_async import Client
from vidgen_async.clock import VirtualClock
from vidgen_async.journal import MemoryJournal
from vidgen_async.redaction.messages import showable
from vidgen_async.transports import BufferedResponse, FakeTransport, WrappingTransport
from vidgen_async.types.http import Request, make_headers

KEY = "key-that-nobody-may-see"
OTHER_KEY = "another-key-that-nobody-may-see"
SECRETS = (KEY, OTHER_KEY)
FIELDS: dict[str, Any] = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}


def fail(*_: object, **__: object) -> Any:
    try:
        raise LookupError(f"no header Authorization: Bearer {KEY}")
    except LookupError as error:
        raise OSError(f"refused: api_key={OTHER_KEY}") from error


async def fail_later(*_: object, **__: object) -> Any:
    fail()


async def answer(request: Request) -> BufferedResponse:
    if request.url.path.endswith("/account"):
        return BufferedResponse(200, b'\xff{"api_key": "%s"}' % OTHER_KEY.encode())
    if request.url.path.endswith("/content"):
        location = make_headers({"Location": f"http://[broken?sig={OTHER_KEY}"})
        return BufferedResponse(307, b"", headers=location)
    return BufferedResponse(202, b'{"id": "t"}')


def client_with(key: Any = KEY, **options: Any) -> Client:
    options = {"transport": FakeTransport(answer), "clock": VirtualClock(), **options}
    return Client(key, base_url="https://h/openapi/v1", **options)


async def returns_a_wrong_key() -> str:
    await asyncio.sleep(0)
    return f"{OTHER_KEY} and more"


class CannotSettle(MemoryJournal):
    settle = fail_later  # type: ignore[assignment]


class BrokenPrepare(WrappingTransport):
    prepare = fail_later  # type: ignore[assignment]


class BaseError(BaseException):
    pass


async def fail_otherwise(_: Request) -> BufferedResponse:
    raise BaseError(f"Authorization: Bearer {KEY}")


def create(client: Client) -> Awaitable[object]:
    return client.videos.create(**FIELDS, validate=False)


def upload(client: Client) -> Awaitable[object]:
    file = io.BytesIO()
    file.read = fail  # type: ignore[method-assign]
    return client.files.upload(file)


CASES: dict[str, tuple[Callable[[], Client], Callable[[Client], Awaitable[object]]]] = {
    "a key function, for a read": (lambda: client_with(fail), lambda client: client.account.get()),
    "a key function, for a create": (lambda: client_with(fail_later), create),
    "a wrong key": (lambda: client_with(returns_a_wrong_key), lambda client: client.account.get()),
    "a transport, for a create": (lambda: client_with(transport=FakeTransport(fail_later)), create),
    "a transport, for a read": (
        lambda: client_with(transport=FakeTransport(fail_otherwise)),
        lambda client: client.account.get(),
    ),
    "prepare": (lambda: client_with(transport=BrokenPrepare(FakeTransport(answer))), create),
    "a journal": (lambda: client_with(journal=CannotSettle()), create),
    "a redirect": (client_with, lambda client: client.videos.stream("t").__aenter__()),
    "a file": (client_with, upload),
    "an answer": (client_with, lambda client: client.account.get()),
}


@pytest.mark.parametrize("name", CASES)
async def test_no_error_of_the_chain_shows_what_the_message_hides(name):
    make, call = CASES[name]
    async with make() as client:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each case has its own
            await call(client)
        chain: list[BaseException] = [caught.value]
        for error in chain:
            chain += [one for one in (error.__cause__, error.__context__) if one is not None and one not in chain]
            shown = "".join(traceback.format_exception_only(error)) + repr(error)
            assert not any(secret in shown for secret in SECRETS), shown
    await asyncio.sleep(0)


def chained(error: BaseException, cause: BaseException | None) -> BaseException:
    error.__cause__ = cause
    return error


CLEAN, SECRET = OSError(2, "no such file"), ValueError(f"Bearer {KEY}")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CLEAN, CLEAN),
        (SECRET, None),
        (chained(ValueError(f"token={KEY}"), CLEAN), CLEAN),
        (chained(OSError("lost"), SECRET), None),
        (ExceptionGroup("two", [CLEAN, SECRET]), None),
        (ValueError("x" * 10_000), None),
        (UnicodeDecodeError("utf-8", f'{{"api_key": "{KEY}"}}'.encode(), 0, 1, "invalid"), None),
    ],
)
def test_only_an_error_without_secrets_is_chained(error, expected):
    assert showable(error, ()) is expected
