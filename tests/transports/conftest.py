"""What the tests of the direct transport share."""

import pytest

from tests.transports.raw_service import Certificate, make_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls") / "localhost.pem")
