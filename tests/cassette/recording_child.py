"""A process that records from a service until it is killed: ``path``, ``base`` and ``count`` come as JSON."""

import asyncio
import json
import sys
from typing import Any

from yarl import URL

from vidgen_async.transports import DirectTransport, RecordingTransport
from vidgen_async.types.http import BytesBody, Request, make_headers

KEY = "Zq7-key-of-the-childk9"


def request(base: str, number: int) -> Request:
    headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": f"Zq7-idempotency-{number}k9"}
    body = BytesBody(json.dumps({"prompt": "a boat", "n": number, "token": f"Zq7-sent-{number}k9"}).encode())
    url = URL(f"{base}/videos/{number}?token=Zq7-query-{number}k9", encoded=True)
    return Request(op="videos.get", method="POST", url=url, headers=make_headers(headers), body=body)


async def main(wanted: dict[str, Any]) -> None:
    transport = RecordingTransport(DirectTransport(), wanted["path"])
    for number in range(wanted["count"]):
        async with await transport.send(request(wanted["base"], number)) as response:
            await response.read()
    await transport.aclose()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
