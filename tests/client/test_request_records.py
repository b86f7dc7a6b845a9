"""One DEBUG record for each request, and VIDGEN_LOG."""

import logging
import re
from contextlib import suppress

import pytest
from yarl import URL

from tests.client.test_key_functions import use_everything
from vidgen_async import Client, RejectedError, ServiceError, UncertainCreateError
from vidgen_async.clock import LoopClock
from vidgen_async.errors import JournalError, ResponseTimeoutError
from vidgen_async.events import EnvironmentHandler, Event
from vidgen_async.sandbox import Fault
from vidgen_async.service import request_records
from vidgen_async.service.request_records import RequestRecord
from vidgen_async.transports import FakeTransport
from vidgen_async.types.http import Delivery, Phase, Request, make_headers

BASE = "https://h/openapi/v1"
CREATE = Request(
    op="videos.create", method="POST", url=URL(f"{BASE}/videos"), headers=make_headers({"Authorization": "Bearer key"})
)
FIELDS = {"model": "gen-2.0", "prompt": "the secret plan of the boat", "duration": 5}


@pytest.fixture
def records(caplog):
    """The records of requests."""
    caplog.set_level("DEBUG", "vidgen_async")
    return lambda: [record for record in caplog.records if record.event_name == Event.REQUEST_ENDED]


async def fail(request):
    raise ResponseTimeoutError("too slow", op=request.op, delivery=Delivery.MAYBE_SENT, phase=Phase.WAIT)


async def test_every_request_has_one_record_with_its_facts(client, service, records):
    await use_everything(client)

    assert [(record.method, record.op, record.status) for record in records()] == [
        (request.method, "videos.content" if request.origin == "links" else request.op, request.status)
        for request in service.requests
    ]
    account = next(record for record in records() if record.op == "account.get")
    assert (account.path, account.attempt, account.error) == ("/openapi/v1/account", 1, None)
    assert account.milliseconds > 0
    assert account.request_id
    shown = rf"GET /openapi/v1/account: 200 after [\d.]+ ms \(request {account.request_id}, attempt 1\)"
    assert re.fullmatch(shown, account.getMessage())


@pytest.mark.slow
async def test_attempts_are_counted(client, service, records):
    service.faults.add("account.get", Fault.status(503))
    service.faults.add("videos.create", Fault.status(402))
    await client.account.get()
    with pytest.raises(RejectedError):
        await client.videos.create(**FIELDS, order_id="order-1", validate=False)
    await client.videos.create(**FIELDS, order_id="order-1", validate=False)

    seen = [(record.op, record.status, record.attempt) for record in records()]
    assert seen == [
        ("account.get", 503, 1), ("account.get", 200, 2), ("videos.create", 402, 1), ("videos.create", 202, 2),
    ]  # fmt: skip


async def test_a_request_without_a_response_is_recorded_with_its_error(records):
    async with Client("key", base_url=BASE, transport=FakeTransport(fail), retry_reads_for=0) as client:
        with pytest.raises(ResponseTimeoutError):
            await client.account.get()
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**FIELDS, validate=False)
    seen = {(record.op, record.status, record.error) for record in records()}
    assert seen == {(op, None, "ResponseTimeoutError") for op in ("account.get", "videos.create")}
    assert "ResponseTimeoutError after" in records()[0].getMessage()


@pytest.mark.parametrize("ends_by", [None, JournalError("another process sends it")])
async def test_a_create_that_is_not_sent_has_one_record(ends_by, records):
    transport = FakeTransport(fail)
    with suppress(JournalError):
        async with RequestRecord(CREATE, LoopClock(), 3, ()).connect(transport) as connection:
            assert connection.is_ready
            assert records() == []
            if ends_by is not None:
                raise ends_by

    (record,) = records()
    assert (record.status, record.error, record.attempt) == (None, "not sent", 3)
    assert "POST /openapi/v1/videos: not sent after" in record.getMessage()
    assert transport.requests == []


@pytest.mark.parametrize("step", ["connect", "send"])
async def test_a_create_that_fails_in_either_step_has_one_record(step, records):
    transport = FakeTransport(fail, on_connect=fail if step == "connect" else None)
    with pytest.raises(ResponseTimeoutError):
        async with RequestRecord(CREATE, LoopClock(), 1, ()).connect(transport) as connection:
            await connection.send()

    (record,) = records()
    assert (record.status, record.error) == (None, "ResponseTimeoutError")


