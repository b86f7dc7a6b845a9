"""The client: the one door to the service, with one small class per resource behind it."""

from vidgen_async.client.client import RECOMMENDED_INTERVAL, Client
from vidgen_async.client.videos import OnUpdate
from vidgen_async.watcher import ONE_DAY

__all__ = ["ONE_DAY", "RECOMMENDED_INTERVAL", "Client", "OnUpdate"]
