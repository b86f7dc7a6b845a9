"""A worker on a host of its own, whose clock is off by ``ahead`` seconds. It creates videos as fast as it may.

It reads its options as a line of JSON from stdin, and writes ``ready`` when the journal is open. The next line says on
how many lanes it creates how many videos, one after the other; their prompt is its name. It writes ``429`` for each
that was refused, and ends.
"""

import asyncio
import json
import os
import sys
import time
from datetime import datetime, timedelta
from typing import Any

from vidgen_async import Client, Pacing, RateLimitError
from vidgen_async.clock import LoopClock
from vidgen_async.journal import Journal, PostgresJournal, SqliteJournal


class HostClock(LoopClock):
    """Real time, on a calendar that is wrong."""

    def __init__(self, ahead: float) -> None:
        self._ahead = timedelta(seconds=ahead)

    def wall(self) -> datetime:
        return super().wall() + self._ahead


def journal_of(options: dict[str, Any]) -> Journal:
    if not options["journal"].startswith("postgresql:"):
        return SqliteJournal(options["journal"])
    return PostgresJournal(options["journal"], read_time=lambda: time.time() + options["ahead"])


async def create_videos(client: Client, name: str, lane: int, orders: int) -> None:
    for n in range(orders):
        order_id = f"{name}-{lane}-{n}"
        try:
            await client.videos.create(model="gen-2.0", prompt=name, duration=5, order_id=order_id, validate=False)
        except RateLimitError:
            os.write(1, b"429\n")


async def main() -> None:
    options = json.loads(sys.stdin.readline())
    async with Client(
        options["key"],
        base_url=options["base_url"],
        journal=journal_of(options),
        pacing=Pacing(**options["pacing"]),
        clock=HostClock(options["ahead"]),
    ) as client:
        await client.orders.find("none")
        os.write(1, b"ready\n")
        lanes, orders = json.loads(await asyncio.to_thread(sys.stdin.readline))
        await asyncio.gather(*(create_videos(client, options["name"], lane, orders) for lane in range(lanes)))


if __name__ == "__main__":
    asyncio.run(main())
