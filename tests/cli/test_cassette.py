"""``vidgen cassette``: what cassettes contain, and whether they may be committed."""

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cassette.sample_cassettes import (
    BASE,
    BLOB,
    LINK,
    PROMPT,
    VIDEO,
    boat,
    broken,
    create,
    document,
    download,
    look,
    save,
    save_part,
)
from vidgen_async.cassette import Failure, RecordedRequest

from .conftest import text_of

TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJub2JvZHkifQ.c2lnbmF0dXJl"


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


READING_COMMANDS = [
    ("ls",),
    ("ls", "cassettes", "--json"),
    ("show", "cassettes/boat.json"),
    ("show", "cassettes/boat.json", "--n", "1", "--with-bodies"),
    ("check", "cassettes", "--orphans", "--max-age", "90d"),
    ("check", "nowhere"),
]


def test_reading_commands_need_neither_key_nor_network_and_write_no_file(vidgen_cassette, cassettes, monkeypatch):
    def refuse(*_):
        raise AssertionError("a socket was created")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    before = contents(cassettes.parent)
    for arguments in READING_COMMANDS:
        code, out, err = vidgen_cassette(*arguments)
        assert code in (0, 1, 2), arguments
        assert out or err, arguments
        assert contents(cassettes.parent) == before, arguments


# -- ls --------------------------------------------------------------------------------------------------------------


def test_cassettes_are_listed_with_their_counts(vidgen_cassette, cassettes):
    code, out, err = vidgen_cassette("ls", "cassettes/boat.json")
    assert (code, err) == (0, "")
    head, line = out.splitlines()
    assert head.split() == ["cassette", "recorded", "(UTC)", "interactions", "creates", "failures", "size"]
    assert line.split()[:6] == ["cassettes/boat.json", "2026-11-27", "21:35", "5", "1", "1"]


def test_the_size_includes_the_blobs(vidgen_cassette, cassettes):
    (one,) = documents(vidgen_cassette("ls", "cassettes/boat.json", "--json")[1])
    assert one["bytes"] == (cassettes / "boat.json").stat().st_size + len(VIDEO)


def test_a_shared_blob_is_counted_once_and_a_missing_one_not_at_all(vidgen_cassette, tmp_path):
    save(tmp_path / "two.json", document(download(1), download(2)))
    save(tmp_path / "none" / "none.json", document(download(1)), blobs={})
    two, none = documents(vidgen_cassette("ls", "two.json", "none", "--json")[1])
    assert two["bytes"] == (tmp_path / "two.json").stat().st_size + len(VIDEO)
    assert none["bytes"] == (tmp_path / "none" / "none.json").stat().st_size


def test_a_truncated_response_counts_as_a_failure_and_an_error_status_does_not(vidgen_cassette, tmp_path):
    cut = Failure("BodyError", "answered", "body")
    save(tmp_path / "one.json", document(look(1, status=503), look(2, failure=cut), broken(3)))
    (one,) = documents(vidgen_cassette("ls", "one.json", "--json")[1])
    assert (one["interactions"], one["failures"]) == (3, 2)


def test_ls_as_json_prints_one_object_per_line(vidgen_cassette, cassettes):
    first, second = documents(vidgen_cassette("ls", "cassettes", "--json")[1])
    del first["bytes"]
    assert first == {
        "path": "cassettes/boat.json",
        "recorded_at": "2026-11-27T21:35:24+00:00",
        "recorder": "vidgen_async aiohttp/3.14.5",
        "base_url": BASE,
        "interactions": 5,
        "creates": 1,
        "failures": 1,
    }
    assert (second["path"], second["creates"], second["failures"]) == ("cassettes/later/look.json", 0, 0)


def test_without_a_path_the_cassettes_of_the_project_are_listed_and_other_json_files_skipped(
    vidgen_cassette, cassettes, tmp_path
):
    save(tmp_path / "own.json", document(look(1)), blobs={})
    save(tmp_path / "elsewhere" / "other.json", document(look(1)), blobs={})
    (tmp_path / "package.json").write_text("{}")
    (cassettes / "broken.json").write_text("{")
    code, out, err = vidgen_cassette("ls")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "own.json",
        "cassettes/boat.json",
        "cassettes/later/look.json",
    ]