async def test_no_record_has_a_secret(client, service, records):
    await use_everything(client)
    service.faults.add(
        "videos.create", Fault.status(500, {}, headers={"X-Request-Id": f"{service.api_key} {FIELDS['prompt']}"})
    )
    with pytest.raises(UncertainCreateError):
        await client.videos.create(**FIELDS, validate=False)
    service.faults.add("videos.get", Fault.status(400, {}, headers={"X-Request-Id": service.api_key}))
    with pytest.raises(ServiceError):
        await client.videos.get("task-1")

    shown = "\n".join(f"{vars(record)} {record.getMessage()}" for record in records())
    secrets = [service.api_key, FIELDS["prompt"], "sig=", "exp=", *(one.idempotency_key for one in service.creates)]
    assert not [secret for secret in secrets if secret in shown]
    links = [record for record in records() if record.path.startswith("//")]
    assert links
    assert {record.path for record in links} == {"//127.0.0.1/…"}


@pytest.mark.parametrize("task_id", ["https://cdn.test/v.mp4?exp=1790000000&sig=SIGNATURE", "token=SIGNATURE"])
async def test_the_record_of_a_link_as_a_task_id_has_no_signature(task_id, client, records):
    with pytest.raises(ServiceError):
        await client.videos.get(task_id)
    (record,) = records()
    assert "SIGNATURE" not in f"{vars(record)} {record.getMessage()}"
    assert record.path.endswith("=…")


async def test_without_debug_a_request_makes_no_record(client, service, caplog, monkeypatch):
    caplog.set_level("INFO", "vidgen_async")

    monkeypatch.delattr(request_records, "RequestRecord")
    await use_everything(client)


# -- VIDGEN_LOG ------------------------------------------------------------------------------------------------------


@pytest.fixture
def environment_log():
    """The logger of the SDK, which is restored afterwards."""
    logger = logging.getLogger("vidgen_async")
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_vidgen_log_shows_records_on_the_present_standard_error(environment_log, monkeypatch, capsys):
    monkeypatch.setenv("VIDGEN_LOG", "info")
    with monkeypatch.context() as without_pytest:
        without_pytest.setattr(logging.getLogger(), "handlers", [])
        for _ in range(3):
            Client("key", base_url=BASE)
        logging.getLogger("vidgen_async.orders").info("one record")
        logging.getLogger("vidgen_async.orders").debug("no record")

    assert capsys.readouterr().err.count("record") == 1
    assert [type(handler) for handler in environment_log.handlers] == [EnvironmentHandler]


def test_vidgen_log_adds_no_handler_where_logging_is_configured(environment_log, monkeypatch, capsys):
    monkeypatch.setenv("VIDGEN_LOG", "debug")
    with monkeypatch.context() as of_the_program:
        of_the_program.setattr(logging.getLogger(), "handlers", [logging.StreamHandler()])
        Client("key", base_url=BASE)
        logging.getLogger("vidgen_async.orders").debug("one record")

    assert capsys.readouterr().err.count("one record") == 1


def test_logging_that_is_configured_later_doubles_no_record(environment_log, monkeypatch, capsys):
    monkeypatch.setenv("VIDGEN_LOG", "debug")
    with monkeypatch.context() as without_pytest:
        without_pytest.setattr(logging.getLogger(), "handlers", [])
        Client("key", base_url=BASE)
        logging.getLogger().addHandler(logging.StreamHandler())
        logging.getLogger("vidgen_async.orders").info("one record")

    assert capsys.readouterr().err.count("one record") == 1


@pytest.mark.parametrize("value", ["trace", "10", "yes"])
def test_a_value_of_vidgen_log_that_is_no_level_is_warned_about(value, environment_log, monkeypatch):
    monkeypatch.setenv("VIDGEN_LOG", value)
    with pytest.warns(UserWarning, match="VIDGEN_LOG must be info or debug") as seen:
        Client("key", base_url=BASE)
    assert [warning.filename for warning in seen] == [__file__]
    assert environment_log.level == logging.NOTSET
