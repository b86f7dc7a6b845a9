"""The client, and one class for each resource."""

from vidgen_async.client.client import RECOMMENDED_INTERVAL, Client

__all__ = ["RECOMMENDED_INTERVAL", "Client"]
