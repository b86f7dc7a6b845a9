"""The locks of a journal's file as a model of its own: processes that look at an order, write their attempt, and send.

SQLite's own locks (POSIX) belong to a process and a file: whatever code of the process closes another descriptor of the
file drops them all. Then a rollback journal that its writer still needs looks like one that a dead process has left.
The ``flock`` on the file beside it belongs to one descriptor, and lasts until it is released or its process dies.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Process(NamedTuple):
    """One that is idle, reading (in a transaction that reads), begun (in one that writes), written (not committed yet),
    or committed (its attempt is in the journal, as far as it knows; nothing was sent yet)."""

    step: str = "idle"
    posix: str = ""
    """Which of SQLite's own locks it holds: ``read``, ``write`` or none."""
    flock: str = ""
    lock_file: int = 0
    """Which file it has open as the lock file: that may be deleted, and made again by the next one to need it."""


class World(NamedTuple):
    processes: tuple[Process, ...]
    """Sorted: which is which makes no difference."""
    attempts: int = 0
    """In the file, as it is."""
    rollback: int | None = None
    """What the rollback journal would bring back; None where there is none."""
    posts: int = 0
    lock_file: int = 0


class Move(NamedTuple):
    rule: str


Moves = Iterator[tuple[Move, World]]


class Design:
    """The rules that the package promises to keep."""

    writes_lock = "exclusive"
    reads_lock = "shared"
    lock_files = 2

    def __init__(self, *, processes: int = 2, invariants: tuple[str, ...] = ("L1", "L2")) -> None:
        self.processes = processes
        self.invariants = invariants

    def start(self) -> World:
        return World((Process(),) * self.processes)

    def moves(self, world: World) -> Moves:
        rules = {
            "idle": (self.read, self.begin),
            "reading": (self.end_read,),
            "begun": (self.write,),
            "written": (self.commit,),
            "committed": (self.send,),
        }
        for i, process in enumerate(world.processes):
            if i == 0 or process != world.processes[i - 1]:
                for rule in (*rules[process.step], self.crash, self.close_another_descriptor):
                    yield from rule(world, process)
        if world.lock_file + 1 < self.lock_files and not any(process.flock for process in world.processes):
            yield Move("delete the lock file"), world._replace(lock_file=world.lock_file + 1)

    # -- transactions --------------------------------------------------------------------------------------------------

    def read(self, world: World, process: Process) -> Moves:
        entered = self.enter(world, process, self.reads_lock, "read")
        if entered is not None:
            after, inside = entered
            yield Move("read"), moved(after, process, inside._replace(step="reading"))

    def end_read(self, world: World, process: Process) -> Moves:
        yield Move("end read"), moved(world, process, left(process))

    def begin(self, world: World, process: Process) -> Moves:
        """Nothing else writes from here on; what is in the journal decides."""
        entered = self.enter(world, process, self.writes_lock, "write")
        if entered is not None:
            after, inside = entered
            may_send = self.may_send(after)
            yield Move("begin"), moved(after, process, inside._replace(step="begun") if may_send else left(inside))

    def may_send(self, world: World) -> bool:
        """Nobody has sent the order, by what is in the journal now."""
        return world.attempts == 0

    def write(self, world: World, process: Process) -> Moves:
        """The rollback journal is written first. Nobody reads meanwhile, by SQLite's own locks."""
        if not any(other.posix == "read" for other in world.processes):
            after = world._replace(rollback=world.attempts, attempts=1)
            yield Move("write"), moved(after, process, process._replace(step="written"))

    def commit(self, world: World, process: Process) -> Moves:
        """That deletes the rollback journal."""
        yield Move("commit"), moved(world._replace(rollback=None), process, left(process, "committed"))

    def send(self, world: World, process: Process) -> Moves:
        yield Move("send"), moved(world._replace(posts=world.posts + 1), process, process._replace(step="idle"))

    def enter(self, world: World, process: Process, flock: str, posix: str) -> tuple[World, Process] | None:
        """A transaction begins: with both locks, or not now. SQLite undoes what it takes for left behind."""
        others = list(world.processes)
        others.remove(process)
        process = self.look_at_lock_file(world, process)
        beside = [other.flock for other in others if other.lock_file == process.lock_file]
        if (flock == "exclusive" and any(beside)) or (flock == "shared" and "exclusive" in beside):
            return None
        is_writing = any(other.posix == "write" for other in others)
        if is_writing and (posix == "write" or world.rollback is not None):
            return None
        if world.rollback is not None:
            world = world._replace(attempts=world.rollback, rollback=None)
        return world, process._replace(flock=flock, posix=posix)

    def look_at_lock_file(self, world: World, process: Process) -> Process:
        """The file that is locked must be the one that others find."""
        return process._replace(lock_file=world.lock_file)

    # -- what happens --------------------------------------------------------------------------------------------------

    def crash(self, world: World, process: Process) -> Moves:
        """All locks are gone; a rollback journal stays."""
        if process.step != "idle":
            yield Move("crash"), moved(world, process, Process(lock_file=process.lock_file))

    def close_another_descriptor(self, world: World, process: Process) -> Moves:
        """Other code of the process has copied the file, or read it: that takes SQLite's own locks."""
        if process.posix:
            yield Move("close another descriptor"), moved(world, process, process._replace(posix=""))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def broken_in(self, world: World) -> str | None:
        if "L1" in self.invariants and world.posts > 1:
            return "L1"  # one order, one request
        is_committed = world.posts or any(process.step == "committed" for process in world.processes)
        if "L2" in self.invariants and is_committed and not world.attempts:
            return "L2"  # what was committed is in the journal
        return None

    def broken_by(self, before: World, move: Move, after: World) -> str | None:
        return None


