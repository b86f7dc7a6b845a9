"""A service on raw sockets, which counts every byte that it receives and has the faults of a test."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attrs import define, field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from yarl import URL

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@define
class Connection:
    """One accepted connection: what was received on it, and methods to answer."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    received: bytearray = field(factory=bytearray)

    async def request(self) -> bytes:
        """One whole request, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.received += head
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = await self.reader.readexactly(length)
        self.received += body
        return head + body

    async def rest(self) -> None:
        """Everything until the other side closes."""
        while piece := await self.reader.read(1 << 20):
            self.received += piece

    async def answer(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with a RST instead of a FIN."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


Behaviour = Callable[[Connection], Awaitable[None]]


@define
class RawService:
    """``connections`` holds everything that was received."""

    port: int
    scheme: str = "http"
    connections: list[Connection] = field(factory=list)
    _workers: set[asyncio.Task[None]] = field(factory=set)
    _server: asyncio.Server | None = None

    def url(self, path: str = "/x", *, host: str = "127.0.0.1") -> URL:
        return URL(f"{self.scheme}://{host}:{self.port}{path}", encoded=True)

    @property
    def received(self) -> list[bytes]:
        return [bytes(connection.received) for connection in self.connections]

    @property
    def bytes_received(self) -> int:
        return sum(len(connection.received) for connection in self.connections)

    @property
    def requests_begun(self) -> int:
        return sum(data.count(b" HTTP/1.1\r\n") for data in self.received)

    def stop_listening(self) -> None:
        """From now on, connections are refused."""
        self._server.close()

    async def quiet(self) -> None:
        """All connections have ended, so that nothing more can come."""
        while self._workers:
            await asyncio.wait(self._workers, timeout=2)
            assert all(worker.done() for worker in self._workers), "a connection to the service stayed open"
            self._workers = {worker for worker in self._workers if not worker.done()}


@asynccontextmanager
async def raw_service(behaviour: Behaviour, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawService]:
    service = RawService(port=0, scheme="http" if tls is None else "https")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service._workers.add(asyncio.current_task())
        connection = Connection(len(service.connections), reader, writer)
        service.connections.append(connection)
        # Cancelled at the end of the test; a cancelled handler would be logged as a failure.
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await behaviour(connection)
        writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    server = await asyncio.start_server(
        handle, "127.0.0.1", 0, limit=1 << 20, ssl=tls, ssl_shutdown_timeout=0.2 if tls else None
    )
    service._server = server
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for worker in service._workers:
            worker.cancel()
        await asyncio.gather(*service._workers, return_exceptions=True)
        await server.wait_closed()


# -- behaviours --------------------------------------------------------------------------------------------------------


async def answers(connection: Connection) -> None:
    while True:
        await connection.request()
        await connection.answer(OK)


async def hangs(connection: Connection) -> None:
    await connection.rest()


async def reads_nothing(connection: Connection) -> None:
    connection.writer.transport.pause_reading()
    await asyncio.Event().wait()


async def closes_at_once(connection: Connection) -> None:
    pass


async def reads_and_closes(connection: Connection) -> None:
    await connection.request()


async def reads_and_resets(connection: Connection) -> None:
    await connection.request()
    connection.reset()


async def speaks_no_tls(connection: Connection) -> None:
    await connection.reader.read(10)
    await connection.answer(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def resets_in_the_handshake(connection: Connection) -> None:
    await connection.reader.read(10)
    connection.reset()


def responds(data: bytes) -> Behaviour:
    """Reads a request, answers ``data`` as it is, and closes."""

    async def behaviour(connection: Connection) -> None:
        await connection.request()
        await connection.answer(data)

    return behaviour


def responds_and_hangs(data: bytes) -> Behaviour:
    async def behaviour(connection: Connection) -> None:
        await connection.request()
        await connection.answer(data)
        await connection.rest()

    return behaviour


# -- ports that accept no connection ----------------------------------------------------------------------------------


def dead_port() -> int:
    """A port on which connections are refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def full_port():
    """A port whose backlog is full: connecting to it takes for ever."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(listener.getsockname())
        yield listener.getsockname()[1]


# -- TLS ---------------------------------------------------------------------------------------------------------------


@frozen
class Certificate:
    """A self-signed certificate for 127.0.0.1 and localhost."""

    path: Path
    sha256: bytes

    def server(self, *, asks_for_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path)
        if asks_for_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.path))


def make_certificate(path: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return Certificate(path, certificate.fingerprint(hashes.SHA256()))
