"""Addresses, keys, catalog, account, opening and closing (sections 2.1, 2.2, 5, 9)."""

import asyncio
import re
import sys
import time

import aiohttp
import pytest

from tests.sandbox.conftest import Caller
from vidgen_async.sandbox import Fault, Sandbox, SandboxClock

ENDPOINTS = [
    ("GET", "/models"),
    ("GET", "/account"),
    ("POST", "/files"),
    ("POST", "/videos"),
    ("GET", "/videos/task_1"),
    ("GET", "/videos/task_1/content"),
]


@pytest.mark.rule("4 note key", "4.6 response 401", "4.6 note key", "5 item 1", "7 error 401", side="sandbox")
@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
async def test_every_endpoint_requires_the_key(api, method, path):
    reply = await api.send(method, path, bare=True)

    assert (reply.status, reply.code) == (401, "INVALID_API_KEY")


@pytest.mark.rule("5 item 1", side="sandbox")
@pytest.mark.parametrize("header", ["Bearer", "Bearer wrong", "Basic {key}", "{key}", "Bearer {key}x"])
async def test_only_the_complete_key_as_a_bearer_token_is_accepted(api, header):
    reply = await api.get("/models", bare=True, headers={"Authorization": header.format(key=api.key)})

    assert reply.status == 401


@pytest.mark.rule("5 item 4", side="sandbox")
async def test_a_key_in_the_url_is_not_accepted(api):
    reply = await api.get(f"/models?api_key={api.key}&Authorization=Bearer%20{api.key}", bare=True)

    assert reply.status == 401


@pytest.mark.rule("7 error 404", side="sandbox")
@pytest.mark.parametrize(
    "path", ["/nothing", "/videos/", "/videos/a/b", "/videos/a/content/b", "/models/", "//models", ""]
)
async def test_an_unknown_path_is_404(api, path):
    assert (await api.get(path)).status == 404


@pytest.mark.rule("4 note base", "7 error 404", "9 bullet 1", "9 bullet 5", side="sandbox")
async def test_a_path_without_the_prefix_is_404(service, api):
    root = service.base_url.removesuffix("/openapi/v1")

    assert [(await api.get(f"{root}{path}")).status for path in ("/models", "/v1/models", "/v1")] == [404, 404, 404]


async def test_a_method_that_a_path_does_not_support_is_405(api):
    reply = await api.send("DELETE", "/videos/task_1")

    assert (reply.status, reply.headers["allow"]) == (405, "GET")


@pytest.mark.rule("7 rule 3", side="sandbox")
async def test_errors_have_a_code_and_a_message_and_every_answer_a_request_id(api):
    replies = [await api.get("/nothing"), await api.get("/models")]

    assert replies[0].json["error"].keys() == {"code", "message"}
    assert len({reply.headers["x-request-id"] for reply in replies}) == 2


async def test_the_key_is_recognisable_as_a_sandbox_key_and_not_in_any_repr(service):
    assert service.api_key.startswith("sandbox-key-")
    assert service.api_key not in repr(service.accounts.values())


async def test_on_request_is_called_when_a_request_arrives_and_when_it_is_over(session):
    calls = []

    def listen(request):
        calls.append((request.op, request.status, request.create and request.create.status, request.is_over))

    async with Sandbox(on_request=listen) as service:
        api = Caller(session, service.base_url, service.api_key)
        service.faults.add("videos.get", Fault.not_http())
        await api.create()
        with pytest.raises(aiohttp.ClientError):
            await api.get("/videos/task_1")
        await api.get(f"{service.console_url}sandbox/state", bare=True)

    assert calls == [
        ("videos.create", None, None, False),
        ("videos.create", 202, 202, True),
        ("videos.get", None, None, False),
        ("videos.get", None, None, True),
    ]


async def test_refusing_refuses_connections_and_keeps_the_port(service, api):
    await api.get("/models")

    async with service.refusing():
        with pytest.raises(aiohttp.ClientConnectorError):
            await api.get("/models")

    assert (await api.get("/models")).status == 200


async def test_refusing_closes_idle_connections(service):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.base_url.split(":")[2].split("/")[0]))
    await service.refuse()

    assert await reader.read() == b""
    writer.close()
    await service.refuse()
    await service.accept()
    await service.accept()


async def test_closing_ends_stalled_handlers_and_open_connections_immediately():
    async with Sandbox() as service, aiohttp.ClientSession() as session:
        api = Caller(session, service.base_url, service.api_key)
        service.faults.add("*", Fault.stall(), times=None)
        calls = [asyncio.create_task(api.get("/models")) for _ in range(5)]
        await asyncio.wait(calls, timeout=0.2)
        assert len(service.requests) == 5
        began = time.monotonic()
        await service.aclose()
        await service.aclose()

        assert time.monotonic() - began < 1
        assert all(isinstance(end, aiohttp.ClientError) for end in await asyncio.gather(*calls, return_exceptions=True))


async def test_closing_while_connections_arrive_leaves_nothing_open():
    async with Sandbox() as service:
        host, port = re.fullmatch(r"http://(.+):(\d+)/openapi/v1", service.base_url).groups()
        arriving = [asyncio.create_task(asyncio.open_connection(host, int(port))) for _ in range(50)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    for end in await asyncio.gather(*arriving, return_exceptions=True):
        if not isinstance(end, OSError):
            end[1].close()


@pytest.mark.rule("8 bullet 3", side="sandbox")
async def test_many_concurrent_reads_are_answered(service, api):
    replies = await asyncio.gather(*(api.get("/account") for _ in range(120)))

    assert {reply.status for reply in replies} == {200}


async def test_time_runs_at_its_speed_can_be_advanced_and_never_runs_backwards():
    clock = SandboxClock(speed=0, start=1000.0)
    sleeper = asyncio.create_task(clock.sleep(60))
    await asyncio.sleep(0)
    clock.advance(59)
    await asyncio.sleep(0.01)
    assert not sleeper.done()
    clock.advance(1)
    await sleeper

    assert clock.now() == 1060.0
    clock.speed = 10_000
    await clock.sleep(20)
    assert clock.now() >= 1080
    with pytest.raises(ValueError, match="speed"):
        clock.speed = float("nan")


def test_without_its_extra_the_import_error_has_the_pip_command(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("vidgen_async.sandbox")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(ImportError, match=r"PIL: .*vidgen-async\[sandbox\]"):
        __import__("vidgen_async.sandbox")