def test_without_a_path_and_without_cassettes_ls_succeeds(vidgen_cassette):
    code, out, err = vidgen_cassette("ls")
    assert (code, err) == (0, "")
    assert out == "there is no cassette in this directory or in directories named cassettes\n"
    assert vidgen_cassette("ls", "--json") == (0, "", "")


def test_a_cassette_named_twice_is_listed_once(vidgen_cassette, cassettes):
    assert len(documents(vidgen_cassette("ls", "cassettes", "cassettes/boat.json", "./cassettes", "--json")[1])) == 2


def test_a_given_directory_without_cassettes_is_an_error(vidgen_cassette, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "package.json").write_text("{}")
    for command in ("ls", "check"):
        code, out, err = vidgen_cassette(command, "empty", "--json")
        assert (code, out) == (2, "")
        assert error_message(err) == "there is no cassette in the directory empty."


def test_errors_alone_print_nothing_else(vidgen_cassette):
    for command in ("ls", "check"):
        assert vidgen_cassette(command, "nowhere") == (2, "", "error: there is no cassette at nowhere.\n")


def test_a_given_file_that_is_not_a_cassette_is_an_error(vidgen_cassette, cassettes, tmp_path):
    for text, words in (
        (None, "there is no cassette at one.json"),
        ("{", "one.json is not a cassette, or a damaged one: it is not JSON"),
        ('{"format": "else"}', "this is not a cassette"),
    ):
        if text is not None:
            (tmp_path / "one.json").write_text(text)
        for command in (("ls",), ("show",), ("check",)):
            code, out, err = vidgen_cassette(*command, "one.json", "--json")
            assert (code, out) == (2, ""), command
            assert words in error_message(err), command


def test_a_newer_format_version_is_an_error_that_advises_to_upgrade(vidgen_cassette, cassettes):
    path = cassettes / "boat.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    for command in (("ls",), ("show",)):
        code, out, err = vidgen_cassette(*command, "cassettes/boat.json", "--json")
        assert (code, out) == (2, ""), command
        assert "has version 2; this release reads up to version 1. Upgrade vidgen-async" in error_message(err)


def test_a_damaged_cassette_is_an_error_and_the_others_are_still_listed(vidgen_cassette, cassettes):
    path = cassettes / "boat.json"
    path.write_text(path.read_text()[:-20])
    code, out, err = vidgen_cassette("ls", "nowhere.json", "cassettes")
    assert code == 2
    assert [line.split()[0] for line in out.splitlines()] == ["cassette", "cassettes/later/look.json"]
    assert [line.split(":")[0] for line in err.splitlines()] == ["error", "error"]
    assert "there is no cassette at nowhere.json" in err
    assert "cassettes/boat.json is not a cassette, or a damaged one" in err


# -- show ------------------------------------------------------------------------------------------------------------


def test_the_interactions_are_a_table_with_outcomes_and_times(vidgen_cassette, cassettes):
    code, out, err = vidgen_cassette("show", "cassettes/boat.json")
    assert (code, err) == (0, "")
    head, *lines = ([part for part in line.split("  ") if part] for line in out.splitlines())
    assert [part.strip() for part in head] == ["n", "op", "method", "path", "outcome", "at"]
    look_at = "/openapi/v1/videos/task_1"
    assert [[part.strip() for part in line] for line in lines] == [
        ["1", "videos.create", "POST", "/openapi/v1/videos", "201", "0.0 s"],
        ["2", "videos.get", "GET", look_at, "ConnectionLostError (maybe_sent, wait)", "2 min 00 s"],
        ["3", "videos.get", "GET", look_at, "200", "3 min 00 s"],
        ["4", "videos.get", "GET", look_at, "200", "4 min 00 s"],
        ["5", "videos.download", "GET", LINK, "200", "5 min 00 s"],
    ]


def test_a_truncated_response_shows_its_status_and_its_failure(vidgen_cassette, tmp_path):
    failure = Failure("BodyError", "answered", "body", "the body broke off", 1500)
    save(tmp_path / "one.json", document(download(1, failure=failure)))
    assert "200, then BodyError (answered, body)" in vidgen_cassette("show", "one.json")[1]
    whole = vidgen_cassette("show", "one.json", "--n", "1")[1]
    assert "failure:         BodyError (answered, body), after 1.5 kB of the body: the body broke off\n" in whole


