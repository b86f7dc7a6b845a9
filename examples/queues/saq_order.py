"""Queue a video as a job of SAQ.

python saq_order.py order-1187 "a boat"
"""

import asyncio
import sys

from saq_worker import order_video, queue


async def main(order_id: str, prompt: str) -> None:
    await queue.connect()  # in a server once, when it starts
    try:
        await order_video(order_id, prompt)
    finally:
        await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
