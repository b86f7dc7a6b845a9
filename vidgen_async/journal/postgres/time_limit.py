"""A time limit for what is done with a connection."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg


class TimeLimitError(psycopg.OperationalError):
    """The time limit was exceeded, and the connection is closed."""


@contextmanager
def limit_time(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Disconnect after ``seconds``, also if the network loses everything that is sent.

    Raises:
        TimeLimitError: The block took longer; the connection is closed.
    """
    is_over = threading.Event()
    # The descriptor of the connection itself could be that of another file by then.
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        timer = threading.Timer(seconds, _disconnect, (duplicate, is_over))
        timer.daemon = True
        timer.start()
        try:
            yield
        except psycopg.OperationalError as error:
            if is_over.is_set() and error.sqlstate is None:
                message = f"the server did not finish within {seconds:g} s (time_limit)"
                raise TimeLimitError(message) from error
            raise
        finally:
            timer.cancel()


def _disconnect(duplicate: socket.socket, is_over: threading.Event) -> None:
    is_over.set()
    with suppress(OSError):
        duplicate.shutdown(socket.SHUT_RDWR)
