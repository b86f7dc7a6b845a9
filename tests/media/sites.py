"""Services on real sockets that respond by a script and record the requests."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from attrs import define, field, frozen
from multidict import CIMultiDict
from yarl import URL

from tests.media.mp4_files import box, movie
from tests.transports.raw_service import Connection, RawService, raw_service

KEY = "vg-a-key-that-nobody-may-see"
SECRET = "vg-a-key"
CONTENT = "/openapi/v1/videos/task-1/content"


def video(size: int = 100_000, *, seed: int = 1, first: bytes = box(b"ftyp", b"isom\0\0\2\0isomiso2avc1mp41")) -> bytes:
    """Exactly ``size`` bytes with the boxes of an MP4; its mdat holds every byte value, in one sample."""
    noise = random.Random(seed)  # noqa: S311 - nothing secret
    start = len(first) + len(movie([(0, [0])])) + 8
    return first + movie([(start, [size - start])]) + box(b"mdat", noise.randbytes(size - start))


@frozen
class Seen:
    """One received request."""

    method: str
    target: str
    headers: CIMultiDict


@frozen(kw_only=True)
class Says:
    """One response. After ``cut`` bytes of the body the connection is closed. ``framing`` is "length", "chunked" or
    "close"."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(factory=dict)
    media: str | None = "video/mp4"
    cut: int | None = None
    framing: str = "length"

    @property
    def closes(self) -> bool:
        return self.cut is not None or self.framing == "close"

    def wire(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Whatever"]
        if self.media is not None:
            lines.append(f"Content-Type: {self.media}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        body = self.body if self.cut is None else self.body[: self.cut]
        if self.framing == "length":
            lines.append(f"Content-Length: {len(self.body)}")
        elif self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(
                b"%x\r\n%b\r\n" % (len(body[i : i + 999]), body[i : i + 999]) for i in range(0, len(body), 999)
            )
            body += b"" if self.cut is not None else b"0\r\n\r\n"
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def page(status: int, text: str = '{"error": {"code": "NO", "message": "no"}}', **headers: str) -> Says:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Says(status=status, body=text.encode(), media="application/json", headers=named)


def to(location: object, status: int = 307, **headers: str) -> Says:
    return Says(status=status, headers={"Location": str(location), **headers}, media=None)


Script = Callable[[Seen], Says]


@define
class Site:
    """A running site. ``script`` returns the response to each request."""

    raw: RawService
    script: Script
    requests: list[Seen] = field(factory=list)

    def url(self, path: str) -> URL:
        return self.raw.url(path)

    @property
    def targets(self) -> list[str]:
        return [seen.target for seen in self.requests]

    @property
    def ranges(self) -> list[str | None]:
        return [seen.headers.get("Range") for seen in self.requests]


def in_turn(*answers: Says | Script) -> Script:
    """The responses one after another; the last one is repeated."""
    left = list(answers)

    def script(seen: Seen) -> Says:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(seen) if callable(answer) else answer

    return script


@asynccontextmanager
async def site(script: Script | Says) -> AsyncIterator[Site]:
    async def behave(connection: Connection) -> None:
        while True:
            data = await connection.request()
            head, _, _ = data.partition(b"\r\n\r\n")
            first, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")
            method, target, _ = first.split(" ", 2)
            seen = Seen(method, target, CIMultiDict(line.split(": ", 1) for line in lines))
            here.requests.append(seen)
            answer = here.script(seen)
            await connection.answer(answer.wire())
            if answer.closes:
                return

    async with raw_service(behave) as raw:
        here = Site(raw, script if callable(script) else in_turn(script))
        yield here


@define
class RangeHost:
    """Serves one video with ranges. Each response takes one of ``cuts``: the bytes sent before it is closed."""

    data: bytes
    etag: str | None = '"v1"'
    cuts: list[int | None] = field(factory=list)
    framing: str = "length"

    def __call__(self, seen: Seen) -> Says:
        cut = self.cuts.pop(0) if self.cuts else None
        headers = {} if self.etag is None else {"ETag": self.etag}
        wanted = seen.headers.get("Range")
        if wanted is None or seen.headers.get("If-Range", self.etag) != self.etag:
            return Says(body=self.data, headers=headers, cut=cut, framing=self.framing)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, total = int(first), len(self.data)
        end = min(int(last) if last else total - 1, total - 1)
        if start >= total:
            return Says(status=416, headers={"Content-Range": f"bytes */{total}"}, media=None)
        headers["Content-Range"] = f"bytes {start}-{end}/{total}"
        return Says(status=206, body=self.data[start : end + 1], headers=headers, cut=cut, framing=self.framing)
