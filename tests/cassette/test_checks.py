"""Checks of cassettes before they are committed, and of files beside them that belong to none."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cassette.sample_cassettes import (
    BLOB,
    RECORDED_AT,
    TOKEN,
    VIDEO,
    boat,
    changed,
    create,
    document,
    download,
    in_blob,
    look,
    save,
    save_part,
)
from vidgen_async.cassette import Interaction
from vidgen_async.cassette.checks import check, check_cassette, orphans_in
from vidgen_async.errors import CassetteNotFoundError


@pytest.fixture
def cassette(tmp_path) -> Path:
    return save(tmp_path / "boat.json", boat())


def blob_of(path: Path) -> Path:
    return path.parent / "blobs" / BLOB


def rewrite(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Change the JSON of a cassette."""

    def write(path: Path) -> None:
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return write


def store(*interactions: Interaction, **meta: Any) -> Callable[[Path], None]:
    return lambda path: save(path, document(*interactions, **meta)) and None


def in_place_of_the_blob(path: Path) -> None:
    blob_of(path).unlink()
    blob_of(path).mkdir()


#: What is done to the cassette, and its problems.
PROBLEMS: dict[str, tuple[Callable[[Path], object], list[tuple[str, str]]]] = {
    "nothing": (lambda path: None, []),
    "cut": (lambda path: path.write_text(path.read_text()[:-40]), [("invalid", "")]),
    "an invalid field": (rewrite(lambda data: data["interactions"][2].update(t="soon")),
                         [("invalid", "/interactions/2/t")]),
    "a newer version": (rewrite(lambda data: data.update(version=2)), [("version", "/version")]),
    "a secret": (store(look(1, body={"json": [{"api_key": "abcdefghij"}]})),
                 [("secret", "/interactions/0/response/body/json/0/api_key")]),
    "a blob that is gone": (lambda path: blob_of(path).unlink(), [("blob-missing", "/interactions/4/response/body")]),
    "a blob that differs": (lambda path: blob_of(path).write_bytes(VIDEO[:-1] + b"\1"),
                            [("blob-damaged", "/interactions/4/response/body")]),
    "a blob that is a directory": (in_place_of_the_blob, [("blob-damaged", "/interactions/4/response/body")]),
    "another length": (store(download(1, body=in_blob(bytes=7))), [("blob-damaged", "/interactions/0/response/body")]),
    "another digest": (store(download(1, body=in_blob(sha256="0" * 64))),
                       [("blob-damaged", "/interactions/0/response/body")]),
    "other ends": (store(download(1, body=in_blob(stored="ends", ends=[1, 2]))),
                   [("blob-damaged", "/interactions/0/response/body")]),
    "a path in place of a blob": (store(download(1, body=in_blob(blob="../boat.json"))),
                                  [("invalid", "/interactions/0/response/body/blob")]),
    "an old one": (store(look(1), recorded_at=RECORDED_AT - timedelta(days=91)), [("too-old", "/meta/recorded_at")]),
    "one of 90 days": (store(look(1), recorded_at=RECORDED_AT - timedelta(days=90)), []),
    "all of them": (
        lambda path: (save(path, changed(boat(recorded_at=RECORDED_AT - timedelta(days=91)), 3, body={"text": TOKEN})),
                      blob_of(path).unlink()),
        [("secret", "/interactions/2/response/body/text"), ("blob-missing", "/interactions/4/response/body"),
         ("too-old", "/meta/recorded_at")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), PROBLEMS.values(), ids=PROBLEMS)
def test_each_problem_is_reported_once_by_kind_and_pointer_and_never_by_value(cassette, change, expected):
    change(cassette)
    found = check_cassette(cassette, now=RECORDED_AT, max_age=timedelta(days=90))
    assert [(one.kind, one.where) for one in found] == expected
    for one in found:
        assert one.path == cassette
        assert not any(text in one.message for text in ("/interactions/", "abcdef", TOKEN[:12]))


def test_without_a_limit_no_cassette_is_too_old_and_a_missing_one_is_an_error(tmp_path):
    path = save(tmp_path / "old.json", document(look(1), recorded_at=RECORDED_AT - timedelta(days=9000)))
    assert check_cassette(path, now=RECORDED_AT) == []
    with pytest.raises(CassetteNotFoundError):
        check_cassette(tmp_path / "none.json", now=RECORDED_AT)


# -- finding ---------------------------------------------------------------------------------------------------------


def test_cassettes_are_found_at_any_depth_in_order_also_damaged_ones_and_other_files_are_skipped(tmp_path):
    places = (*(f"{n}.json" for n in range(10, 14)), "a/z.json", "a/b/c.json")
    made = [save(tmp_path / place, document(look(1))) for place in reversed(places)][::-1]
    made[0].write_text(made[0].read_text().replace('"n": 1', '<<<<<<< HEAD\n"n": 1'))
    made[1].write_text(json.dumps(dict(reversed(json.loads(made[1].read_text()).items()))))
    others = {"other": '{"format": "else"}', "package": '{"name": "vidgen-cassette"}', "broken": "{", "list": "[]"}
    for name, text in others.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "boat.json.bak").write_bytes(made[2].read_bytes())
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\0")
    (tmp_path / "folder.json").mkdir()
    assert list(check([tmp_path]).cassettes) == made


@pytest.mark.parametrize("folder", [".git", "node_modules"])
def test_hidden_and_installed_directories_are_searched_only_if_they_are_named(tmp_path, folder):
    path = save(tmp_path / folder / "cassettes" / "boat.json", document(look(1)))
    assert check([tmp_path]).cassettes == ()
    assert check([tmp_path / folder]).cassettes == (path,)


# -- what belongs to none --------------------------------------------------------------------------------------------


def left(*folders: Path):
    return [(one.kind, one.path) for folder in dict.fromkeys(folders) for one in orphans_in(folder)]


def test_a_blob_that_no_cassette_of_its_directory_references_is_an_orphan(cassette):
    orphan = cassette.parent / "blobs" / "sha256-0.bin"
    orphan.write_bytes(b"0")
    (cassette.parent / "blobs" / "README").write_text("not ours")
    (without_blobs := cassette.parent / "none").mkdir()
    assert left(without_blobs, cassette.parent) == [("orphan", orphan)]


def test_a_reference_from_another_directory_does_not_count(cassette):
    other = save(cassette.parent / "other" / "boat.json", document(look(1)))
    assert left(cassette.parent, other.parent) == [("orphan", other.parent / "blobs" / BLOB)]


def test_the_blobs_of_a_damaged_or_newer_cassette_are_no_orphans(cassette):
    text = cassette.read_text().replace('"version": 1', '"version": 9')
    cassette.write_text(text[:-10])
    assert left(cassette.parent) == []


def test_an_unfinished_recording_is_reported_and_its_blobs_are_no_orphans(tmp_path):
    part = save_part(tmp_path / "boat.json.part", document(create(), download(2)))
    old = save_part(tmp_path / "boat.json.part.old", document(create()))
    save(tmp_path / "other.json", document(look(1)))
    assert left(tmp_path, tmp_path) == [("unfinished", part), ("unfinished", old)]
