"""``default_headers``, and who is calling."""

import platform
import re
from collections.abc import Mapping

import aiohttp
import pytest

import vidgen_async
from tests.client.test_key_functions import PIXEL, use_everything
from vidgen_async import Client, ConfigurationError, ServiceError
from vidgen_async.errors import ConnectionLostError, UncertainCreateError
from vidgen_async.sandbox import Fault
from vidgen_async.transports import DirectTransport, FakeTransport, RecordingTransport, ReplayTransport

BASE = "https://h/openapi/v1"
FIELDS = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}
SECRET = "tenant-4711-of-the-shop"


def sent(service, name: str) -> dict[str, set]:
    """The values of a header, by the origin and the operation that received it."""
    values: dict[str, set] = {}
    for request in service.requests:
        values.setdefault(f"{request.origin} {request.op}", set()).add(request.headers.get(name))
    return values


async def test_they_are_sent_with_every_request_to_the_service_and_not_to_another_origin(service):
    async with Client(
        service.api_key, base_url=service.base_url, poll_interval=0.05, default_headers={"X-Tenant": SECRET}
    ) as client:
        await use_everything(client)

    by_op = sent(service, "X-Tenant")
    links = {op: values for op, values in by_op.items() if op.startswith("links")}
    assert links
    assert set().union(*links.values()) == {None}
    own = {op: values for op, values in by_op.items() if op.startswith("service")}
    assert own.keys() >= {
        f"service {op}"
        for op in ("models.list", "account.get", "files.create", "videos.create", "videos.get", "videos.content")
    }
    assert set().union(*own.values()) == {SECRET}


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "authorization", "AUTHORIZATION", "Idempotency-Key", "idempotency-key", "Host", "hOST",
        "Content-Type", "content-length", "Content-Encoding", "Content-Anything", "Cookie", "cookie", "Range",
        "If-Range", "If-None-Match", "Accept", "Accept-Encoding", "Transfer-Encoding", "Connection", "TE", "Trailer",
        "Upgrade", "Expect", "Keep-Alive", "Proxy-Authorization", "User-Agent", "Idempotency_Key", "user_agent",
        "Content_Length", "HTTP2-Settings", "X-HTTP-Method-Override", "x_http_method_override", "X-HTTP-Method",
        "X-Method-Override", "X-Original-URL", "X-Rewrite-URL", "x_rewrite_url", "X-Original-Method", "X-Original-Host",
        "X-HTTP-Path-Override", "X-HTTP-Host-Override", "X-Override-URL", "X-Host", "X-Forwarded-Host", "Forwarded",
        "X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Accel-Redirect", "X-Envoy-Retry-On", "X-Envoy-Max-Retries",
        "l5d-retry-http", "X-Proxy-URL", "X-HTTP-DestinationURL", "X-Idempotency-Key", "Idempotency-Token",
        "Max-Forwards",
    ],
)  # fmt: skip
def test_headers_that_the_sdk_sets_and_those_that_gateways_obey_are_refused(name):
    for make in (
        lambda: Client("key", base_url=BASE, default_headers={name: SECRET}),
        lambda: Client("key", base_url=BASE).with_options(headers={name: SECRET}),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(name)) as caught:
            make()
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "x"), ("X Tenant", "x"), ("X-Tenant:", "x"), ("X-Tenänt", "x"), ("X-Tenant\r\nX", "x"),
        ("X-Tenant", ""), ("X-Tenant", f"{SECRET}\r\nHost: x"), ("X-Tenant", f" {SECRET}"), ("X-Tenant", "Zoë"),
        ("X-Tenant", 7), ("X-Tenant", None), ("X-Tenant", b"x"), (7, "x"),
    ],
)  # fmt: skip
def test_invalid_headers_are_refused_and_their_values_are_not_shown(name, value):
    with pytest.raises(ConfigurationError, match="default_headers") as caught:
        Client("key", base_url=BASE, default_headers={name: value})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_names_that_differ_in_case_only_are_refused():
    with pytest.raises(ConfigurationError, match="'x-tenant' is given twice") as caught:
        Client("key", base_url=BASE).with_options(headers={"X-Tenant": SECRET, "x-tenant": "b2"})
    assert SECRET not in str(caught.value)


class Changing(Mapping):
    """A mapping that has another header when it is read again."""

    def __init__(self) -> None:
        self.readings = 0

    def __iter__(self):
        self.readings += 1
        return iter(["X-Tenant" if self.readings == 1 else "Authorization"])

    def __len__(self) -> int:
        return 1

    def __getitem__(self, name):
        return SECRET


async def test_a_mapping_is_read_once(service):
    headers = Changing()
    async with Client(service.api_key, base_url=service.base_url, default_headers=headers) as client:
        await client.account.get()
        await client.with_options(headers=Changing()).account.get()

    assert headers.readings == 1
    assert sent(service, "X-Tenant") == {"service account.get": {SECRET}}
    received = [header for one in service.requests for header in one.headers.items()]
    assert {value for name, value in received if name.lower() == "authorization"} == {f"Bearer {service.api_key}"}
    assert [value for _, value in received if value == SECRET] == [SECRET] * 2


def test_they_must_be_a_mapping():
    with pytest.raises(ConfigurationError, match="mapping"):
        Client("key", base_url=BASE, default_headers=[("X-Tenant", SECRET)])