def test_one_interaction_is_shown_with_its_headers_and_its_indented_bodies(vidgen_cassette, cassettes):
    code, out, err = vidgen_cassette("show", "cassettes/boat.json", "--n", "1", "--with-bodies")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "interaction:     1",
        "operation:       videos.create",
        "started:         2026-11-27 21:35:24 UTC, 0.0 s into the recording",
        "response after:  0.2 s",
        "ended after:     0.5 s",
        f"request:         POST {BASE}/videos",
        "request header:  content-type: application/json",
        "request body:    JSON, 77 bytes",
        "status:          201",
        "response header: content-type: application/json",
        "response header: retry-after: 5",
        "response body:   JSON, 29 bytes",
        "request body:",
        "  {",
        '    "model": "gen-2.0",',
        f'    "prompt": "{PROMPT}",',
        '    "duration": 5',
        "  }",
        "response body:",
        "  {",
        '    "data": {',
        '      "task_id": "task_1"',
        "    }",
        "  }",
    ]


def test_a_failed_interaction_shows_its_evidence_and_no_response(vidgen_cassette, cassettes):
    out = vidgen_cassette("show", "cassettes/boat.json", "--n", "2")[1]
    assert "failure:      ConnectionLostError (maybe_sent, wait): the service closed the connection\n" in out
    assert "response header" not in out


def test_a_body_is_described_by_its_kind_and_size(vidgen_cassette, tmp_path):
    ends = {"blob": BLOB, "bytes": 20_000_000, "sha256": "9b74", "stored": "ends", "ends": [1, 1]}
    for body, shown in (
        (None, "empty"),
        ({"text": "a\nb"}, "text, 3 bytes"),
        ({"b64": "AAECAw=="}, "binary, 4 bytes"),
        ({"bytes": 1_100_000, "sha256": "9b74"}, "1.1 MB, not stored; sha256 9b74"),
        ({"blob": BLOB, "bytes": 5000, "sha256": "9b74", "stored": "all"}, f"5.0 kB, in blobs/{BLOB}"),
        (ends, f"20.0 MB, its beginning and end in blobs/{BLOB}"),
    ):
        save(tmp_path / "one.json", document(look(1, body=body)))
        out = vidgen_cassette("show", "one.json", "--n", "1", "--with-bodies")[1]
        assert f"response body:   {shown}\n" in out
        assert ("response body:\n  a\n  b\n" in out) == (shown == "text, 3 bytes")


def test_an_unknown_interaction_number_is_an_error(vidgen_cassette, cassettes):
    code, out, err = vidgen_cassette("show", "cassettes/boat.json", "--n", "9", "--json")
    assert (code, out) == (2, "")
    assert error_message(err) == "there is no interaction 9 in cassettes/boat.json, which has 5."


def test_bodies_which_may_contain_a_prompt_are_shown_only_on_request(vidgen_cassette, tmp_path):
    save(tmp_path / "one.json", document(create(answer={"error": f"the prompt '{PROMPT}' was refused"})))
    for options in ((), ("--n", "1"), ("--json",), ("--n", "1", "--json")):
        code, out, err = vidgen_cassette("show", "one.json", *options)
        assert (code, err) == (0, "")
        assert PROMPT not in out, options
        assert vidgen_cassette("show", "one.json", *options, "--with-bodies")[1].count(PROMPT) == 2, options


def test_with_bodies_and_no_number_every_interaction_is_shown_completely(vidgen_cassette, cassettes):
    out = vidgen_cassette("show", "cassettes/boat.json", "--with-bodies")[1]
    assert [line.split()[1] for line in out.splitlines() if line.startswith("interaction:")] == [
        "1",
        "2",
        "3",
        "4",
        "5",
    ]
    assert f'"prompt": "{PROMPT}"' in out


def test_show_as_json_prints_one_object_per_line(vidgen_cassette, cassettes):
    found = documents(vidgen_cassette("show", "cassettes/boat.json", "--json")[1])
    assert [one["n"] for one in found] == [1, 2, 3, 4, 5]
    assert found[1] == {
        "path": "cassettes/boat.json",
        "n": 2,
        "op": "videos.get",
        "started": 120.0,
        "answered": None,
        "ended": 120.2,
        "request": {"method": "GET", "url": f"{BASE}/videos/task_1", "headers": [], "body": None},
        "status": None,
        "headers": [],
        "body": None,
        "failure": {
            "type": "ConnectionLostError",
            "delivery": "maybe_sent",
            "phase": "wait",
            "message": "the service closed the connection",
            "received": 0,
        },
    }
    assert found[0]["headers"] == [["content-type", "application/json"], ["retry-after", "5"]]
    assert (found[0]["request"]["body"], found[0]["body"]) == ({"bytes": 77}, {"bytes": 29})
    assert documents(vidgen_cassette("show", "cassettes/boat.json", "--json", "--n", "2")[1]) == [found[1]]


