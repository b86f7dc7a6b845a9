"""A process that runs the batch of a manifest: ``python -m tests.proof.batch_child MANIFEST DIRECTORY REPORT``. It ends
when its standard input does, and so with the process that started it, whatever ends that one."""

import asyncio
import os
import sys
from threading import Thread

from vidgen_async import Client, Pacing


async def main(manifest: str, directory: str, report: str) -> None:
    async with (
        Client(pacing=Pacing(limit=100_000), poll_interval=0.1) as client,
        client.videos.batch(manifest, to=directory, report=report) as batch,
    ):
        async for outcome in batch:
            print(outcome.order_id, outcome.state, flush=True)  # noqa: T201


def end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    Thread(target=end_with_parent, daemon=True).start()
    asyncio.run(main(*sys.argv[1:]))
