"""The contract of every transport, as tests that run on a transport of your own.

In a test module, with pytest, and with pytest-asyncio or anyio for the async tests::

    from vidgen_async.transports import DirectTransport, Transport
    from vidgen_async.transports.contract import TransportContract

    class TestLoggingTransport(TransportContract):
        def make_transport(self) -> Transport:
            return LoggingTransport(DirectTransport())

The tests start a service of their own on loopback. For a transport that uses no network, a :class:`Harness` plays this
service: each path of ``RESPONSES`` and each :class:`Scenario` as documented there.
"""

import sys
from typing import ClassVar

import pytest

# Before the import, so that a failing assertion shows what it compared.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("harness", "response_tests", "failure_tests")))

# ruff: noqa: E402 - see above
from vidgen_async.transports.contract.failure_tests import FailureTests
from vidgen_async.transports.contract.harness import (
    FIRST,
    RESPONSES,
    REST,
    CannedResponse,
    Harness,
    ReceivedRequest,
    Scenario,
)
from vidgen_async.transports.contract.response_tests import ResponseTests

__all__ = [
    "FIRST",
    "RESPONSES",
    "REST",
    "CannedResponse",
    "Harness",
    "ReceivedRequest",
    "Scenario",
    "TransportContract",
]

#: The marker of each plugin that runs coroutines, by the module that is loaded then: pytest rejects unknown markers.
_RUNNERS = {"pytest_asyncio": "asyncio", "anyio.pytest_plugin": "anyio"}


class TransportContract(ResponseTests, FailureTests):
    """Subclass it under a name that begins with ``Test``, and override one of its two methods.

    Each test is one rule of the contract and makes its own transport, inside the running event loop; most hold for
    ``send`` and for a create in two steps. To pass fixtures to ``make_transport``, set attributes in an autouse fixture
    of the subclass.
    """

    pytestmark: ClassVar[list[pytest.MarkDecorator]] = [
        # pytest-asyncio, also in its strict mode, before anyio, which is often installed for other reasons.
        *[getattr(pytest.mark, name) for module, name in _RUNNERS.items() if module in sys.modules][:1]
    ]

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The backend on which anyio's plugin runs the tests."""
        return "asyncio"
