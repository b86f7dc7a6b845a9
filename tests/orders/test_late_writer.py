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


async def test_a_close_tries_each_value_once_although_the_first_one_fails():
    clock = VirtualClock()
    written: list[str] = []

    async def write(items):
        ((key, _),) = items
        if key in {"a", "c"}:
            raise OSError(key)
        written.append(key)

    reported: list[tuple[str, str]] = []
    writer = LateWriter(
        clock,
        write,
        lambda _, items, error: reported.extend((key, str(error)) for key, _ in items),
        first_pause=60.0,
    )
    for key in "abcd":
        writer.put(key, 1)
    await writer.aclose()

    assert written == ["b", "d"]
    assert reported == [("a", "a"), ("c", "c")]


async def test_a_close_stops_when_writes_take_long_to_fail():
    clock = VirtualClock()

    async def write(items):
        await clock.sleep(30.0)
        raise OSError

    reported: list[str] = []
    writer = LateWriter(
        clock, write, lambda _, items, error: reported.extend(key for key, _ in items), first_pause=60.0
    )
    for key in "abc":
        writer.put(key, 1)
    await writer.aclose()

    assert clock.now() == 30.0
    assert reported == ["a", "b", "c"]


async def test_a_close_writes_what_is_put_while_it_writes():
    clock = VirtualClock()
    written: list[str] = []

    async def write(items):
        ((key, _),) = items
        if not written:
            writer.put("b", 1)
        written.append(key)

    writer = LateWriter(clock, write, lambda *_: None, first_pause=60.0)
    writer.put("a", 1)
    await writer.aclose()

    assert written == ["a", "b"]
