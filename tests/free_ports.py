"""Ports for servers that other programs start."""

import random
import socket


def find_port() -> int:
    """A free port below those that the system gives to outgoing connections, which would take it meanwhile."""
    while True:
        port = random.randrange(15_000, 32_000)  # noqa: S311 - no secret
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
