"""When to poll, without an event loop."""

import math
import random
from itertools import pairwise

import pytest

from vidgen_async.watcher.schedule import LEAST_RATE, LONGEST_PAUSE, Agenda, Allowance, Schedule

from .conftest import busiest_second


def drive(schedule, start, end):
    """Take every item as soon as possible, from ``start`` to ``end``; polls take no time."""
    polls = []
    now = start
    while now <= end:
        while (item := schedule.take(now)) is not None:
            polls.append((now, item))
            schedule.reschedule(item, now)
        wake = schedule.wake_at()
        if wake is None:
            break
        now = max(wake, now + 1e-6)
    return polls


def make_schedule(count, *, interval=60.0):
    """Return a schedule of so many items, all added at 0."""
    schedule = Schedule(interval, first_polls=0)
    for item in range(count):
        schedule.add(item, 0.0)
    return schedule


def soonest(polls):
    """Return the shortest time between two polls of one item."""
    last = {}
    gaps = [math.inf]
    for moment, item in polls:
        if item in last:
            gaps.append(moment - last[item])
        last[item] = moment
    return min(gaps)


def most_per_second(rate):
    """Return how many polls may start in any second if ``rate`` per second are usual."""
    return max(LEAST_RATE, 1.1 * rate) + max(LEAST_RATE, 0.11 * rate)


@pytest.mark.parametrize(
    "due", [lambda number: 1.0, float, lambda number: 1e6 - number], ids=["same", "later", "sooner"]
)
def test_what_a_number_leaves_in_the_queue_is_limited(due):
    agenda = Agenda()
    agenda.put(0.5, 1)
    for number in range(1_000):
        agenda.put(due(number), 0)
        agenda.first_due()
        agenda.remove(0)

    assert len(agenda._order) <= 70
    assert len(agenda._bins) + sum(map(len, agenda._sorted_bins.values())) == 1
    assert agenda.pop() == 1
    assert agenda.first_due() is None


@pytest.mark.parametrize("at_once", [1, 4, 7])
def test_an_allowance_has_a_size_and_a_rate(at_once):
    allowance = Allowance()

    def used(now):
        before = allowance.next_at
        count = 0
        while allowance.next_at <= now:
            allowance.use(now, 4.0, at_once)
            count += 1
        assert before < allowance.next_at or not count
        return count

    assert [used(100.0), used(100.25), used(100.5), used(100.6)] == [at_once, 1, 1, 0]
    assert used(200.0) == at_once


def test_new_items_are_due_immediately_while_the_allowance_lasts():
    schedule = Schedule(60.0, first_polls=3)
    for item in range(10):
        schedule.add(item, 1000.0)

    dues = [schedule._dues[item] for item in range(10)]
    assert [due == 1000.0 for due in dues] == [True] * 3 + [False] * 7
    assert all(1000.0 <= due < 1060.0 for due in dues)


@pytest.mark.parametrize("count", [10, 100, 2_000, 10_000])
def test_the_others_are_spread_evenly_over_one_interval(count):
    schedule = Schedule(60.0, first_polls=0)
    for item in range(count):
        schedule.add(item, 12_345.6)

    assert busiest_second(schedule._dues[item] for item in range(count)) <= math.ceil(count / 60 * 1.05) + 2


def test_they_are_spread_evenly_also_if_they_are_added_in_groups_at_random_times():
    schedule = Schedule(60.0, first_polls=0)
    rng = random.Random(1)  # noqa: S311 - the same numbers in every run
    now = 0.0
    for group in range(40):
        later = now + rng.random()
        drive(schedule, now, later)
        now = later
        for item in range(40):
            schedule.add(40 * group + item, now)

    polls = drive(schedule, now, now + 180.0)

    assert busiest_second(moment for moment, _ in polls if moment >= now + 60.0) <= 40 * 1.25


def test_the_next_poll_is_one_interval_after_the_start_of_the_last():
    schedule = Schedule(60.0, first_polls=1)
    item = 0
    schedule.add(item, 10.0)

    assert schedule.take(10.0) == item
    assert schedule.take(10.0) is None  # it is being polled
    assert schedule.wake_at() is None
    schedule.reschedule(item, 25.0)  # the poll took 15 s

    assert schedule.wake_at() == 70.0
    assert schedule.take(69.999) is None
    assert schedule.take(70.0) == item


