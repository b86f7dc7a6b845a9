"""One process that begins attempts within a budget: it reads what to do as a line of JSON from stdin, and reports it.

With ``begins`` it begins so many orders of its own, of 20 points each. Otherwise it carries out ``steps`` of a random
history on orders that all processes share, under limits that are lowered and raised, by a clock that is set back; it is
killed at the point ``at``, after ``halts_after`` steps.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

from tests.journal.test_spending import History, begin
from tests.proof.points import Halt, watch_commits
from tests.proof.worker import say
from vidgen_async.journal import Journal
from vidgen_async.journal.base import OverBudget
from vidgen_async.journal.opening import journal_from
from vidgen_async.types.limits import SpendingLimit

#: The limits of the steps, one part of them after the other.
LIMITS = (400, 160, 600)
WINDOW, UNKNOWN = 7200, 30
ORDERS, TASKS = 60, 50


async def begin_orders(journal: Journal, begins: int) -> None:
    limit = SpendingLimit(points=2000, window=None, unknown=None)
    for number in range(begins):
        with suppress(OverBudget):
            await begin(journal, f"{os.getpid()}-{number}", limit)
            say(begun=number)


async def carry_out(journal: Journal, wanted: dict[str, Any], halt: Halt) -> AsyncIterator[bool]:
    """Yield of each step whether an attempt was over its limit."""
    history = History(wanted["seed"], orders=ORDERS, tasks=TASKS, seconds=(-900, 0, 1, 45, 200))
    # The clocks of the processes differ.
    history.now += timedelta(seconds=Random(wanted["seed"]).randrange(3600))  # noqa: S311 - no secret
    for number in range(wanted["steps"]):
        if number == wanted.get("halts_after"):
            halt.point = wanted["at"]
        points = LIMITS[number * len(LIMITS) // wanted["steps"]]
        try:
            await history.step(journal, limits=[SpendingLimit(points=points, window=float(WINDOW), unknown=UNKNOWN)])
            yield False
        except OverBudget:
            yield True
        await asyncio.sleep(0)


async def work(wanted: dict[str, Any]) -> None:
    logging.getLogger("vidgen_async").addHandler(logging.NullHandler())  # its steps give two orders one task
    halt = Halt("", "SIGKILL")
    watch_commits(halt)
    journal = journal_from(wanted["journal"])
    await journal.namespace("opens it")
    say(ready=True)
    await asyncio.to_thread(sys.stdin.readline)
    if "begins" in wanted:
        await begin_orders(journal, wanted["begins"])
    else:
        async for is_over in carry_out(journal, wanted, halt):
            say(over=is_over)
    await journal.aclose()


def main() -> None:
    asyncio.run(work(json.loads(sys.stdin.readline())))
