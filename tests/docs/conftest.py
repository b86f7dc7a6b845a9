"""The fixtures of the client's tests: the documentation is run against the same sandbox."""

from tests.client.conftest import client, service

__all__ = ["client", "service"]
