"""One process that orders videos: it reads its steps as a line of JSON from stdin, and writes the outcomes to stdout.

``lanes`` are lists of steps, carried out side by side; a step is ``[verb, order id, word, number]``: the word
is the prompt of a create (the number pads its body), the path of the local image of an *animate* (a create too), the
reason of a resend (the number is the attempt that it expects) or the task that is adopted.
"""

import asyncio
import json
import logging
import os
import sys
import time
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

from tests.proof.points import BEFORE_RETURN, Halt, HaltingTransport, watch_commits
from vidgen_async import Client, JournalError, Pacing, Receipt, Timeouts, VidgenError
from vidgen_async.clock import LoopClock
from vidgen_async.errors import ReceiptNotStoredError
from vidgen_async.journal import PostgresJournal
from vidgen_async.journal.postgres import connections
from vidgen_async.orders import orders as orders_module
from vidgen_async.service import endpoints

MODEL = "gen-2.0"


class AheadClock(LoopClock):
    """Real time, on a calendar that is ``seconds`` ahead: whatever has a deadline is past it.

    With ``on_host`` it is the clock of the worker's own host, which is wrong: the journal knows it too.
    """

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def wall(self) -> datetime:
        return super().wall() + self._ahead


def say(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def journal_of(wanted: dict[str, Any]) -> str | PostgresJournal:
    if wanted.get("on_host") and wanted["journal"].startswith("postgresql:"):
        return PostgresJournal(wanted["journal"], read_time=lambda: time.time() + wanted["ahead"])
    if "journal_time_limit" not in wanted:
        return wanted["journal"]
    connections._IDLE_LIMIT = wanted["journal_time_limit"]
    return PostgresJournal(wanted["journal"], time_limit=wanted["journal_time_limit"])


def client_of(wanted: dict[str, Any], halt: Halt) -> Client:
    return Client(
        wanted["key"],
        base_url=wanted["base_url"],
        journal=journal_of(wanted),
        transport=HaltingTransport(halt),
        clock=AheadClock(wanted.get("ahead", 0.0)),
        timeouts=Timeouts(create=wanted.get("create_timeout", 60.0)),
        pacing=Pacing(**wanted.get("pacing", {"limit": 1_000_000})),
        namespace=wanted.get("namespace"),
    )


async def step(client: Client, halt: Halt, verb: str, order_id: str, word: str = "", number: int = 0) -> Receipt:
    orders = client.orders
    if verb == "resend":
        receipt = await orders.resend(order_id, expect_attempt=number, reason=word, accept_duplicate_risk=True)
        halt.at(BEFORE_RETURN)
        return receipt
    if verb == "adopt":
        return await orders.adopt(order_id, word)
    if verb == "resume":
        return await orders.resume(order_id, validate=False)
    if verb == "animate":
        return await client.videos.create(
            model=MODEL, prompt=order_id, local_images=[word], order_id=order_id, validate=False
        )
    return await client.videos.create(
        model=MODEL,
        prompt=word,
        image_urls=["https://h/" + "a" * number] if number else None,
        order_id=order_id,
        validate=False,
        on_receipt=lambda _: halt.at(BEFORE_RETURN),
    )


async def repeat(client: Client, halt: Halt, verb: str, order_id: str, *more: Any) -> Receipt:
    """Repeat the step while the journal cannot be used, as a job queue does."""
    while True:
        try:
            return await step(client, halt, verb, order_id, *more)
        except JournalError as error:
            if isinstance(error, ReceiptNotStoredError):
                raise
            say(order=order_id, verb=verb, repeated=str(error), may_be_committed=error.may_be_committed)
            await asyncio.sleep(0.02)


async def lane(client: Client, halt: Halt, steps: list[list[Any]], wanted: dict[str, Any]) -> None:
    carry_out = repeat if wanted.get("repeats") else step
    for verb, order_id, *more in steps:
        try:
            async with asyncio.timeout(wanted.get("time_limit")):
                receipt = await carry_out(client, halt, verb, order_id, *more)
        except (VidgenError, TimeoutError) as error:
            say(order=order_id, verb=verb, error=type(error).__name__, words=str(error))
        else:
            say(order=order_id, verb=verb, task=receipt.task_id)


async def enter_client(stack: AsyncExitStack, wanted: dict[str, Any], halt: Halt) -> Client:
    """Enter a client; repeatedly while the journal cannot be used, if the steps are repeated too."""
    while True:
        try:
            return await stack.enter_async_context(client_of(wanted, halt))
        except JournalError:
            if not wanted.get("repeats"):
                raise
            await asyncio.sleep(0.02)


async def work(wanted: dict[str, Any]) -> None:
    halt = Halt(wanted.get("at", ""), wanted.get("signal", "SIGKILL"))
    watch_commits(halt)
    async with AsyncExitStack() as stack:
        client = await enter_client(stack, wanted, halt)
        if wanted.get("together"):
            await client.orders.find("none")  # the journal is open
            say(ready=True)
            await asyncio.to_thread(sys.stdin.readline)
        lanes = (lane(client, halt, steps, wanted) for steps in wanted["lanes"])
        await asyncio.gather(*lanes)


def upgrade() -> None:
    """From now on this is another version of the SDK, which writes another body for the same request."""
    before = endpoints.create_body

    def create_body(request: Any) -> bytes:
        return json.dumps(json.loads(before(request)) | {"version": 2}, indent=1).encode()

    endpoints.create_body = orders_module.create_body = create_body


def main() -> None:
    wanted = json.loads(sys.stdin.readline())
    logging.basicConfig(filename=wanted.get("log", os.devnull), level=logging.DEBUG)
    if wanted.get("upgraded"):
        upgrade()
    asyncio.run(work(wanted))
