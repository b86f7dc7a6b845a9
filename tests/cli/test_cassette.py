"""``vidgen cassette check``: whether cassettes may be committed."""

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cassette.sample_cassettes import (
    BLOB,
    TOKEN,
    boat,
    create,
    document,
    look,
    save,
    save_part,
)

from .conftest import text_of


@pytest.fixture
def cassettes(tmp_path) -> Path:
    """A directory with two cassettes."""
    folder = tmp_path / "cassettes"
    save(folder / "boat.json", boat())
    save(folder / "later" / "look.json", document(look(1), recorded_at=datetime.now(UTC)), blobs={})
    return folder


def contents(folder: Path) -> dict[Path, bytes | None]:
    """All files and directories below a directory."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def documents(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def error_message(err: str) -> str:
    """The message of the only reported error."""
    (line,) = err.splitlines()
    error = json.loads(line)["error"]
    assert error["exit_code"] == 2
    return error["message"]


def test_the_check_needs_neither_key_nor_network_and_writes_no_file(vidgen_cassette, cassettes, monkeypatch):
    def refuse(*_):
        raise AssertionError("a socket was created")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    before = contents(cassettes.parent)
    for arguments, expected in (
        (("cassettes", "--orphans"), 0),
        (("cassettes", "--max-age", "0min"), 1),
        (("nowhere",), 2),
    ):
        code, out, err = vidgen_cassette("check", *arguments)
        assert code == expected, arguments
        assert out or err, arguments
        assert contents(cassettes.parent) == before, arguments


def test_a_path_without_a_cassette_is_an_error(vidgen_cassette, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "package.json").write_text("{}")
    for path, text, words in (
        ("empty", None, "there is no cassette in the directory empty"),
        ("one.json", None, "there is no cassette at one.json"),
        ("one.json", "{", "one.json is not a cassette, or a damaged one: it is not JSON"),
        ("one.json", '{"format": "else"}', "this is not a cassette"),
    ):
        if text is not None:
            (tmp_path / path).write_text(text)
        code, out, err = vidgen_cassette("check", path, "--json")
        assert (code, out) == (2, ""), words
        assert words in error_message(err)


def test_clean_cassettes_pass_and_are_counted(vidgen_cassette, cassettes):
    assert vidgen_cassette("check", "cassettes") == (0, "2 cassettes checked, no problems found\n", "")
    assert vidgen_cassette("check", "cassettes/boat.json") == (0, "1 cassette checked, no problems found\n", "")
    assert vidgen_cassette("check", "cassettes", "--json") == (0, "", "")
    twice = ("check", "cassettes", "cassettes/boat.json", "./cassettes")
    assert vidgen_cassette(*twice)[1] == "2 cassettes checked, no problems found\n"
    assert vidgen_cassette("check", "nowhere") == (2, "", "error: there is no cassette at nowhere.\n")


def test_problems_are_one_per_line_and_exit_code_1(vidgen_cassette, cassettes):
    (cassettes / "blobs" / BLOB).unlink()
    path = cassettes / "later" / "look.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    code, out, err = vidgen_cassette("check", "cassettes")
    assert (code, err) == (1, "")
    head, *lines = (line.split() for line in out.splitlines())
    assert head == ["file", "problem", "where", "what"]
    assert [line[:3] for line in lines] == [
        ["cassettes/boat.json", "blob-missing", "/interactions/4/response/body"],
        ["cassettes/later/look.json", "version", "/version"],
    ]


def test_check_as_json_prints_one_object_per_line(vidgen_cassette, cassettes):
    path = cassettes / "boat.json"
    path.write_text(path.read_text()[:-20])
    code, out, err = vidgen_cassette("check", "cassettes", "--json")
    (one,) = documents(out)
    assert (code, err) == (1, "")
    assert (one["path"], one["problem"], one["where"]) == ("cassettes/boat.json", "invalid", "")
    assert "it is not JSON" in one["message"]


def test_a_secret_is_reported_and_never_shown(vidgen_cassette, tmp_path):
    save(tmp_path / "leak.json", document(look(1, body={"text": f"your token is {TOKEN}"})))
    for more in ((), ("--json",), ("--debug",)):
        code, out, err = vidgen_cassette("check", "leak.json", *more)
        assert (code, err) == (1, "")
        assert "/interactions/0/response/body/text" in out
        assert "secret" in out
        assert TOKEN[:10] not in out


def test_an_error_at_one_path_does_not_hide_problems_of_another(vidgen_cassette, cassettes):
    (cassettes / "blobs" / BLOB).unlink()
    code, out, err = vidgen_cassette("check", "no/where.json", "cassettes", "--orphans", "--json")
    assert code == 2
    assert [one["problem"] for one in documents(out)] == ["blob-missing"]
    assert error_message(err) == "there is no cassette at no/where.json."


def test_orphans_are_reported_only_on_request(vidgen_cassette, cassettes):
    (cassettes / "blobs" / "sha256-0.bin").write_bytes(b"0")
    save_part(cassettes / "later" / "sail.json.part", document(create()))
    assert vidgen_cassette("check", "cassettes")[0] == 0
    code, out, _ = vidgen_cassette("check", "cassettes", "--orphans", "--json")
    assert code == 1
    assert [(one["problem"], one["path"]) for one in documents(out)] == [
        ("orphan", "cassettes/blobs/sha256-0.bin"),
        ("unfinished", "cassettes/later/sail.json.part"),
    ]


def test_for_a_single_cassette_only_its_own_directory_is_searched_for_orphans(vidgen_cassette, cassettes):
    save(cassettes / "sail.json", document(look(1)), blobs={})
    (cassettes / "later" / "blobs").mkdir()
    (cassettes / "later" / "blobs" / "sha256-0.bin").write_bytes(b"0")
    assert vidgen_cassette("check", "cassettes/sail.json", "--orphans")[0] == 0
    (cassettes / "blobs" / "sha256-0.bin").write_bytes(b"0")
    (one,) = documents(vidgen_cassette("check", "cassettes/sail.json", "--orphans", "--json")[1])
    assert one["path"] == "cassettes/blobs/sha256-0.bin"


def test_a_cassette_older_than_max_age_is_a_problem(vidgen_cassette, tmp_path):
    recorded_at = datetime.now(UTC) - timedelta(hours=2)
    save(tmp_path / "one.json", document(look(1), recorded_at=recorded_at))
    codes = {"119min": 1, "121min": 0, "1h": 1, "3h": 0, "1d": 0, "8w": 0}
    assert {age: vidgen_cassette("check", "one.json", "--max-age", age)[0] for age in codes} == codes


def test_an_unreadable_file_is_an_error_that_names_it(vidgen_cassette, cassettes, monkeypatch):
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    code, out, err = vidgen_cassette("check", "cassettes", "--json")
    assert (code, out) == (2, "")
    assert error_message(err) == "cassettes/boat.json: Permission denied."


def test_a_bug_is_an_error_and_never_a_problem_of_the_cassette(vidgen_cassette, cassettes, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("vidgen_async.cassette.check", fail)
    code, out, err = vidgen_cassette("check", "cassettes")
    assert (code, out) == (2, "")
    assert "unexpected ZeroDivisionError: oh" in err
    assert "Traceback" not in err
    assert "Traceback" in vidgen_cassette("check", "cassettes", "--debug")[2]


def test_the_output_fits_the_terminal(on_a_terminal, cassettes):
    for width in (80, 120):
        ended, shown = on_a_terminal("cassette", "check", "cassettes", "--max-age", "0min", width=width)
        lines = text_of(shown)
        assert ended == 1
        assert max(map(len, lines)) <= width
        assert "too-old" in "\n".join(lines)
