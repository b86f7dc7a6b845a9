"""An expected failure ends in an error that is short to read: no frames of libraries, and each fact once."""

import logging
import traceback

import pytest

from vidgen_async import AuthenticationError, Client, NotSentError
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import ConnectError
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import DirectTransport, FakeTransport

FIELDS = {"model": "gen-2.0", "prompt": "a boat"}


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("call", ["create", "read", "download"])
async def test_a_refused_connection_has_no_frames_of_libraries_and_its_cause_as_text(call, tmp_path, caplog):
    async with Sandbox() as service:
        url = service.base_url
    caplog.set_level(logging.DEBUG)
    async with Client("key", base_url=url, clock=VirtualClock(), retry_reads_for=0) as client:
        calls = {
            "create": lambda: client.videos.create(**FIELDS, validate=False),
            "read": client.account.get,
            "download": lambda: client.videos.download("t", tmp_path / "t.mp4"),
        }
        with pytest.raises(NotSentError if call == "create" else ConnectError) as caught:
            await calls[call]()
    text = text_of(caught.value)
    assert "site-packages" not in text
    assert text.count("Traceback (most recent call last)") == 1
    assert text.count("(cause: ClientConnectorError: Cannot connect to host") == 1
    assert "ConnectError (cause: ClientConnectorError: Cannot connect to host" in caplog.text


async def test_an_exception_that_nobody_expected_keeps_its_chain(monkeypatch):
    async def fail(*_):
        raise ValueError("a defect")

    monkeypatch.setattr(DirectTransport, "_read", fail)
    async with Client("key", base_url="http://127.0.0.1:9/openapi/v1", retry_reads_for=0) as client:
        with pytest.raises(Exception, match=r"videos\.content") as caught:
            await client.videos.open_stream("t")
    assert "in fail" in text_of(caught.value)
    async with Client("key", base_url="https://h/openapi/v1", transport=FakeTransport(fail)) as client:
        with pytest.raises(Exception, match="it is unknown") as caught:
            await client.videos.create(**FIELDS, validate=False)
    assert "in fail" in text_of(caught.value)


async def test_a_refused_key_ends_a_create_before_it_is_sent_and_is_shown_once(caplog):
    async with Sandbox() as service:
        async with Client("wrong", base_url=service.base_url) as client:
            for _ in range(2):
                with pytest.raises(NotSentError, match=r"models\.list: 401: the API key was refused") as caught:
                    await client.videos.create(**FIELDS, order_id="o")
            assert await client.orders.list() == []
        assert isinstance(caught.value.__cause__, AuthenticationError)
        assert text_of(caught.value).count("the service says") == 1
        assert "VIDGEN_API_KEY" in str(caught.value)
        assert caplog.records == []
        assert [request.op for request in service.requests] == ["models.list", "models.list"]


async def test_a_key_that_is_replaced_after_a_401_sends_the_create(caplog):
    async with Sandbox() as service:
        keys = iter(["old", "old", service.api_key])
        async with Client(lambda: next(keys, service.api_key), base_url=service.base_url) as client:
            with pytest.raises(NotSentError):
                await client.videos.create(**FIELDS, order_id="o")
            await client.videos.create(**FIELDS, order_id="o")
        assert len(service.creates) == 1


async def test_without_validation_the_create_itself_is_refused():
    async with Sandbox() as service, Client("wrong", base_url=service.base_url) as client:
        with pytest.raises(AuthenticationError, match="was rejected"):
            await client.videos.create(**FIELDS, validate=False)
        assert [request.op for request in service.requests] == ["videos.create"]


async def test_another_failure_of_the_catalog_ends_no_create():
    async with Sandbox() as service:
        service.faults.add("models.list", Fault.status(403), times=None)
        async with Client(service.api_key, base_url=service.base_url) as client:
            await client.videos.create(**FIELDS, order_id="o")
        assert len(service.creates) == 1
