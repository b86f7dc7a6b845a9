"""The transport that uses the network, through aiohttp."""

from vidgen_async.transports.direct.transport import DirectTransport

__all__ = ["DirectTransport"]
