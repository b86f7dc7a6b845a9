"""The client, and one class for each resource."""

from vidgen_async.client.client import RECOMMENDED_INTERVAL, Client
from vidgen_async.client.videos import OnUpdate

__all__ = ["RECOMMENDED_INTERVAL", "Client", "OnUpdate"]
