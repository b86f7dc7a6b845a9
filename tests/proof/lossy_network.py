"""A network between journals and their PostgreSQL server that loses some of the messages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from attrs import define, frozen

SOCKET = ".s.PGSQL.5432"


class Way(Enum):
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class Loss(Enum):
    SWALLOWED = "swallowed"
    """The message, and all that follow in this direction. Nobody is notified, as in a network that is down."""
    CUT = "cut"
    """The connection is closed in both directions instead."""


@frozen
class Message:
    """A message of PostgreSQL's protocol."""

    way: Way
    kind: bytes
    """The first byte; empty for the first message of a connection."""
    data: bytes


#: Decides what becomes of a message; None: it is forwarded.
Decide: TypeAlias = Callable[[Message], Loss | None]


@define(eq=False)
class LossyNetwork:
    server: Path
    """The directory of the server's socket."""
    directory: Path
    """The directory of the socket that clients connect to."""
    decide: Decide = lambda _: None
    losses: int = 0

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.directory}"

    async def serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_unix_connection(self.server / SOCKET)
        except OSError:  # the server is not running
            to_client.close()
            return
        ends = (to_client, to_server)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(Way.TO_SERVER, from_client, to_server, ends))
                group.create_task(self._forward(Way.TO_CLIENT, from_server, to_client, ends))
        finally:
            for end in ends:
                end.transport.abort()

    async def _forward(
        self,
        way: Way,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        is_lost = False
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            async for message in _messages(way, reader):
                if not is_lost and (loss := self.decide(message)) is not None:
                    self.losses += 1
                    is_lost = loss is Loss.SWALLOWED
                    if loss is Loss.CUT:
                        for end in ends:
                            end.transport.abort()
                        return
                if not is_lost:
                    writer.write(message.data)
        if not is_lost:
            writer.close()


async def _messages(way: Way, reader: asyncio.StreamReader) -> AsyncIterator[Message]:
    is_first = way is Way.TO_SERVER  # it has no kind
    while True:
        head = await reader.readexactly(4 if is_first else 5)
        rest = await reader.readexactly(int.from_bytes(head[-4:]) - 4)
        yield Message(way, head[:-4], head + rest)
        is_first = False


@asynccontextmanager
async def lossy_network(server: Path) -> AsyncIterator[LossyNetwork]:
    """A network to the server with this directory; it loses nothing yet."""
    handlers: set[asyncio.Task[None]] = set()
    with TemporaryDirectory(prefix="vidgen-") as directory:
        network = LossyNetwork(server, Path(directory))

        def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handler = asyncio.ensure_future(network.serve(reader, writer))
            handlers.add(handler)
            handler.add_done_callback(handlers.discard)

        listening = await asyncio.start_unix_server(connect, network.directory / SOCKET, backlog=1024)
        try:
            yield network
        finally:
            listening.close()
            for handler in handlers:
                handler.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)
