"""Every status is a response, also where aiohttp is patched: aioresponses is a fake service."""

import aiohttp
import pytest
from aioresponses import aioresponses
from yarl import URL

from tests.transports.sending import create, read, swallowed
from vidgen_async.errors import ConnectError, ConnectionLostError, ResponseTimeoutError
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.http import Delivery, Probe

LINK = URL("http://service.test/openapi/v1/videos")

pytestmark = pytest.mark.usefixtures("vidgen_aioresponses_fix")


@pytest.fixture
async def transport():
    transport = DirectTransport()
    yield transport
    await transport.aclose()


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
@pytest.mark.parametrize("probe", [False, True], ids=["no probe", "probe"])
async def test_an_exception_alone_proves_nothing(transport, service, error: Exception, kind: type, probe: bool) -> None:
    service.post(LINK, exception=error)
    evidence = Probe() if probe else None
    with pytest.raises(kind) as caught:
        await transport.send(create(LINK), probe=evidence)

    assert type(caught.value) is kind
    assert caught.value.delivery is Delivery.MAYBE_SENT
    assert evidence is None or evidence.delivery is Delivery.MAYBE_SENT


async def test_an_answer_from_a_patched_session_counts_as_answered(transport, service) -> None:
    service.post(LINK, status=202, body=b"{}")
    probe = Probe()
    assert await swallowed(transport, create(LINK), probe) == b"{}"
    assert probe.delivery is Delivery.ANSWERED
