"""Queue the workflow of a video in DBOS.

python dbos_order.py order-1187 "a boat"
"""

import asyncio
import os
import sys

from dbos import DBOSClient

from dbos_worker import order_video


async def main(order_id: str, prompt: str) -> None:
    dbos = DBOSClient(system_database_url=os.environ["DATABASE_URL"])
    try:  # in a server once, when it starts
        await order_video(dbos, order_id, prompt)
    finally:
        dbos.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
