"""A file is replaced atomically, or stays as it was."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vidgen_async import atomic_file
from vidgen_async.atomic_file import AtomicFile

try:
    import fcntl
except ImportError:
    fcntl = None

posix_locks = pytest.mark.skipif(fcntl is None, reason="the locks are those of POSIX")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "one.json"
    path.write_bytes(b"old")
    return path


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_the_old_content_stays_until_the_commit(target):
    with AtomicFile(target) as new:
        new.write(b"new")
        assert target.read_bytes() == b"old"
        new.commit()
        assert target.read_bytes() == b"new"
    assert names(target) == ["one.json"]


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_without_overwrite_a_target_that_was_created_meanwhile_stays(has_hard_links, tmp_path, monkeypatch):
    def refuse(self, target):
        raise PermissionError(errno.EPERM, "no hard links")

    if not has_hard_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    target = tmp_path / "one.json"
    for content in (b"first", b"second"):
        with AtomicFile(target) as new:
            new.write(content)
            if content == b"first":
                new.commit(overwrite=False)
            else:
                with pytest.raises(FileExistsError):
                    new.commit(overwrite=False)
    assert target.read_bytes() == b"first"
    assert names(target) == ["one.json"]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_what_was_not_committed_is_removed(target, error):
    try:
        with AtomicFile(target) as new:
            new.write(b"half")
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    assert target.read_bytes() == b"old"
    assert names(target) == ["one.json"]


def test_a_replacement_that_fails_leaves_the_old_content(target, monkeypatch):
    def refuse(self, target):
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "replace", refuse)
    with AtomicFile(target) as new:
        new.write(b"new")
        with pytest.raises(PermissionError):
            new.commit()
    assert target.read_bytes() == b"old"
    assert names(target) == ["one.json"]


def test_the_content_is_on_disk_before_the_name_and_the_name_before_the_commit_returns(target, monkeypatch):
    steps = []
    monkeypatch.setattr(atomic_file.os, "fsync", lambda file: steps.append(target.read_bytes()))
    for is_durable in (False, True):
        with AtomicFile(target, is_durable=is_durable) as new:
            new.write(b"new")
            new.commit()
        target.write_bytes(b"new" if is_durable else b"old")
    assert steps == [b"old", b"new"]


def test_short_writes_are_continued(target, monkeypatch):
    with AtomicFile(target) as new:
        write = new.file.write
        monkeypatch.setattr(new, "file", Slow(new.file, write))
        new.write(b"0123456789")
        new.commit()
    assert (target.read_bytes(), new.length) == (b"0123456789", 10)


class Slow:
    """A file that accepts three bytes at a time."""

    def __init__(self, file, write) -> None:
        self._file, self._write = file, write

    def write(self, data) -> int:
        return self._write(data[:3])

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
def test_the_new_file_has_the_mode_that_was_asked_for(target):
    with AtomicFile(target, mode=0o600) as new:
        new.commit()
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_long_name_does_not_make_the_temporary_one_too_long(tmp_path):
    target = tmp_path / ("船" * 80 + ".json")
    with AtomicFile(target) as new:
        new.commit()
    assert names(target) == [target.name]


# -- what killed processes leave -------------------------------------------------------------------------------------

LEAVE = """
import sys
from pathlib import Path
from vidgen_async.atomic_file import AtomicFile

file = AtomicFile(Path(sys.argv[1]))
file.write(b"half")
print(file.path.name, flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(target: Path) -> Iterator[subprocess.Popen]:
    """Another process that writes a replacement of the target, and has announced the name of its file."""
    command = [sys.executable, "-c", LEAVE, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        try:
            assert process.stdout.readline().strip() in names(target)
            yield process
        finally:
            process.kill()


@posix_locks
def test_the_file_of_a_killed_process_is_removed_by_the_next_one(target):
    for _ in range(2):
        with writer(target) as process:
            process.kill()
            process.wait()
            assert len(names(target)) == 2
    with AtomicFile(target) as new:
        assert new.length == 0
        new.write(b"new")
        assert len(names(target)) == 2
        new.commit()
    assert target.read_bytes() == b"new"
    assert names(target) == ["one.json"]


@posix_locks
def test_the_file_of_a_living_process_stays(target):
    with writer(target) as process:
        [theirs] = [name for name in names(target) if name != "one.json"]
        with AtomicFile(target) as new:
            assert new.path.name != theirs
            new.write(b"new")
            new.commit()
        assert names(target) == sorted(["one.json", theirs])
        process.kill()
        process.wait()
        with AtomicFile(target):
            pass
    assert names(target) == ["one.json"]


def test_files_of_others_with_the_name_of_a_temporary_one_are_not_touched(target, tmp_path):
    with AtomicFile(target) as new:
        name = new.path.name
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    (tmp_path / name).symlink_to(other)
    with AtomicFile(target) as new:
        new.write(b"new")
        new.commit()
    assert (target.read_bytes(), other.read_bytes()) == (b"new", b"theirs")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with AtomicFile(target) as new:
        new.commit()
    assert (tmp_path / name).is_dir()


@posix_locks
def test_a_file_that_another_process_takes_for_an_abandoned_one_is_created_again(target, monkeypatch):
    lock, taken = fcntl.flock, []

    def take(descriptor, how):
        if not taken:
            [name] = [name for name in names(target) if name != "one.json"]
            taken.append(name)
            (target.parent / name).unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", take)
    with AtomicFile(target) as new:
        assert new.path.exists()
        new.write(b"new")
        new.commit()
    assert (target.read_bytes(), len(taken)) == (b"new", 1)


@pytest.mark.parametrize("module", [None, fcntl])
def test_files_are_replaced_also_without_locks(module, target, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    if module is not None:
        monkeypatch.setattr(module, "flock", refuse)
    monkeypatch.setattr(atomic_file, "fcntl", module)
    with AtomicFile(target) as one, AtomicFile(target) as two:
        assert one.path != two.path
        one.write(b"one")
        one.commit()
        two.write(b"two")
        two.commit()
    assert target.read_bytes() == b"two"
    assert names(target) == ["one.json"]


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o777, 0o444])
def test_a_replaced_file_can_keep_its_mode(mode, target):
    target.chmod(mode)
    with AtomicFile(target, keep_mode=True) as new:
        assert new.path.stat().st_mode & 0o777 == mode | 0o600  # the next one must be able to open and lock it
        new.commit()
    assert target.stat().st_mode & 0o7777 == mode
    target.unlink()
    with AtomicFile(target, keep_mode=True) as new:
        new.commit()
    assert target.stat().st_mode & 0o111 == 0
