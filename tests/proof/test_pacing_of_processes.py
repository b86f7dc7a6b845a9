"""Processes on one journal share the rolling limit, as the service counts it."""

from bisect import bisect_left

import pytest

from tests.proof.processes import Processes, Record, check

LIMIT, WINDOW, PROCESSES = 20, 1.0, 4
ORDERS_EACH = 20
PACING = {"limit": LIMIT, "window": WINDOW}


@pytest.fixture
async def limited(processes: Processes) -> Processes:
    """A service that takes its time with everything, and counts at some moment of it."""
    await processes.start_service(limit=LIMIT, window=WINDOW, latency=0.15, seed=7)
    return processes


def lanes(number: int) -> list[list[list[object]]]:
    """One lane for each order of a process."""
    names = [f"order-{number}-{n}" for n in range(ORDERS_EACH)]
    return [[["create", name, f"{name}: ok"]] for name in names]


def most_in_a_window(record: Record) -> int:
    """By the service's own clock, from when it had read a create."""
    times = sorted(post.taken_at for post in record.posts())
    return max(n + 1 - bisect_left(times, at - WINDOW) for n, at in enumerate(times))


@pytest.mark.needs_dev
@pytest.mark.slow
async def test_four_processes_on_one_journal_never_exceed_the_limit_of_the_service(limited):
    workers = await limited.start_together(map(lanes, range(PROCESSES)), pacing=PACING)
    told = [word for worker in workers for word in await worker.ended()]

    posts = limited.record.posts()
    assert {post.status for post in posts} == {202}
    assert len(posts) == PROCESSES * ORDERS_EACH
    assert most_in_a_window(limited.record) <= LIMIT
    check(limited.record, limited.journal, told=told)


@pytest.mark.needs_dev
@pytest.mark.slow
async def test_four_processes_with_separate_journals_exceed_the_limit_so_the_service_detects_it(limited, tmp_path):
    workers = [
        await limited.start(*lanes(number), journal=f"sqlite:///{tmp_path / str(number)}.db", pacing=PACING)
        for number in range(PROCESSES)
    ]
    told = [word for worker in workers for word in await worker.ended()]

    refused = [post for post in limited.record.posts() if post.status == 429]
    assert refused
    assert sum("error" in word for word in told) == len(refused)
    assert most_in_a_window(limited.record) > LIMIT
