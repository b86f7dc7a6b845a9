"""A process that records from a service until it is killed: ``path``, ``base``, ``count`` and ``halt`` come as JSON.

``halt`` is where it kills itself while it publishes: ``"flush"``, ``"replace"`` (just before) or ``"discard"`` (just
after the cassette has taken its place). Otherwise it is killed by others, when it has said how far it is.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from yarl import URL

from vidgen_async.transports import AppendingTransport, DirectTransport, RecordingTransport
from vidgen_async.types.http import BytesBody, Request, make_headers

KEY = "Zq7-key-of-the-childk9"


def say(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def request(base: str, number: int) -> Request:
    headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": f"Zq7-idempotency-{number}k9"}
    body = BytesBody(json.dumps({"prompt": "a boat", "n": number, "token": f"Zq7-sent-{number}k9"}).encode())
    url = URL(f"{base}/videos/{number}?token=Zq7-query-{number}k9", encoded=True)
    return Request(op="videos.get", method="POST", url=url, headers=make_headers(headers), body=body)


def arm(halt: str, path: Path) -> None:
    replace = Path.replace
    if halt == "flush":
        os.fsync = die
    elif halt == "replace":
        Path.replace = lambda self, target: die() if Path(target) == path else replace(self, target)
    elif halt == "discard":
        Path.replace = lambda self, target: (replace(self, target), die() if Path(target) == path else None)[0]


async def main(wanted: dict[str, Any]) -> None:
    kind = AppendingTransport if wanted.get("append") else RecordingTransport
    transport = kind(DirectTransport(), wanted["path"])
    for number in range(wanted.get("first", 0), wanted["count"]):
        async with await transport.send(request(wanted["base"], number)) as response:
            say(answered=number)
            async for _ in response.chunks():
                say(piece=number)
        say(done=number)
    arm(wanted.get("halt", ""), Path(wanted["path"]))
    await transport.aclose()
    say(published=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