async def test_their_values_are_secrets_in_errors_logs_and_reprs(service, caplog):
    caplog.set_level("DEBUG")
    text = {"error": {"message": f"the tenant {SECRET} is unknown"}}
    async with Client(
        service.api_key, base_url=service.base_url, default_headers={"X-Tenant": SECRET}, retry_reads_for=0
    ) as client:
        service.faults.add("account.get", Fault.status(400, text))
        with pytest.raises(ServiceError) as read:
            await client.account.get()
        service.faults.add("videos.create", Fault.status(500, text))
        with pytest.raises(UncertainCreateError) as create:
            await client.videos.create(**FIELDS, order_id="order-1", validate=False)
        service.faults.add("models.list", Fault.not_http(f"{SECRET}\r\n\r\n".encode()))
        with pytest.raises(Exception, match="is not HTTP") as garbled:
            await client.models.list()
        order = await client.orders.get("order-1")
        shown = [str(read.value), str(create.value), str(garbled.value), repr(client), repr(client.videos), caplog.text]
        shown += [repr(vars(client)), str(order.attempts[-1].evidence.cause)]
    assert "the tenant … is unknown" in shown[0]
    assert not [text for text in shown if SECRET in text]


async def test_their_values_are_not_on_a_cassette(service, tmp_path):
    path = tmp_path / "shop.json"
    text = {"error": {"message": f"the tenant {SECRET} is unknown"}}
    transport = RecordingTransport(DirectTransport(), path)
    headers = {"X-Tenant": SECRET, "X-RateLimit-Plan": "plan-0815-of-the-shop"}
    async with Client(
        service.api_key, base_url=service.base_url, transport=transport, default_headers=headers
    ) as client:
        await client.models.list()
        service.faults.add("account.get", Fault.status(400, text))
        with pytest.raises(ServiceError):
            await client.account.get()
    recorded = path.read_text()
    assert "4711" not in recorded
    assert "0815" not in recorded
    async with Client(service.api_key, base_url=service.base_url, transport=ReplayTransport(path)) as client:
        assert client.models is not None
        await client.models.list()
        with pytest.raises(ServiceError, match="is unknown"):
            await client.account.get()


# -- who is calling --------------------------------------------------------------------------------------------------


SDK = f"vidgen-async/{vidgen_async.__version__}"
PYTHON = "Python/" + ".".join(platform.python_version_tuple()[:2])


async def test_the_user_agent_names_the_sdk_the_library_python_and_the_program(service):
    async with Client(
        service.api_key, base_url=service.base_url, poll_interval=0.05, app_info=("shop", "2.1")
    ) as client:
        await use_everything(client)
    own = {agent for op, agents in sent(service, "User-Agent").items() if op.startswith("service") for agent in agents}
    assert own == {f"{SDK} aiohttp/{aiohttp.__version__} {PYTHON} shop/2.1"}
    links = {agent for op, agents in sent(service, "User-Agent").items() if op.startswith("links") for agent in agents}
    assert links
    assert not [agent for agent in links if "shop" in agent]


async def test_the_user_agent_is_the_same_with_a_session_of_the_user(service):
    async with aiohttp.ClientSession(headers={"User-Agent": "mine/1", "X-Mine": "x"}) as session:
        transport = DirectTransport(session)
        async with Client(service.api_key, base_url=service.base_url, transport=transport) as client:
            await client.account.get()
    assert sent(service, "User-Agent") == {"service account.get": {f"{SDK} aiohttp/{aiohttp.__version__} {PYTHON}"}}
    assert sent(service, "X-Mine") == {"service account.get": {None}}


async def test_a_transport_of_the_user_names_its_own_library():
    agents = []

    async def handle(request):
        agents.append(request.headers["User-Agent"])
        raise ConnectionLostError("gone", op=request.op)

    transport = FakeTransport(handle)
    transport.user_agent = "mine/7"
    async with Client("key", base_url=BASE, transport=transport, retry_reads_for=0) as client:
        with pytest.raises(ConnectionLostError):
            await client.account.get()
    assert agents == [f"{SDK} mine/7 {PYTHON}"]


@pytest.mark.parametrize(
    "wrong",
    ["shop", "shop/2.1", ("shop",), ("shop", "2.1", "x"), ("my shop", "2.1"), ("shop", ""), ("shop", "2.1\r\nX: y"),
     ("shop", 2.1), (None, "1"), ("s" * 300, "1"), {"shop": "2.1"}, ("Zoë", "1")],
)  # fmt: skip
def test_app_info_is_a_name_and_a_version(wrong):
    with pytest.raises(ConfigurationError, match="app_info"):
        Client("key", base_url=BASE, app_info=wrong)


async def test_the_user_agent_is_not_on_a_cassette(service, tmp_path):
    path = tmp_path / "shop.json"
    transport = RecordingTransport(DirectTransport(), path)
    async with Client(service.api_key, base_url=service.base_url, transport=transport, app_info=("shop", "2.1")) as one:
        await one.account.get()
        await one.files.upload(PIXEL)
    assert "shop/2.1" not in path.read_text()
    async with Client(service.api_key, base_url=service.base_url, transport=ReplayTransport(path)) as replayed:
        await replayed.account.get()
