"""Orders of videos for a web page, whatever the web framework.

The three web apps beside this module make one VideoOrders for their lifetime:
it creates each order once, waits for its task, and streams the changes to
browsers as server-sent events. The journal has all orders after a restart.
"""

import asyncio
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count, takewhile
from typing import Any

from vidgen_async import (
    Client,
    JournalError,
    NotFoundError,
    Order,
    Receipt,
    TaskFailedError,
    VideoTask,
    VidgenError,
)
from vidgen_async.types import VideoStream

logger = logging.getLogger(__name__)

#: Seconds after which a comment shows that an idle stream is still connected.
KEEP_ALIVE = 15.0
#: Instead of a reason that may be about the shop's account or journal.
IN_LOG = "The log of the shop has the reason."
#: Seconds for creates under way when the app stops: more than one can take.
GRACE = 130

Row = dict[str, Any]
"""What a page shows of an order, as JSON."""


class VideoOrders:
    """The orders of one account, with what pages show of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        #: The latest change of each order by its id, the oldest change first.
        self._rows: dict[str, tuple[int, Row]] = {}
        self._numbers = count(1)  # of changes
        self._run = secrets.token_hex(4)  # numbers of another run mean nothing
        self._changed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._waits: dict[str, asyncio.Task[None]] = {}

    async def read_journal(self, order_id: str | None = None) -> None:
        """Show what the journal has of an order, or of all, and wait for their
        tasks. (A shop with very many orders would read those of one customer.)
        """
        async with self._reading:  # no older result replaces a newer one
            if order_id is None:
                found = await self._client.orders.list()
            else:
                order = await self._client.orders.find(order_id)
                found = [] if order is None else [order]
            for order in found:
                if order.order_id not in self._waits:
                    self._show(row_of(order))
                    if order.receipt is not None and not order.is_terminal:
                        wait = asyncio.create_task(self._wait(order.receipt))
                        self._waits[order.order_id] = wait

    async def create(self, order_id: str, prompt: str) -> Row:
        """Order a video, once, however often this is called with the order id.

        Cancelling the call, since the browser went away, changes nothing: the
        order is sent, and its task is waited for.
        """
        try:
            await self._client.videos.create(
                model="gen-2.0",
                prompt=prompt,
                duration=5,
                order_id=order_id,
                on_receipt=lambda one: self.read_journal(one.order_id),
            )
        except VidgenError:
            with suppress(JournalError):  # the error of the create counts
                await self.read_journal(order_id)
            raise
        await self.read_journal(order_id)
        return self._rows[order_id][1]

    async def events(self, last_event_id: str = "") -> AsyncIterator[bytes]:
        """The changes after an event, as server-sent events without an end.

        Only the latest change of each order is stored, so any number of them
        can be missed. Without a known last event all orders are sent.
        """
        await self.read_journal()  # an operator may have decided meanwhile
        run, _, number = last_event_id.partition("-")
        is_known = run == self._run and number.isdecimal()
        return self._changes(int(number) if is_known else 0)

    async def _changes(self, seen: int) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while True:
            changed = self._changed
            for number, row in self._rows_after(seen):
                event = f"id: {self._run}-{number}\ndata: {json.dumps(row)}\n\n"
                yield event.encode()
                seen = number
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    await changed.wait()
            except TimeoutError:
                yield b": keep-alive\n\n"

    def _rows_after(self, seen: int) -> list[tuple[int, Row]]:
        newest = reversed(self._rows.values())
        return list(takewhile(lambda change: change[0] > seen, newest))[::-1]

    async def open_video(
        self, order_id: str, byte_range: str | None
    ) -> VideoStream:
        """The video of an order, or a part of it. The caller closes it."""
        order = await self._client.orders.find(order_id)
        if order is None or order.receipt is None:
            raise NotFoundError(f"there is no video of order {order_id!r}")
        return await self._client.videos.open_stream(
            order.receipt, range=byte_range
        )

    async def aclose(self) -> None:
        """End all waits, which stops no task."""
        for wait in self._waits.values():
            wait.cancel()
        await asyncio.gather(*self._waits.values(), return_exceptions=True)

    async def _wait(self, receipt: Receipt) -> None:
        try:
            await self._client.videos.wait(
                receipt,
                timeout=None,
                on_update=partial(self._update, receipt.order_id),
            )
        except TaskFailedError:
            pass  # on_update has shown it
        except VidgenError as error:
            logger.error("order %s: %s", receipt.order_id, error)
            self._show_change(receipt.order_id, reason=IN_LOG)
            del self._waits[receipt.order_id]  # the next browser starts another

    def _update(self, order_id: str, task: VideoTask) -> None:
        self._show_change(
            order_id,
            state=task.status,
            reason=task.failure_reason,
            points=task.points,
        )

    def _show_change(self, order_id: str, **changes: object) -> None:
        self._show(self._rows[order_id][1] | changes)

    def _show(self, row: Row) -> None:
        _, known = self._rows.get(row["order"], (0, None))
        if row != known:
            self._rows.pop(row["order"], None)  # to the end
            self._rows[row["order"]] = (next(self._numbers), row)
            self._changed.set()
            self._changed = asyncio.Event()


def row_of(order: Order) -> Row:
    """What a page shows of an order in the journal."""
    state = "not sent" if order.state == "queued" else order.state
    result = order.results[-1] if order.is_terminal else None
    refusals = [
        attempt.evidence
        for attempt in order.attempts
        if attempt.evidence and attempt.outcome == "rejected"
    ]
    if result:
        reason = result.failure_reason
    elif state != "rejected":
        reason = None
    else:  # (an attempt after the refusal may be one that was not sent)
        is_about_request = refusals[-1].status == 400
        reason = refusals[-1].cause if is_about_request else IN_LOG
    return {
        "order": order.order_id,
        "prompt": json.loads(order.body)["prompt"],
        "state": result.status if result else state,
        "reason": reason,
        "points": result.points if result else None,
    }


@asynccontextmanager
async def open_orders() -> AsyncIterator[VideoOrders]:
    """The orders, with one client for as long as the block runs."""
    interval = float(os.environ.get("POLL_INTERVAL", "60"))
    async with Client(
        journal="sqlite:///orders.db", poll_interval=interval
    ) as client:
        orders = VideoOrders(client)
        await orders.read_journal()
        try:
            yield orders
        finally:
            await orders.aclose()
            await client.aclose(grace=GRACE)
