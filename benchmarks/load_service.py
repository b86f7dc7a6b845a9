"""The service under load: a bare protocol on the loopback interface, in a process of its own, which is not measured.

``GET /openapi/v1/videos/{id}`` returns a task (2.5, 4.5) that never ends. Peers request theirs, of about the same size,
at the paths of their own services. It listens twice, with TLS and without; ``GET /counts`` returns the number of
requests for tasks.
"""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.children import run_on_loop

#: The length of the queue of new connections; a kernel may allow fewer.
BACKLOG = 4096

_CREATED_AT = 1795878327
_PROMPT = "A paper boat sails across a quiet harbour at dawn while the camera rises slowly over the roofs"

_OURS = {
    "id": "ID",
    "task_id": "ID",
    "status": "running",
    "model": "vendorh3",
    "points": 15,
    "video_url": None,
    "failure_reason": None,
    "upstream_task_id": "up-4fb1c2a09d7e",
    "provider": "channel-7",
    "created_at": _CREATED_AT,
    "updated_at": 1000000000,
    "progress": 42,
    "duration": 5,
    "ratio": "16:9",
    "resolution": "768p",
    "image_ids": ["img-4fb1c2a09d7e4fb1c2a09d7e"],
    "prompt": _PROMPT,
}
_OPENAI = {
    "id": "ID",
    "object": "video",
    "status": "in_progress",
    "model": "sora-2-pro",
    "progress": 42,
    "created_at": _CREATED_AT,
    "completed_at": None,
    "expires_at": 1000000000,
    "error": None,
    "remixed_from_video_id": None,
    "seconds": "8",
    "size": "1280x720",
    "quality": "standard",
    "prompt": _PROMPT,
    "user": "user-4fb1c2a09d7e4fb1c2a09d7e",
    "metadata": {"order": "order-1187", "channel": "channel-7"},
}
_RUNWAY = {
    "id": "ID",
    "status": "RUNNING",
    "createdAt": "2026-11-28T15:05:27.000Z",
    "updatedAt": 1000000000,
    "progress": 0.42,
    "progressText": None,
    "estimatedCost": {"credits": 25},
    "model": "gen4_turbo",
    "ratio": "1280:720",
    "duration": 5,
    "seed": 4294967295,
    "contentModeration": {"publicFigureThreshold": "auto"},
    "promptText": _PROMPT,
    "user": "user-4fb1c2a09d7e4fb1c2a09d7e",
    "metadata": {"order": "order-1187"},
}
_REPLICATE = {
    "id": "ID",
    "model": "minimax/video-01",
    "version": "5aa835260ff7f40f4069c41185f72036accf99e29957bb4a3b3a911f3b6c1912",
    "status": "processing",
    "input": {"prompt": _PROMPT},
    "output": None,
    "logs": "",
    "error": None,
    "metrics": None,
    "created_at": "2026-11-28T15:05:27.000Z",
    "started_at": "2026-11-28T15:05:28.000Z",
    "completed_at": None,
    "urls": {"get": "https://a.test/v1/predictions/ID", "cancel": "https://a.test/v1/predictions/ID/cancel"},
}

#: The paths of the tasks of each service, and a task of each.
_TASKS = {
    b"/openapi/v1/videos/": _OURS,
    b"/openai/v1/videos/": _OPENAI,
    b"/runway/v1/tasks/": _RUNWAY,
    b"/replicate/v1/predictions/": _REPLICATE,
}


@frozen
class LoadService:
    """The running service, as others see it."""

    url: str
    """Scheme, host and port."""
    tls_url: str
    certificate: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """With it, a process trusts the certificate: no competitor needs settings of its own."""
        return {"SSL_CERT_FILE": str(self.certificate)}

    def count(self) -> int:
        """The number of requests for tasks so far."""
        return count_at(self.url)


def count_at(url: str) -> int:
    """The number of requests for tasks that the service at this URL, without TLS, has received so far."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", "/counts")
        return int(connection.getresponse().read())
    finally:
        connection.close()


@contextmanager
def running_service() -> Iterator[LoadService]:
    """The service in a process of its own. It ends with the block, and with this process."""
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as plain,
        socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as tls,
    ):
        certificate = Path(directory) / "service.pem"
        certificate.write_bytes(_new_certificate())
        sockets = [plain.fileno(), tls.fileno()]
        command = [sys.executable, "-m", "benchmarks.load_service", str(certificate), *map(str, sockets)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=sockets) as process:  # noqa: S603 - ours
            try:
                plain_at, tls_at = (f"127.0.0.1:{listener.getsockname()[1]}" for listener in (plain, tls))
                yield LoadService(f"http://{plain_at}", f"https://{tls_at}", certificate)
            finally:
                process.terminate()


def _new_certificate() -> bytes:
    """A certificate for this machine, valid for a day, with its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the load service")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


# -- in the process of the service -------------------------------------------------------------------------------------


def answer_of(body: bytes) -> bytes:
    """With the headers that a service behind a proxy sends."""
    return (
        b"HTTP/1.1 200 OK\r\n"
        b"Server: nginx\r\n"
        b"Date: Sat, 28 Nov 2026 15:05:27 GMT\r\n"
        b"Content-Type: application/json; charset=utf-8\r\n"
        b"Content-Length: %d\r\n"
        b"Connection: keep-alive\r\n"
        b"Cache-Control: no-store\r\n"
        b"X-Request-Id: req_5f1c9b27a4e04d6c\r\n\r\n" % len(body)
    ) + body


def task_body(prefix: bytes, task_id: bytes, second: int) -> bytes:
    """The JSON of a task in that second: the same task has another ``updated_at`` later."""
    return _BODIES[prefix].replace(b"ID", task_id).replace(b"1000000000", b"%d" % second)


_BODIES = {prefix: json.dumps(task, separators=(",", ":")).encode() for prefix, task in _TASKS.items()}


class State:
    """What all connections share."""

    def __init__(self) -> None:
        self.count = 0


class Connection(asyncio.Protocol):
    """One connection, kept alive for as long as the client wants."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        heads = (self._rest + data).split(b"\r\n\r\n")
        self._rest = heads.pop()
        for head in heads:
            self._answer(head.split(b" ", 2)[1])

    def _answer(self, target: bytes) -> None:
        prefix, slash, task_id = target.rpartition(b"/")
        prefix += slash
        if prefix in _BODIES:
            self._state.count += 1
            body = task_body(prefix, task_id, int(time.time()))
        else:
            body = b"%d" % self._state.count
        if self._transport is not None:
            self._transport.write(answer_of(body))


async def serve(certificate: str, plain: socket.socket, tls: socket.socket) -> None:
    """Until the process that started this one has ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    loop, connection = asyncio.get_running_loop(), partial(Connection, State())
    async with (
        await loop.create_server(connection, sock=plain, backlog=BACKLOG),
        await loop.create_server(connection, sock=tls, backlog=BACKLOG, ssl=context),
    ):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    _, path, *numbers = sys.argv
    sockets = [socket.socket(fileno=int(number)) for number in numbers]
    run_on_loop(serve(path, *sockets), is_uvloop=find_spec("uvloop") is not None)
