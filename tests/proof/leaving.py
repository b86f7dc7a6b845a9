"""A program that leaves in the middle of a create and closes nothing: ``leaving.py HOW BASE_URL JOURNAL KEY ORDER``.

It leaves when a line comes on stdin, or by a signal.
"""

import asyncio
import sys

from vidgen_async import Client, Timeouts


class OurOwnError(Exception):
    pass


def leave(how: str, news: asyncio.Event) -> None:
    sys.stdin.readline()
    asyncio.get_running_loop().remove_reader(sys.stdin)
    if how == "sys.exit in a handler":
        sys.exit(3)
    news.set()


async def main(how: str, base_url: str, journal: str, key: str, order: str) -> None:
    client = Client(key, base_url=base_url, journal=journal, timeouts=Timeouts(create=60))
    create = client.videos.create(model="gen-2.0", prompt=f"{order}: hang", order_id=order, validate=False)
    creating = asyncio.create_task(create)
    news = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, leave, how, news)
    await news.wait()
    if how == "exception in main":
        raise OurOwnError
    if how == "sys.exit in main":
        sys.exit(3)
    assert not creating.done()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
