"""The contract of every transport, as tests that run on a transport of your own.

In a test module of yours, with pytest, and pytest-asyncio or anyio to run what is async::

    from vidgen_async.transports import DirectTransport, Transport
    from vidgen_async.transports.contract import TransportContract

    class TestLoggingTransport(TransportContract):
        def make_transport(self) -> Transport:
            return LoggingTransport(DirectTransport())

The tests bring a service of their own, on loopback. A transport that reaches no network has that service played on a
:class:`Stage` instead: each path of ``ANSWERS`` and each :class:`Scene` as it is described there.
"""

import sys
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import pytest

# Before the import: so that a sentence that fails shows what it compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{part}" for part in ("service", "harness", "response_tests", "failure_tests"))
)

# ruff: noqa: E402 - see above
from vidgen_async.transports.base import Transport
from vidgen_async.transports.contract.failure_tests import Failures
from vidgen_async.transports.contract.harness import Stage
from vidgen_async.transports.contract.response_tests import Answers
from vidgen_async.transports.contract.service import ANSWERS, FIRST, REST, Answer, Asked, Scene

__all__ = ["ANSWERS", "FIRST", "REST", "Answer", "Asked", "Scene", "Stage", "TransportContract"]

#: What runs coroutines, by the module that is loaded then, with its marker: pytest knows no marker of the others.
_RUNNERS = {"pytest_asyncio": "asyncio", "anyio.pytest_plugin": "anyio"}


class TransportContract(Answers, Failures):
    """Subclass it under a name that begins with ``Test``, and override one of its two methods.

    Each test is one sentence of the contract and makes a transport of its own, inside the running event loop. Fixtures
    reach ``make_transport`` through the instance: an autouse fixture of the subclass sets an attribute. A transport
    without ``honours_gate = True`` is used as the client uses it, with the gate passed before ``send``; it is then not
    asked for evidence of its own.
    """

    pytestmark: ClassVar[list[pytest.MarkDecorator]] = [
        # pytest-asyncio, in its strict mode too, before anyio: that one is often there for other reasons.
        *[getattr(pytest.mark, name) for module, name in _RUNNERS.items() if module in sys.modules][:1]
    ]

    @pytest.fixture
    def anyio_backend(self) -> str:
        """What anyio's plugin runs the tests on."""
        return "asyncio"

    def make_transport(self) -> Transport:
        """A new transport, which must reach services over HTTP. The test closes it."""
        return super().make_transport()

    def stage(self) -> AbstractAsyncContextManager[Stage]:
        """A new transport and the service behind it; leaving the block closes both.

        To be overridden for a transport that reaches no network.
        """
        return super().stage()
