"""A transport of one's own under the contract of transports; it is run with pytest, as in the project's own tests."""

from uses import Counting

from vidgen_async.transports import DirectTransport, Transport
from vidgen_async.transports.contract import TransportContract


class TestCounting(TransportContract):
    def make_transport(self) -> Transport:
        return Counting(DirectTransport())
