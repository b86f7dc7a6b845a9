"""The fixtures of the client's tests: the documentation is run against the same sandbox."""

from tests.client.conftest import client, service, small_videos

__all__ = ["client", "service", "small_videos"]
