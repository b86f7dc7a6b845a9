"""Clients that are compared do the same work. Needs the extra bench."""

import json

import pytest

from benchmarks.get_peers import EARLIER, PEERS
from benchmarks.load_service import running_service

pytestmark = pytest.mark.needs_dev


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_each_peer_polls_once_and_receives_the_task_that_it_requested():
    found = {}
    peers = {name: peer for name, peer in PEERS.items() if name != EARLIER}
    with running_service() as service:
        for name, peer in peers.items():
            async with peer.connect(service.url) as get:
                before = service.count()
                tasks = [await get(task_id) for task_id in ("vt-1", "vt-2")]
                count = service.count() - before
            found[name] = ([id_of(task) for task in tasks], count)
    assert found == dict.fromkeys(peers, (["vt-1", "vt-2"], 2))


def id_of(task):
    if isinstance(task, bytes):  # the bare protocol does not parse HTTP
        return json.loads(task.partition(b"\r\n\r\n")[2])["id"]
    return task["id"] if isinstance(task, dict) else task.id
