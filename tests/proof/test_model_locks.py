"""The locks of a journal's file: the design holds for every schedule of the model, and the lock does what it says."""

import sqlite3
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.proof.model import search
from tests.proof.model_locks import MUTANTS, Design, Process, World
from vidgen_async.journal.sqlite.file_lock import FileLock


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_no_schedule_breaks_an_invariant_of_the_design(processes):
    found = search(Design(processes=processes))
    assert (found.broken, found.path) == (None, ())
    assert len(found.came_from) > 70


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_design_that_breaks_one_rule_is_detected(mutant):
    """Also where only the second request would be noticed, and not the damaged record."""
    for invariant in mutant.dies_by:
        assert search(mutant(invariants=(invariant,))).broken == invariant


class Replay:
    """A path of the model, carried out with one real lock for each process."""

    def __init__(self, path: Path, start: World) -> None:
        self.path = path
        self.processes = [
            (process, FileLock(path, time_limit=0, mode=0o600), ExitStack()) for process in start.processes
        ]

    def step(self, rule: str, before: World, after: World) -> None:
        """What the model allows must be possible."""
        if rule == "delete the lock file":
            self.path.unlink(missing_ok=True)
            return
        ((was, _),) = (Counter(before.processes) - Counter(after.processes)).items() or ((Process(), 1),)
        ((becomes, _),) = (Counter(after.processes) - Counter(before.processes)).items() or ((was, 1),)
        number = next(i for i, (process, _, _) in enumerate(self.processes) if process == was)
        _, lock, held = self.processes[number]
        if becomes.flock and not was.flock:
            held.enter_context(lock.hold(exclusive=becomes.flock == "exclusive"))
        elif was.flock and not becomes.flock:
            held.close()
        if rule == "crash":
            lock.close()
        self.processes[number] = (becomes, lock, held)

    def may_enter(self, process: Process, *, exclusive: bool) -> bool:
        lock = next(lock for known, lock, _ in self.processes if known == process)
        with suppress(sqlite3.OperationalError), lock.hold(exclusive=exclusive):
            return True
        return False

    def close(self) -> None:
        for _, lock, held in self.processes:
            held.close()
            lock.close()


def test_a_lock_admits_exactly_whom_the_model_admits(tmp_path):
    design = Design()
    found = search(design)
    refused = 0
    for number, world in enumerate(found.came_from):
        worlds = [world]
        while (came_from := found.came_from[worlds[0]]) is not None:
            worlds.insert(0, came_from[0])
        replay = Replay(tmp_path / f"lock-{number}", design.start())
        for move, before, after in zip(found.path_to(world), worlds, worlds[1:], strict=False):
            replay.step(move.rule, before, after)
        for process in {process for process in world.processes if process.step == "idle"}:
            for kind, rule in (("exclusive", "write"), ("shared", "read")):
                expected = design.enter(world, process, kind, rule) is not None
                assert replay.may_enter(process, exclusive=kind == "exclusive") is expected, (world, process, kind)
                refused += not expected
        replay.close()
    assert refused > 10
