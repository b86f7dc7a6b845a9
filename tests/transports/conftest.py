"""What the tests of the direct transport share."""

from collections.abc import AsyncIterator

import pytest

from tests.transports.raw_service import Certificate, make_certificate
from vidgen_async.pytest_plugin import vidgen_aioresponses_fix  # noqa: F401 - a fixture
from vidgen_async.transports.direct.transport import DirectTransport


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls") / "localhost.pem")


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    transport = DirectTransport()
    yield transport
    await transport.aclose()


@pytest.fixture(params=["without a session", "with a session"])
def each_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads are sent in the way in which they usually are, and in that of versions of aiohttp that do not allow it."""
    if request.param == "with a session":
        monkeypatch.setattr(DirectTransport, "_plain_reads_of", lambda *_: None)