def left(process: Process, step: str = "idle") -> Process:
    """The process outside of a transaction."""
    return process._replace(step=step, posix="", flock="")


def moved(world: World, process: Process, after: Process) -> World:
    """The world once this process has moved on."""
    processes = list(world.processes)
    processes[processes.index(process)] = after
    return world._replace(processes=tuple(sorted(processes)))


# -- designs with one rule broken --------------------------------------------------------------------------------------


class NoLockBeside(Design):
    """SQLite's own locks are enough."""

    dies_by = ("L1", "L2")

    writes_lock = reads_lock = ""


class ReadsTakeNoLock(Design):
    """Readers do no harm."""

    dies_by = ("L1", "L2")

    reads_lock = ""


class WritersShareTheLock(Design):
    dies_by = ("L1", "L2")

    writes_lock = "shared"


class ReleasedBeforeTheCommit(Design):
    """The lock is held while the file is looked at, not while it is written."""

    dies_by = ("L1", "L2")

    def write(self, world: World, process: Process) -> Moves:
        for move, after in super().write(world, process):
            written = process._replace(step="written")
            yield move, moved(after, written, written._replace(flock=""))


class LockOfTheProcess(Design):
    """The file beside it is locked as SQLite locks its own: copying the directory releases that lock too."""

    dies_by = ("L1", "L2")

    def close_another_descriptor(self, world: World, process: Process) -> Moves:
        if process.posix:
            yield Move("copy the directory"), moved(world, process, process._replace(posix="", flock=""))


class LockFileNotLookedAt(Design):
    """What was opened as the lock file once is locked for ever."""

    dies_by = ("L1", "L2")

    def start(self) -> World:
        """One process has it open; the other one comes later."""
        return World((*super().start().processes[1:], Process(lock_file=1)))

    def look_at_lock_file(self, world: World, process: Process) -> Process:
        return process


class NotLookedAtInTheTransaction(Design):
    """Who has seen that nobody sent the order may send it."""

    dies_by = ("L1",)

    def may_send(self, world: World) -> bool:
        return True


MUTANTS = tuple(Design.__subclasses__())
