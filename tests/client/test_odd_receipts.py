"""A receipt is read from every complete answer that is JSON, however the answer is labelled (4.4); on real sockets."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from vidgen_async import Client, UncertainCreateError

VIDEO = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}
BODY = json.dumps({"id": "t-1", "status": "queued", "note": "été"}, ensure_ascii=False)


@asynccontextmanager
async def service(head: str, body: bytes):
    """Answers every request with these bytes; gives the client and what was received."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in request.lower().splitlines() if line.startswith(b"content-length:")
            )
            received.append(request + await reader.readexactly(length))
            writer.write(f"HTTP/1.1 202 Accepted\r\n{head}\r\n".encode("latin-1") + body)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client("key-1", base_url=f"http://127.0.0.1:{port}/openapi/v1") as client:
        yield client, received


def head(body: bytes, *lines: str, length: int | None = None) -> str:
    return "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {len(body) if length is None else length}"))


UTF8 = BODY.encode()
ANSWERS = {
    "no media type": (UTF8, ()),
    "text/html": (UTF8, ("Content-Type: text/html",)),
    "an unknown charset": (UTF8, ("Content-Type: application/json; charset=klingon",)),
    "latin-1": (BODY.encode("latin-1"), ("Content-Type: application/json; charset=iso-8859-1",)),
    "latin-1 without a label": (BODY.encode("latin-1"), ("Content-Type: application/json",)),
    "utf-16": (BODY.encode("utf-16"), ("Content-Type: application/json",)),
    "a byte order mark": (BODY.encode("utf-8-sig"), ("Content-Type: application/json",)),
    "br that is none": (UTF8, ("Content-Encoding: br",)),
    "a header of 9,000 bytes": (UTF8, (f"X-Long: {'x' * 9000}",)),
    "a header of 500,000 bytes": (UTF8, (f"X-Long: {'x' * 500_000}",)),
    "130 headers": (UTF8, tuple(f"X-{n}: {n}" for n in range(130))),
    "2,000 headers": (UTF8, tuple(f"X-{n}: {n}" for n in range(2000))),
    "a header that is not ASCII": (UTF8, ("X-Name: Jos\xe9",)),
}


@pytest.mark.parametrize(("body", "lines"), ANSWERS.values(), ids=ANSWERS)
async def test_a_complete_answer_that_is_json_gives_its_receipt(body, lines):
    async with service(head(body, *lines), body) as (client, received):
        receipt = await client.videos.create(**VIDEO, validate=False)

    assert (receipt.task_id, receipt.extra["note"], len(received)) == ("t-1", "été", 1)


CUT = {
    "half of the body": (UTF8[:20], head(UTF8)),
    "a whole JSON document of a longer body": (UTF8, head(UTF8, length=len(UTF8) + 5)),
}


@pytest.mark.parametrize(("body", "lines"), CUT.values(), ids=CUT)
async def test_a_cut_answer_gives_no_id_and_is_kept_as_evidence(body, lines):
    async with service(lines, body) as (client, received):
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**VIDEO, order_id="o", validate=False)
        order = await client.orders.get("o")

    (evidence,) = [attempt.evidence for attempt in order.unclear]
    assert (order.receipt, evidence.candidates, evidence.body) == (None, (), body)
    assert len(received) == 1
