"""The memory of a batch, by the row: the difference of two runs, one with ten times as many rows as the other one.

The rows come from a generator, the journal is a file, and each task has failed when it is polled first, so that nothing
is saved. What grows is the most memory that the process has had.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.children import child
from benchmarks.media_service import KEY, running_media_service
from benchmarks.results import Figure, Scale, with_limit
from benchmarks.transfers import memory
from vidgen_async import Client, Pacing

#: Bytes of a row.
MOST = 500.0


def run(scale: Scale) -> list[Figure]:
    with running_media_service() as url:
        fewer, more = (child("benchmarks.batches", url, rows)["most"] for rows in (scale.rows // 10, scale.rows))
    value = max(more - fewer, 0) / (scale.rows - scale.rows // 10)
    note = f"{more / 1e6:,.0f} MB with {scale.rows:,} rows"
    return [with_limit(Figure("memory of a batch", "a row", value, "bytes", note=note), MOST)]


# -- in a process of its own -------------------------------------------------------------------------------------------


async def make_videos(url: str, count: int) -> None:
    """Order so many videos, and print the most memory that this process has had."""
    rows = (
        {"order_id": f"order-{n}", "model": "gen-2.0", "duration": 5, "prompt": f"Boat {n} sails at dawn"}
        for n in range(count)
    )
    with tempfile.TemporaryDirectory() as name:
        client = Client(
            KEY,
            base_url=url,
            journal=f"sqlite:///{Path(name) / 'orders.db'}",
            pacing=Pacing(limit=10**9),
            poll_interval=1,
        )
        async with client, client.videos.batch(rows, to=Path(name) / "videos", stop_after_failures=1) as batch:
            states = {outcome.state async for outcome in batch}
    if states != {"failed"}:
        raise RuntimeError(f"not all of {count} tasks failed: {states}")
    print(json.dumps({"most": memory("VmHWM")}))


if __name__ == "__main__":
    asyncio.run(make_videos(sys.argv[1], int(sys.argv[2])))
