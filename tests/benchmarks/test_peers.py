"""Those who are compared do the same work. Needs the extra bench, which also the modules of the benchmarks import."""

import pytest

from benchmarks.get_peers import PEERS
from benchmarks.load_service import running_service

pytestmark = pytest.mark.needs_dev


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_each_peer_looks_once_over_one_connection_and_sees_the_task_that_it_asked_for():
    found = {}
    with running_service() as service:
        for name, peer in PEERS.items():
            if not peer.is_on_uvloop:
                async with peer.connect(service.url, 60.0) as connected:
                    before = service.counts()
                    seen = [await connected.get(task_id) for task_id in ("vt-1", "vt-2")]
                    after = service.counts()
                ids = [task["id"] if isinstance(task, dict) else task.id for task in seen]
                found[name] = (ids, after.tasks - before.tasks, after.connections - before.connections)
    # One of the connections asks for the counts.
    assert found == dict.fromkeys(found, (["vt-1", "vt-2"], 2, 2))
    assert len(found) == 6
