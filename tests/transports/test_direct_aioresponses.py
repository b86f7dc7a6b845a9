"""Every status is a response, also where aiohttp is patched: aioresponses is a fake service."""

import aiohttp
import pytest
from aioresponses import aioresponses
from yarl import URL

from tests.transports.sending import create, read, swallowed
from vidgen_async.errors import ConnectError, ConnectionLostError, ResponseTimeoutError
from vidgen_async.transports.contract.harness import by_both_ways
from vidgen_async.types.http import Delivery

LINK = URL("http://service.test/openapi/v1/videos")

pytestmark = pytest.mark.usefixtures("vidgen_aioresponses_fix")


@pytest.fixture
def service():
    with aioresponses() as service:
        yield service


STATUSES = [200, 201, 202, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 409, 429, 500, 503]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_status_is_returned_and_no_redirect_is_followed(transport, service, method: str) -> None:
    headers = {"Location": "http://elsewhere.test/", "Retry-After": "7"}
    request = read(LINK) if method == "GET" else create(LINK)
    for sent, status in enumerate(STATUSES, start=1):
        service.add(LINK, method, status=status, body=b'{"id":"t"}', headers=headers)
        async with await transport.send(request) as response:
            assert response.status == status
            assert response.headers["retry-after"] == "7", status
            assert await response.read() == b'{"id":"t"}', status

        assert [key for key, calls in service.requests.items() for _ in calls] == [(method, LINK)] * sent, status


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aiohttp.ConnectionTimeoutError(), ConnectError),
        (aiohttp.SocketTimeoutError(), ResponseTimeoutError),
        (TimeoutError(), ResponseTimeoutError),
        (aiohttp.ServerDisconnectedError(), ConnectionLostError),
        (aiohttp.ClientOSError(104, "reset"), ConnectionLostError),
        (aiohttp.ClientConnectionError("Connection refused"), ConnectionLostError),
        (ConnectionResetError(104, "reset"), ConnectionLostError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
@by_both_ways
async def test_an_exception_alone_proves_nothing(transport, service, error: Exception, kind: type, op: str) -> None:
    service.post(LINK, exception=error)
    with pytest.raises(kind) as caught:
        await swallowed(transport, create(LINK, op=op))
    assert (type(caught.value), caught.value.delivery) == (kind, Delivery.MAYBE_SENT)


async def test_a_create_is_sent_by_the_fake_service_when_send_is_called(transport, service) -> None:
    service.post(LINK, status=202, body=b"{}")
    async with transport.connect(create(LINK)) as connection:
        assert service.requests == {}
        async with await connection.send() as response:
            assert (response.status, await response.read()) == (202, b"{}")
