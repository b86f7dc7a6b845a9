"""Queue a video as a job of Procrastinate.

python procrastinate_order.py order-1187 "a boat"
"""

import asyncio
import sys

from procrastinate_worker import app, video


async def order_video(order_id: str, prompt: str) -> None:
    async with app.open_async():  # in a server once, when it starts
        await video.defer_async(order_id=order_id, prompt=prompt)


if __name__ == "__main__":
    asyncio.run(order_video(*sys.argv[1:]))