def test_text_of_a_cassette_cannot_control_the_terminal(vidgen_cassette, tmp_path):
    made = document(
        look(1, body={"text": "a\x1b[2Jb\r\x07"}, headers=(("etag", "\x1b]0;x\x07"),)),
        look(2, body={"json": {"\x1b[31m": "\x9b2J"}}, request=RecordedRequest("GET", f"{BASE}/\x1b[0m")),
    )
    save(tmp_path / "one.json", made)
    shown = [vidgen_cassette("show", "one.json", *more)[1] for more in ((), ("--with-bodies",))]
    assert not any(sign in out for out in shown for sign in ("\x1b", "\x9b", "\x07", "\r"))


# -- check -----------------------------------------------------------------------------------------------------------


def test_clean_cassettes_pass_and_are_counted(vidgen_cassette, cassettes):
    assert vidgen_cassette("check", "cassettes") == (0, "2 cassettes checked, no problems found\n", "")
    assert vidgen_cassette("check", "cassettes/boat.json") == (0, "1 cassette checked, no problems found\n", "")
    assert vidgen_cassette("check", "cassettes", "--json") == (0, "", "")


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


def test_check_without_a_path_is_wrong_usage(vidgen_cassette):
    code, out, err = vidgen_cassette("check")
    assert (code, out) == (2, "")
    assert "PATH" in err


def test_an_error_at_one_path_does_not_hide_problems_of_another(vidgen_cassette, cassettes):
    (cassettes / "blobs" / BLOB).unlink()
    code, out, err = vidgen_cassette("check", "no/where.json", "cassettes", "--orphans", "--json")
    assert code == 2
    assert [one["problem"] for one in documents(out)] == ["blob-missing"]
    assert error_message(err) == "there is no cassette at no/where.json."


def test_an_error_at_one_path_is_never_reported_as_success(vidgen_cassette, cassettes):
    code, out, err = vidgen_cassette("check", "cassettes", "nowhere")
    assert (code, out) == (2, "")
    assert "there is no cassette at nowhere" in err


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


def test_an_age_without_a_known_unit_is_wrong_usage(vidgen_cassette, cassettes):
    for age in ("90", "d", "-1d", "1.5d", "90 days", "1y", ""):
        code, out, err = vidgen_cassette("check", "cassettes", f"--max-age={age}")
        assert (code, out) == (2, ""), age
        assert "such as 90d" in err, age


# -- all of them -----------------------------------------------------------------------------------------------------


def test_the_help_lists_the_exit_codes_of_these_commands(vidgen_cassette):
    code, out, err = vidgen_cassette("--help")
    assert (code, err) == (0, "")
    assert [number for number in (0, 1, 2, 130) if f"\n  {number:<4} " not in out] == []
    assert "uncertain" not in out


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

    monkeypatch.setattr("vidgen_async.cli.actions.cassette.check_cassette", fail)
    code, out, err = vidgen_cassette("check", "cassettes")
    assert (code, out) == (2, "")
    assert "unexpected ZeroDivisionError: oh" in err
    assert "Traceback" not in err
    assert "Traceback" in vidgen_cassette("check", "cassettes", "--debug")[2]


def test_the_output_fits_the_terminal(on_a_terminal, cassettes):
    for arguments, code, words in (
        (("ls", "cassettes"), 0, "cassettes/later"),
        (("show", "cassettes/boat.json"), 0, "ConnectionLostError"),
        (("check", "cassettes", "--max-age", "0min"), 1, "too-old"),
    ):
        for width in (80, 120):
            ended, shown = on_a_terminal("cassette", *arguments, width=width)
            lines = text_of(shown)
            assert ended == code, arguments
            assert max(map(len, lines)) <= width, arguments
            assert words in "\n".join(lines)


def test_a_terminal_shows_one_interaction_as_facts_and_indented_bodies(on_a_terminal, cassettes):
    ended, shown = on_a_terminal("cassette", "show", "cassettes/boat.json", "--n", "1", "--with-bodies")
    lines = text_of(shown)
    assert ended == 0
    assert "operation        videos.create" in lines
    assert '    "duration": 5' in lines
