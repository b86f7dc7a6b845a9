"""Start the workflow of a video in Temporal.

python temporal_order.py order-1187 "a boat"
"""

import asyncio
import os
import sys

from temporalio.client import Client as Temporal
from temporalio.envconfig import ClientConfig

from temporal_worker import order_video


async def main(order_id: str, prompt: str) -> None:
    settings = ClientConfig.load_client_connect_config()  # TEMPORAL_ADDRESS
    temporal = await Temporal.connect(**settings)  # in a server once
    await order_video(temporal, order_id, prompt)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    os._exit(0)  # the exit of the interpreter may crash: sdk-python#300
