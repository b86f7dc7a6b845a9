"""One video, saved at the path given: all it needs is the package itself and the service's address and key."""

import asyncio
import sys

from vidgen_async import Client


async def main(target: str) -> None:
    async with Client(poll_interval=0.05) as client:
        receipt = await client.videos.create(model="gen-2.0", prompt="A paper boat", duration=5, order_id="order-1187")
        task = await client.videos.wait(receipt, timeout=60)
        await client.videos.download(task, target)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