def test_no_poll_is_earlier_because_of_a_rounding_error():
    rng = random.Random(2)  # noqa: S311 - the same numbers in every run
    for _ in range(2_000):
        interval = rng.choice([60.0, 0.1, 59.9, 1 / 3])
        start = rng.random() * 10 ** rng.randint(0, 6)
        schedule = Schedule(interval, first_polls=1)
        if rng.random() < 0.5:
            schedule.pause(start - rng.random(), rng.random())
            start = max(start, schedule.paused_until)
        item = 0
        schedule.add(item, start)
        now = start
        while schedule.take(now) is None:
            now = max(schedule.wake_at() or 0.0, math.nextafter(now, math.inf))
        begun = now
        schedule.reschedule(item, now)
        now = schedule.wake_at() or 0.0
        while schedule.take(now) is None:
            now = math.nextafter(now, math.inf)
        assert now - begun >= interval


@pytest.mark.parametrize(("pause", "ended_at", "due_at"), [(0.0, 90.0, 90.0), (100.0, 100.0, 190.0)])
def test_an_item_whose_poll_takes_longer_than_the_interval_is_due_at_its_end_and_shifts_no_other(
    pause, ended_at, due_at
):
    schedule = Schedule(60.0, first_polls=2)
    slow, other = 0, 1
    schedule.add(slow, 0.0)
    schedule.add(other, 0.0)
    schedule.take(0.0)
    schedule.take(0.0)
    schedule.reschedule(other, 0.0)
    assert schedule.take(60.0) == other
    schedule.reschedule(other, 60.0)
    schedule.pause(90.0, pause)

    schedule.reschedule(slow, ended_at)

    assert schedule.take(due_at) == slow
    assert schedule.wake_at() == 120.0 + pause
    assert schedule.lateness.most == 0.0


def test_soon_is_five_seconds_or_the_interval_if_that_is_shorter():
    for interval, expected in [(60.0, 5.0), (2.0, 2.0)]:
        schedule = Schedule(interval, first_polls=1)
        item = 0
        schedule.add(item, 0.0)
        schedule.take(0.0)
        schedule.reschedule(item, 0.0, soon=True)
        assert schedule.wake_at() == expected


def test_a_pause_shifts_all_polls_by_its_length():
    schedule = Schedule(60.0, first_polls=0)
    for item in range(60):
        schedule.add(item, 0.0)
    before = [moment for moment, _ in drive(schedule, 0.0, 59.9)]

    assert schedule.pause(60.0, 30.0)
    assert schedule.take(89.9) is None
    after = [moment for moment, _ in drive(schedule, 90.0, 149.9)]

    assert after == pytest.approx([moment + 90.0 for moment in before], abs=0.01)
    assert schedule.lateness.most < 0.2  # a pause that was asked for is not lateness


def test_pauses_overlap_and_are_limited():
    schedule = Schedule(60.0, first_polls=1)
    schedule.add(0, 0.0)

    assert schedule.pause(0.0, 30.0)
    assert not schedule.pause(10.0, 5.0)
    assert schedule.pause(20.0, 30.0)
    assert schedule.paused_until == 50.0
    assert schedule.take(50.0) is not None

    assert not schedule.pause(100.0, 0.0)
    assert not schedule.pause(100.0, -5.0)
    schedule.pause(100.0, 1e9)
    assert schedule.paused_until == 100.0 + LONGEST_PAUSE


def test_an_item_added_during_a_pause_is_due_at_its_end_and_shifts_no_other():
    schedule = Schedule(60.0, first_polls=1)
    schedule.pause(0.0, 100.0)
    item = 0
    schedule.add(item, 50.0)

    assert schedule.wake_at() == 100.0
    assert schedule.take(100.0) == item
    assert schedule.lateness_last == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("count", [600, 6_000])
@pytest.mark.parametrize("freeze", [10.0, 45.0, 8 * 3600.0])
def test_after_a_suspension_there_is_no_burst(freeze, count):
    schedule = make_schedule(count)
    before = drive(schedule, 0.0, 119.9)

    woken = 120.0 + freeze
    polls = drive(schedule, woken, woken + 180.0)

    assert busiest_second(moment for moment, _ in polls) <= most_per_second(count / 60)
    assert soonest(before + polls) >= 60.0
    assert len({item for moment, item in polls if moment < woken + 61.0}) == count  # each within an interval
    assert schedule.lateness.most == pytest.approx(freeze, abs=0.2) or schedule.lateness.most < freeze < 60.0
    assert not schedule.is_behind  # over again
    assert schedule.interval_now == pytest.approx(60.0, abs=0.2)


def test_late_polls_are_caught_up_in_the_order_of_their_due_times_at_a_tenth_more_than_the_usual_rate():
    schedule = make_schedule(6_000)
    order = [item for _, item in drive(schedule, 0.0, 59.99)]

    polls = drive(schedule, 90.0, 140.0)

    assert [item for _, item in polls[:5_000]] == order[:5_000]
    moments = [moment for moment, _ in polls[:5_000]]
    assert moments[-1] - moments[0] == pytest.approx(5_000 / 110, rel=0.01)


