"""A server that answers within a given time: ``python -m tests.mcp.server_child DIRECTORY POINTS SECONDS``."""

import asyncio
import sys
from pathlib import Path

from vidgen_async import Budget, Client
from vidgen_async.mcp import serve


async def main(directory: str, points: str, answer_within: str) -> None:
    async with Client(budget=Budget(points=int(points), price="points"), poll_interval=1) as client:
        await serve(client, Path(directory), answer_within=float(answer_within))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
