"""``vidgen cassette recover``: a cassette from a killed recording."""

import io
import json

import pytest

from tests.cassette.sample_cassettes import (
    BLOB,
    TOKEN,
    VIDEO,
    boat,
    changed,
    create,
    document,
    download,
    look,
    save,
    save_part,
)
from vidgen_async.cassette import load

from .conftest import Stream

WHOLE = document(create(), look(2), look(3, "completed"))


@pytest.fixture
def part(tmp_path) -> str:
    """The file left by a recording that was killed during the second poll."""
    save_part(tmp_path / "boat.json.part", WHOLE, unfinished=1)
    return "boat.json.part"


def names(tmp_path) -> list[str]:
    return sorted(path.name for path in tmp_path.rglob("*") if path.is_file())


def message(err: str) -> str:
    return json.loads(err)["error"]["message"]


def test_finished_interactions_become_the_cassette_and_unfinished_ones_are_listed(vidgen_cassette, tmp_path, part):
    before = (tmp_path / part).read_bytes()
    code, out, err = vidgen_cassette("recover", part)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "finished:     2 interactions",
        "not finished: GET https://api.vidgen.test/openapi/v1/videos/task_1 (videos.get)",
        "written boat.json",
    ]
    assert load(tmp_path / "boat.json") == document(*WHOLE.interactions[:2])
    assert (tmp_path / part).read_bytes() == before


def test_the_cassette_is_written_even_if_the_output_pipe_is_closed(run_here, tmp_path, part):
    class Unread(Stream):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    assert run_here("cassette", "recover", part, stdin=io.StringIO(), stdout=Unread({}), stderr=Unread({})) == 1
    assert load(tmp_path / "boat.json") == document(*WHOLE.interactions[:2])


def test_a_torn_line_is_counted(vidgen_cassette, tmp_path):
    save_part(tmp_path / "boat.json.part", WHOLE, torn=b'{"e": "do')
    code, out, _ = vidgen_cassette("recover", "boat.json.part")
    assert code == 1
    assert "damaged:  1 line\n" in out


def test_recovered_as_json_is_one_object(vidgen_cassette, part):
    code, out, err = vidgen_cassette("recover", part, "--json")
    assert (code, err) == (1, "")
    assert json.loads(out) == {
        "path": "boat.json",
        "part": "boat.json.part",
        "interactions": 2,
        "unfinished": ["GET https://api.vidgen.test/openapi/v1/videos/task_1 (videos.get)"],
        "damaged": 0,
    }


def test_a_recording_without_finished_interactions_writes_nothing(vidgen_cassette, tmp_path):
    save_part(tmp_path / "boat.json.part", document(create()), unfinished=1)
    code, out, err = vidgen_cassette("recover", "boat.json.part")
    assert code == 2
    assert "not finished: POST https://api.vidgen.test/openapi/v1/videos (videos.create)\n" in out
    assert "no interaction was finished in boat.json.part; nothing was written" in err
    assert names(tmp_path) == ["boat.json.part"]


def test_a_file_that_is_not_a_recording_is_an_error(vidgen_cassette, tmp_path):
    for made, words in (
        (None, "there is no recording at one.part"),
        ("{}", "is not a recording"),
        ("\0", "is not a recording"),
    ):
        if made is not None:
            (tmp_path / "one.part").write_text(made)
        code, out, err = vidgen_cassette("recover", "one.part", "--json")
        assert (code, out) == (2, "")
        assert words in message(err)


def test_a_cassette_with_only_recovered_interactions_is_replaced(vidgen_cassette, tmp_path, part):
    save(tmp_path / "boat.json", changed(document(create(), recorder="older"), 1, started=9.0, ended=9.5))
    assert vidgen_cassette("recover", part)[0] == 1
    assert load(tmp_path / "boat.json") == document(*WHOLE.interactions[:2])


