"""A file is replaced atomically, or stays as it was."""

import os
from pathlib import Path

import pytest

from vidgen_async import atomic_file
from vidgen_async.atomic_file import AtomicFile


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
