"""What the journal does not accept now is written later."""

import logging

from vidgen_async.clock import VirtualClock
from vidgen_async.orders.late_writer import LateWriter


async def test_a_success_resets_the_pause_and_the_level_of_the_next_failure():
    clock = VirtualClock()
    fails = {0, 1, 2, 4}
    calls: list[float] = []
    levels: list[int] = []

    async def write(items):
        calls.append(clock.now())
        if len(calls) - 1 in fails:
            raise OSError
        if len(calls) == 4:
            writer.put("b", 2)  # while the worker runs

    writer = LateWriter(clock, write, lambda level, items, error: levels.append(level))
    writer.put("a", 1)
    await clock.sleep(60.0)

    assert writer.unwritten == {}
    assert levels == [logging.WARNING, logging.INFO, logging.INFO, logging.WARNING]
    assert calls == [0.0, 0.5, 1.5, 3.5, 3.5, 4.0]