@pytest.mark.parametrize(
    "old",
    [boat(), changed(document(create()), 1, status=202)],
    ids=["more on it", "another answer"],
)
def test_a_cassette_with_other_interactions_is_replaced_only_by_force(vidgen_cassette, tmp_path, part, old):
    save(tmp_path / "boat.json", old)
    code, _, err = vidgen_cassette("recover", part, "--json")
    assert code == 2
    error = json.loads(err)["error"]
    assert error["message"] == "boat.json has interactions that were not recovered. Nothing was written."
    assert error["hint"] == "--force replaces it."
    assert load(tmp_path / "boat.json") == old

    assert vidgen_cassette("recover", part, "--force")[0] == 1
    assert len(load(tmp_path / "boat.json").interactions) == 2


def test_a_damaged_cassette_is_replaced_only_by_force(vidgen_cassette, tmp_path, part):
    (tmp_path / "boat.json").write_text("{")
    assert vidgen_cassette("recover", part)[0] == 2
    assert (tmp_path / "boat.json").read_text() == "{"
    assert vidgen_cassette("recover", part, "--force")[0] == 1


def test_an_appending_recording_is_added_to_its_cassette_once(vidgen_cassette, tmp_path):
    save(tmp_path / "boat.json", document(create(), look(2)))
    save_part(tmp_path / "boat.json.part", document(look(3, "completed")), is_append=True)
    assert vidgen_cassette("recover", "boat.json.part")[0] == 0
    for force in ((), ("--force",)):
        assert vidgen_cassette("recover", "boat.json.part", *force)[0] in (0, 2)
        assert load(tmp_path / "boat.json") == WHOLE


def test_the_blobs_are_copied_to_another_output_directory(vidgen_cassette, tmp_path):
    save_part(tmp_path / "boat.json.part", document(create(), download(2)))
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / BLOB).write_bytes(VIDEO)
    (tmp_path / "kept").mkdir()
    code, out, err = vidgen_cassette("recover", "boat.json.part", "-o", "kept/sail.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "written kept/sail.json"
    assert not (tmp_path / "boat.json").exists()
    assert vidgen_cassette("check", "kept", "--orphans")[0] == 0


def test_an_existing_blob_is_not_lost(vidgen_cassette, tmp_path):
    save_part(tmp_path / "boat.json.part", document(download(1)))
    (tmp_path / "kept" / "blobs").mkdir(parents=True)
    (tmp_path / "kept" / "blobs" / BLOB).write_bytes(VIDEO)
    code, _, err = vidgen_cassette("recover", "boat.json.part", "-o", "kept/boat.json")
    assert (code, err) == (0, "")


def test_a_lost_blob_is_reported(vidgen_cassette, tmp_path):
    save_part(tmp_path / "boat.json.part", document(download(1)))
    code, _, err = vidgen_cassette("recover", "boat.json.part")
    assert code == 1
    assert err == f"warning: there is no blobs/{BLOB}: a body cannot be replayed\n"


def test_with_a_secret_nothing_is_written_and_the_secret_is_not_shown(vidgen_cassette, tmp_path):
    made = document(download(1), look(2, body={"text": f"your token is {TOKEN}"}))
    save_part(tmp_path / "boat.json.part", made)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / BLOB).write_bytes(VIDEO)
    before = names(tmp_path)
    (tmp_path / "kept").mkdir()
    code, out, err = vidgen_cassette("recover", "boat.json.part", "-o", "kept/boat.json", "--force")
    assert code == 2
    assert "/interactions/1/response/body/text contains what looks like a secret" in err
    assert TOKEN[:10] not in out + err
    assert names(tmp_path) == before


def test_an_output_that_cannot_be_written_is_an_error(vidgen_cassette, tmp_path, part):
    (tmp_path / "folder.json").mkdir()
    code, _, err = vidgen_cassette("recover", part, "-o", "folder.json", "--force", "--json")
    assert code == 2
    assert "folder.json cannot be written" in message(err)
