"""The services and clocks that the benchmarks measure with, without sockets and processes."""

import asyncio
import json
import re
import time
from array import array

import pytest

from benchmarks.gap_service import GapConnection, Gaps, GapState
from benchmarks.get_peers import Connected, task_ids
from benchmarks.load_service import BUCKETS_PER_SECOND, Connection, State, task_body
from benchmarks.scheduler_alone import JumpingClock
from benchmarks.waiting import waiting


class Wire:
    """What a connection writes to."""

    def __init__(self):
        self.written = b""
        self.is_aborted = False

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_aborted = True

    def answers(self):
        """The JSON of each answer, whose head says how long it is."""
        found, rest = [], self.written
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])
            found.append(json.loads(rest[:length]))
            rest = rest[length:]
        return found


def connected(made):
    wire = Wire()
    made.connection_made(wire)
    return made, wire


def request(path):
    return b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode()


def test_tasks_of_all_services_are_of_about_one_size():
    paths = (b"/openapi/v1/videos/", b"/openai/v1/videos/", b"/runway/v1/tasks/", b"/replicate/v1/predictions/")
    sizes = [len(task_body(path, task_ids(1)[0].encode(), int(time.time()))) for path in paths]
    assert min(sizes) > 440
    assert max(sizes) < 600


def test_the_service_counts_what_arrives_by_tenths_of_a_second_until_it_is_told_to_forget():
    state, begun_at = State(), time.time()
    connection, wire = connected(Connection(state))
    for task_id in task_ids(7):
        connection.data_received(request(f"/openapi/v1/videos/{task_id}"))
    assert [(task["id"], task["task_id"], task["status"]) for task in wire.answers()] == [
        (task_id, task_id, "running") for task_id in task_ids(7)
    ]
    connected(Connection(state))
    counts = json.loads(state.told("/counts"))
    assert (counts["tasks"], counts["connections"]) == (7, 2)
    buckets = {int(bucket): count for bucket, count in counts["buckets"].items()}
    assert sum(buckets.values()) == 7
    assert min(buckets) >= int(begun_at * BUCKETS_PER_SECOND)
    assert max(buckets) <= int(time.time() * BUCKETS_PER_SECOND)
    connection.data_received(request("/reset"))
    assert json.loads(state.told("/counts"))["tasks"] == 0


def test_requests_that_come_in_pieces_or_together_are_each_answered():
    state = State()
    connection, wire = connected(Connection(state))
    first, second, third = (request(f"/openapi/v1/videos/done-{number}") for number in (1, 2, 3))
    connection.data_received(first + second + third[:20])
    assert len(wire.answers()) == 2
    connection.data_received(third[20:])
    assert [(task["id"], task["status"]) for task in wire.answers()] == [
        (f"done-{number}", "completed") for number in (1, 2, 3)
    ]
    assert state.buckets.total() == 3


def test_in_an_outage_connections_are_reset_or_get_no_answer_and_are_counted():
    state, task = State(), request("/openapi/v1/videos/vt-1")
    connection, wire = connected(Connection(state))
    state.told("/outage/reset/60")
    connection.data_received(task)
    assert (wire.is_aborted, wire.answers()) == (True, [])
    connection, wire = connected(Connection(state))
    state.told("/outage/silent/60")
    connection.data_received(task)
    assert (wire.is_aborted, wire.answers()) == (False, [])
    assert state.buckets.total() == 2
    state.told("/outage/silent/0")
    connection.data_received(task)
    assert [answer["id"] for answer in wire.answers()] == ["vt-1"]


def test_gaps_are_between_questions_for_one_task():
    state = GapState()
    for target in (b"/openapi/v1/videos/a", b"/openapi/v1/videos/b", b"/openapi/v1/videos/a"):
        state.note(target)
    assert '"count": 1' in state.told("/gaps").decode()
    state.told("/reset")
    assert '"count": 0' in state.told("/gaps").decode()
    assert Gaps.of(array("d", [3.0, 1.0, 2.0])) == Gaps(count=3, shortest=1.0, p50=2.0, p99=3.0, longest=3.0)


def test_the_gap_service_answers_as_the_load_service_does():
    state = GapState()
    connection, wire = connected(GapConnection(state))
    for _ in range(3):
        connection.data_received(request("/openapi/v1/videos/task-1"))
    assert [task["status"] for task in wire.answers()] == ["running"] * 3
    assert (json.loads(state.told("/gaps"))["count"], state.buckets.total()) == (2, 3)


async def test_the_jumping_clock_jumps_when_it_is_not_held():
    clock = JumpingClock()
    sleeper = asyncio.ensure_future(clock.sleep(3600.0))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (sleeper.done(), clock.now()) == (False, 0.0)
    clock.is_held = False
    await sleeper
    assert clock.now() == 3600.0


async def test_all_tasks_are_looked_at_in_one_coroutine_or_in_one_for_each():
    asked = []

    async def look(what):
        asked.append(what)
        await asyncio.Event().wait()

    for gather in (look, None):
        async with waiting(Connected(get=look, wait=look, gather=gather), ["vt-1", "vt-2"], 0.0):
            await a_few_passes()
    assert asked == [["vt-1", "vt-2"], "vt-1", "vt-2"]


async def test_a_wait_that_ends_too_soon_is_an_error_and_no_measurement():
    async def broken(task_id):
        raise OSError("refused")

    async def wait_for_one():
        async with waiting(Connected(get=broken, wait=broken), ["vt-1"], 0.0):
            await a_few_passes()

    with pytest.raises(ExceptionGroup, match="unhandled"):
        await wait_for_one()


async def a_few_passes():
    for _ in range(10):
        await asyncio.sleep(0)
