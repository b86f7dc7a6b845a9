"""A time limit for what is done with a connection."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg


@contextmanager
def time_limit(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Disconnect after ``seconds``, also if the network loses everything that is sent."""
    # The descriptor of the connection itself could be that of another file by then.
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        timer = threading.Timer(seconds, _disconnect, (duplicate,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _disconnect(duplicate: socket.socket) -> None:
    with suppress(OSError):
        duplicate.shutdown(socket.SHUT_RDWR)
