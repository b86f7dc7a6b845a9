"""The client, and one class for each resource."""

from vidgen_async.client.client import RECOMMENDED_INTERVAL, Client
from vidgen_async.client.videos import OnUpdate
from vidgen_async.watcher import ONE_DAY

__all__ = ["ONE_DAY", "RECOMMENDED_INTERVAL", "Client", "OnUpdate"]
