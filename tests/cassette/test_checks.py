"""Checks of cassettes before they are committed, and of files beside them that belong to none."""

import hashlib
import json
from datetime import timedelta
from pathlib import Path

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
from vidgen_async.cassette import RecordedRequest
from vidgen_async.cassette.checks import (
    cassettes_below,
    check_cassette,
    is_cassette,
    orphans,
)
from vidgen_async.errors import CassetteNotFoundError


def problems(path: Path, **more):
    return [(one.kind.value, one.where) for one in check_cassette(path, now=RECORDED_AT, **more)]


@pytest.fixture
def cassette(tmp_path) -> Path:
    return save(tmp_path / "boat.json", boat())


def rewritten(path: Path, change) -> Path:
    """The cassette after a change of its JSON."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


# -- one cassette ----------------------------------------------------------------------------------------------------


def test_a_valid_cassette_has_no_problem(cassette):
    assert problems(cassette) == []


def test_a_missing_cassette_is_an_error(tmp_path):
    with pytest.raises(CassetteNotFoundError):
        check_cassette(tmp_path / "none.json", now=RECORDED_AT)


def test_a_damaged_cassette_is_invalid(cassette):
    cassette.write_text(cassette.read_text()[:-40])
    assert problems(cassette) == [("invalid", "")]


def test_the_pointer_to_an_invalid_field_is_reported_once(cassette):
    rewritten(cassette, lambda data: data["interactions"][2].update(t="soon"))
    (problem,) = check_cassette(cassette, now=RECORDED_AT)
    assert (problem.kind, problem.where) == ("invalid", "/interactions/2/t")
    assert str(cassette) not in problem.message
    assert problem.where not in problem.message


def test_a_newer_version_has_its_own_kind_of_problem(cassette):
    rewritten(cassette, lambda data: data.update(version=2))
    assert problems(cassette) == [("version", "/version")]


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (look(1, body={"text": f"your token is {TOKEN}"}), "/interactions/0/response/body/text"),
        (look(1, body={"json": [{"api_key": "abcdefghij"}]}), "/interactions/0/response/body/json/0/api_key"),
        (look(1, headers=(("etag", TOKEN),)), "/interactions/0/response/headers/0"),
        (look(1, request=RecordedRequest("GET", "https://h.test/v.mp4?sig=abcdefghij")), "/interactions/0/request/url"),
    ],
    ids=["text", "json", "header", "url"],
)
def test_a_secret_is_reported_by_pointer_and_kind_and_never_by_value(tmp_path, made, where):
    path = save(tmp_path / "leak.json", document(made))
    (problem,) = check_cassette(path, now=RECORDED_AT)
    assert (problem.kind, problem.where) == ("secret", where)
    assert TOKEN[:12] not in str(problem)
    assert "abcdef" not in str(problem)


def test_a_missing_blob_is_a_problem(cassette):
    (cassette.parent / "blobs" / BLOB).unlink()
    assert problems(cassette) == [("blob-missing", "/interactions/4/response/body")]


@pytest.mark.parametrize("data", [VIDEO[:-1], VIDEO[:-1] + b"\1", b""], ids=["cut", "changed", "empty"])
def test_a_blob_that_differs_from_what_was_recorded_is_damaged(cassette, data):
    (cassette.parent / "blobs" / BLOB).write_bytes(data)
    assert problems(cassette) == [("blob-damaged", "/interactions/4/response/body")]


@pytest.mark.parametrize("changes", [{"bytes": 7}, {"sha256": "0" * 64}, {"stored": "ends", "ends": [1, 2]}])
def test_a_blob_that_does_not_match_the_facts_on_its_cassette_is_damaged(tmp_path, changes):
    path = save(tmp_path / "boat.json", document(download(1, body=in_blob(**changes))))
    assert problems(path) == [("blob-damaged", "/interactions/0/response/body")]


@pytest.mark.parametrize("changes", [{"stored": "ends"}, {"stored": "ends", "ends": 3}, {"stored": None}])
def test_a_blob_reference_without_what_is_stored_is_invalid(tmp_path, changes):
    path = save(tmp_path / "boat.json", document(download(1, body=in_blob(**changes))))
    assert problems(path) == [("invalid", "/interactions/0/response/body/ends")]


def test_a_blob_that_cannot_be_read_is_damaged(cassette):
    blob = cassette.parent / "blobs" / BLOB
    blob.unlink()
    blob.mkdir()
    assert problems(cassette) == [("blob-damaged", "/interactions/4/response/body")]


def test_a_blob_that_is_a_git_lfs_pointer_is_reported_as_one(cassette):
    (cassette.parent / "blobs" / BLOB).write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    )
    [problem] = check_cassette(cassette, now=RECORDED_AT)
    assert (problem.kind.value, "git lfs pull" in problem.message) == ("blob-damaged", True)


def test_a_blob_of_both_ends_is_verified_by_its_own_digest(tmp_path):
    kept = b"begin" + b"end"
    name = f"sha256-{hashlib.sha256(kept).hexdigest()}.mp4"
    body = {"blob": name, "bytes": 10**9, "sha256": "0" * 64, "stored": "ends", "ends": [5, 3]}
    path = save(tmp_path / "long.json", document(download(1, body=body)), blobs={name: kept})
    assert problems(path) == []
    (tmp_path / "blobs" / name).write_bytes(b"begin" + b"End")
    assert problems(path) == [("blob-damaged", "/interactions/0/response/body")]


@pytest.mark.parametrize("name", ["../boat.json", "/etc/hostname", "sha256-0.mp4", 5])
def test_a_file_whose_name_is_not_that_of_a_blob_is_never_opened(tmp_path, name):
    path = save(tmp_path / "odd.json", document(download(1, body=in_blob(blob=name))))
    assert problems(path) == [("invalid", "/interactions/0/response/body/blob")]


def test_a_cassette_older_than_max_age_is_too_old(tmp_path):
    path = save(tmp_path / "old.json", document(look(1), recorded_at=RECORDED_AT - timedelta(days=90)))
    assert problems(path, max_age=timedelta(days=90)) == []
    assert problems(path, max_age=timedelta(days=89)) == [("too-old", "/meta/recorded_at")]
    assert problems(path) == []


def test_all_problems_of_a_cassette_are_reported(tmp_path):
    made = changed(boat(), 3, body={"text": TOKEN})
    path = save(tmp_path / "bad.json", made, blobs={})
    assert [kind for kind, _ in problems(path, max_age=timedelta(0) - timedelta(1))] == [
        "secret",
        "blob-missing",
        "too-old",
    ]


# -- finding ---------------------------------------------------------------------------------------------------------


def test_a_file_with_the_format_of_cassettes_is_a_cassette(tmp_path, cassette):
    other, turned = tmp_path / "package.json", tmp_path / "turned.json"
    other.write_text('{"name": "vidgen-cassette"}')
    data = json.loads(cassette.read_text())
    turned.write_text(json.dumps(dict(reversed(data.items()))))
    assert is_cassette(cassette)
    assert is_cassette(turned)
    assert not is_cassette(other)


def test_a_damaged_cassette_is_found_and_never_skipped(cassette):
    cassette.write_text(cassette.read_text().replace('"n": 3', '<<<<<<< HEAD\n"n": 3'))
    assert is_cassette(cassette)
    assert cassettes_below(cassette.parent) == [cassette]


def test_cassettes_are_found_at_any_depth_in_order_and_other_files_are_skipped(tmp_path):
    places = (*(f"{n}.json" for n in range(10, 30)), "a/z.json", "a/b/c.json")
    made = [save(tmp_path / place, document(look(1))) for place in reversed(places)][::-1]
    for name in ("other.json", "broken.json", "list.json", "cassette.txt"):
        (tmp_path / name).write_text({"broken.json": "{", "list.json": "[]"}.get(name, '{"format": "else"}'))
    (tmp_path / "boat.json.bak").write_bytes(made[0].read_bytes())
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\0")
    (tmp_path / "folder.json").mkdir()
    assert cassettes_below(tmp_path) == made


@pytest.mark.parametrize("folder", [".venv", ".git", "node_modules", "site-packages"])
def test_hidden_and_installed_directories_are_searched_only_if_they_are_named(tmp_path, folder):
    path = save(tmp_path / folder / "cassettes" / "boat.json", document(look(1)))
    assert cassettes_below(tmp_path) == []
    assert cassettes_below(tmp_path / folder) == [path]


# -- what belongs to none --------------------------------------------------------------------------------------------


def left(*folders: Path):
    return [(one.kind.value, one.path) for one in orphans(folders)]


def test_a_blob_that_a_cassette_of_its_directory_references_is_no_orphan(cassette):
    assert left(cassette.parent) == []


def test_a_blob_that_no_cassette_references_is_an_orphan(cassette):
    orphan = cassette.parent / "blobs" / "sha256-0.bin"
    orphan.write_bytes(b"0")
    (cassette.parent / "blobs" / "README").write_text("not ours")
    assert left(cassette.parent) == [("orphan", orphan)]


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
    assert left(tmp_path) == [("unfinished", part), ("unfinished", old)]


def test_a_directory_is_searched_once(tmp_path):
    part = save_part(tmp_path / "boat.json.part", document(create()))
    assert left(tmp_path, tmp_path) == [("unfinished", part)]
