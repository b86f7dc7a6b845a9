"""A process that runs the batch of a manifest: ``python -m tests.batch.batch_child MANIFEST DIRECTORY REPORT``."""

import asyncio
import sys

from vidgen_async import Client, Pacing


async def main(manifest: str, directory: str, report: str) -> None:
    async with (
        Client(pacing=Pacing(limit=100_000), poll_interval=0.1) as client,
        client.videos.batch(manifest, to=directory, report=report) as batch,
    ):
        async for outcome in batch:
            print(outcome.order_id, outcome.state, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