def test_a_few_late_polls_are_caught_up_at_32_per_second():
    schedule = make_schedule(300)
    drive(schedule, 0.0, 59.99)

    polls = drive(schedule, 119.9, 130.0)

    assert sum(moment < 120.9 for moment, _ in polls) == pytest.approx(2 * LEAST_RATE, abs=1)
    assert max(moment for moment, _ in polls[:300]) == pytest.approx(119.9 + (300 - LEAST_RATE) / LEAST_RATE, abs=0.1)


def test_a_new_item_does_not_wait_for_late_ones():
    schedule = make_schedule(6_000)
    schedule._first_polls = 1
    drive(schedule, 0.0, 59.99)
    schedule.take(90.0)

    schedule.add(6_000, 90.0)
    schedule.add(6_001, 90.0)

    assert 6_000 in {schedule.take(90.0) for _ in range(2)}
    assert 6_001 not in {item for _, item in drive(schedule, 90.0, 91.0)}


@pytest.mark.slow
def test_a_stream_of_new_items_delays_no_poll_for_long():
    schedule = Schedule(60.0, first_polls=32)
    for second in range(300):  # after a minute half of all polls, and a fifth at the end, are those of new items
        for item in range(30):
            schedule.add(30 * second + item, float(second))
        drive(schedule, float(second), second + 0.999)

    assert schedule.lateness.most < 1.0


@pytest.mark.slow
def test_a_stream_of_items_that_end_after_few_polls_delays_no_poll_for_long():
    schedule = Schedule(60.0, first_polls=8)
    left = {}
    now, items = 0.0, 0
    while now < 240.0:
        now += 1 / 64
        left[len(left)] = 2
        schedule.add(len(left) - 1, now)
        items = sum(map(bool, left.values())) if now % 1.0 == 0.0 else items
        while (item := schedule.take(now)) is not None:
            left[item] -= 1
            if left[item]:
                schedule.reschedule(item, now)

    assert schedule.lateness.most < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_short_stalls_delay_few_polls_and_omit_hardly_any(seed):
    rng = random.Random(seed)  # noqa: S311 - the same numbers in every run
    count, interval = 6_000, 60.0
    stalls = sorted((rng.uniform(60.0, 180.0), rng.uniform(0.05, 0.3)) for _ in range(40))
    schedule = make_schedule(count, interval=interval)
    polls = drive(schedule, 0.0, 60.0)
    now = 60.0
    for begin, seconds in stalls:
        if begin > now:
            polls += drive(schedule, now, begin)
        now = max(begin, now) + seconds
    polls += drive(schedule, now, 180.0)

    stalled = [moment for moment, _ in polls if 60.0 <= moment < 180.0]
    p50, _ = schedule.lateness.quantiles(180.0, 0.5, 0.99)
    assert p50 <= 0.15
    assert len(stalled) >= 0.98 * 120.0 * count / interval
    assert busiest_second(stalled) <= most_per_second(count / interval)
    assert soonest(polls) >= interval


@pytest.mark.slow
def test_freezes_one_after_the_other_do_not_add_up_to_a_burst():
    schedule = make_schedule(6_000)
    polls = drive(schedule, 0.0, 59.0)
    for number in range(40):
        polls += drive(schedule, 62.0 + 15.0 * number, 74.0 + 15.0 * number)

    assert busiest_second(moment for moment, _ in polls if moment > 60.0) <= most_per_second(100.0)
    assert soonest(polls) >= 60.0


def test_with_too_little_capacity_the_interval_of_all_items_is_longer_by_the_same_factor():
    schedule = make_schedule(600)
    starts = {}

    now = 0.0
    while now < 1_000.0:  # 5 polls per second, of 10
        item = schedule.take(now)
        if item is not None:
            starts.setdefault(item, []).append(now)
            schedule.reschedule(item, now)
        now += 0.2

    gaps = [later - sooner for times in starts.values() for sooner, later in pairwise(times[2:])]
    assert min(gaps) == pytest.approx(120.0, abs=2.0)
    assert max(gaps) == pytest.approx(120.0, abs=2.0)
    assert schedule.is_behind
    assert schedule.interval_now == pytest.approx(120.0, abs=2.0)

    polls = drive(schedule, now, now + 180.0)  # enough capacity again

    assert not schedule.is_behind
    assert busiest_second(moment for moment, _ in polls) <= most_per_second(10.0)
