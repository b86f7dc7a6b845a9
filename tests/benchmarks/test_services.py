"""The service and the clock that the benchmarks measure with, without sockets and processes."""

import asyncio
import json
import re
import time

from benchmarks.get_peers import task_ids
from benchmarks.load_service import Connection, State, task_body
from benchmarks.paced import at_rate
from benchmarks.scheduler import JumpingClock


class Wire:
    """What a connection writes to."""

    def __init__(self):
        self.written = b""

    def write(self, data):
        self.written += data

    def answers(self):
        """The JSON of each answer."""
        found, rest = [], self.written
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])
            found.append(json.loads(rest[:length]))
            rest = rest[length:]
        return found


def connected(state):
    connection, wire = Connection(state), Wire()
    connection.connection_made(wire)
    return connection, wire


def request(path):
    return b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode()


def test_tasks_of_all_services_have_about_the_same_size():
    paths = (b"/openapi/v1/videos/", b"/openai/v1/videos/", b"/runway/v1/tasks/", b"/replicate/v1/predictions/")
    sizes = [len(task_body(path, task_ids(1)[0].encode(), int(time.time()))) for path in paths]
    assert min(sizes) > 440
    assert max(sizes) < 600


def test_requests_that_arrive_in_pieces_or_together_are_each_answered_and_counted():
    state = State()
    connection, wire = connected(state)
    first, second, third = (request(f"/openapi/v1/videos/vt-{number}") for number in (1, 2, 3))
    connection.data_received(first + second + third[:20])
    assert (len(wire.answers()), state.count) == (2, 2)
    connection.data_received(third[20:])
    assert [(task["id"], task["task_id"], task["status"]) for task in wire.answers()] == [
        (f"vt-{number}", f"vt-{number}", "running") for number in (1, 2, 3)
    ]
    other, other_wire = connected(state)
    other.data_received(request("/counts"))
    assert other_wire.answers() == [3]


async def test_the_jumping_clock_jumps_unless_it_is_stopped():
    clock = JumpingClock()
    sleeper = asyncio.ensure_future(clock.sleep(3600.0))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (sleeper.done(), clock.now()) == (False, 0.0)
    clock.is_stopped = False
    await sleeper
    assert clock.now() == 3600.0


async def test_requests_at_a_rate_are_limited_when_the_service_does_not_answer():
    asked = []

    async def get(task_id):
        asked.append(task_id)
        await asyncio.Event().wait()

    worker = asyncio.ensure_future(at_rate(get, 1e9))
    for _ in range(200):
        await asyncio.sleep(0)
    worker.cancel()
    assert 100 <= len(asked) <= 301
    assert len(set(asked)) == len(asked)
