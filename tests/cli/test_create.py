"""``vidgen create``: the request, the checks before anything is charged, and the output."""

import io
import json

import pytest

from vidgen_async.sandbox import Fault

from .conftest import PICTURE, Stream

pytestmark = pytest.mark.slow

BOAT = ("create", "A paper boat", "--model", "gen-2.0", "--duration", "5")


def test_create_prints_only_the_task_id_to_stdout_and_the_order_id_to_stderr(service, works):
    out, err = works(*BOAT, "--order-id", "order-1187")
    assert out == f"{service.creates[0].task_id}\n"
    assert "order: order-1187" in err
    assert len(service.creates) == 1


def test_create_as_json_prints_one_document_after_the_order_id(here, service):
    code, out, err = here(*BOAT, "--order-id", "order-1187", "--json")
    assert code == 0
    document = json.loads(out)
    assert (document["order_id"], document["task_id"]) == ("order-1187", service.creates[0].task_id)
    assert set(document) == {"order_id", "task_id", "accepted_at", "request_id", "extra"}
    assert {"order": "order-1187"} in [json.loads(line) for line in err.splitlines()]


def test_every_option_sets_its_field_of_the_request(here, service):
    code, _, err = here(
        "create", "A boat", "--model", "sd2_480p_real", "--duration", "15", "--ratio", "9:16", "--resolution", "720p",
        "--mode", "calm", "--image", "https://pics.test/a.png?size=2", "--image-id", "asset-9",
        "--video-url", "https://pics.test/v.mp4", "--audio-url", "https://pics.test/s.mp3",
        "--field", "seed=7", "--field", 'reference_images=[{"url": "https://pics.test/b.png"}]', "--no-validate",
    )  # fmt: skip
    assert code == 4, err
    assert service.creates[0].body == {
        "model": "sd2_480p_real",
        "prompt": "A boat",
        "duration": 15,
        "ratio": "9:16",
        "resolution": "720p",
        "mode": "calm",
        "image_urls": ["https://pics.test/a.png?size=2"],
        "image_ids": ["asset-9"],
        "video_urls": ["https://pics.test/v.mp4"],
        "audio_urls": ["https://pics.test/s.mp3"],
        "reference_images": [{"url": "https://pics.test/b.png"}],
        "seed": 7,
    }


def test_an_image_is_uploaded_and_its_id_is_sent_after_the_given_ids(here, service, works):
    uploaded = here("upload", PICTURE)[1].strip()
    works("create", "A boat", "--model", "vendorh3", "--image", PICTURE, "--image-id", uploaded)
    first, second = service.creates[0].body["image_ids"]
    assert first == uploaded
    assert second in service.asset_ids()


def test_a_prompt_can_be_read_from_stdin_or_a_file(service, tmp_path, works):
    (tmp_path / "prompt.txt").write_text("Ein Boot\nim Nebel, früh\n", "utf-8")
    for source in (("-",), ("--prompt-file", "prompt.txt"), ("--prompt-file", "-")):
        err = works("create", *source, *BOAT[2:], stdin="Ein Boot\nim Nebel, früh\n")[1]
        assert service.creates[-1].body["prompt"] == "Ein Boot\nim Nebel, früh"
        assert "Nebel" not in err
    assert len(service.creates) == 3


def test_a_prompt_that_cannot_be_decoded_is_exit_code_2(run_here, in_service, service):
    stdin, stderr = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"), Stream({})
    assert run_here("create", "-", *BOAT[2:], stdin=stdin, stdout=Stream({}), stderr=stderr) == 2
    assert "cannot read the prompt from stdin: it is not UTF-8 text" in stderr.text
    assert service.creates == []


def test_a_request_that_the_catalog_excludes_is_refused_before_any_upload(service, fails):
    for words, arguments in {
        "duration: gen-2.0 supports 5, 10, 15 seconds, not 7": ("--model", "gen-2.0", "--duration", "7"),
        "model: 'gen-2.5' is in maintenance": ("--model", "gen-2.5"),
        "vendorh3 needs at least 1 image": ("--model", "vendorh3"),
        "image_ids[0]": ("--model", "gen-2.0", "--image-id", "<your image id>"),
    }.items():
        pictures = () if "vendorh3" in arguments else ("--image", PICTURE)
        err = fails(2, "create", "x", *arguments, *pictures)
        assert words in err
        assert service.count_requests("files.create") == 0, arguments
        assert service.creates == [], arguments


def test_with_no_validate_the_service_decides(service, fails):
    err = fails(4, "create", "x", "--model", "gen-2.0", "--duration", "7", "--no-validate")
    assert "duration" in err
    assert service.count_requests("models.list") == 0
    assert len(service.creates) == 1


def test_check_of_a_valid_request_shows_the_prices_and_sends_nothing(service, data_home, works):
    out, err = works("create", "x", "--model", "vendorh3", "--image", PICTURE, "--check")
    facts = dict(line.split(":", 1) for line in out.splitlines())
    assert facts["request"].strip() == "valid"
    assert [line.split()[1] for line in (out + err).splitlines() if line.startswith("model:")] == ["vendorh3"]
    assert (facts["points"].strip(), facts["memberPoints"].strip()) == ("15", "12")
    assert service.count_requests("files.create") == 0
    assert service.creates == []
    assert list(data_home.iterdir()) == []


def test_check_lists_all_problems(here, service):
    arguments = ("create", "x", "--model", "vendorh3", "--duration", "4", "--video-url", "https://pics.test/v.mp4")
    code, out, err = here(*arguments, "--check")
    assert code == 2
    assert out.startswith("request:")
    assert "invalid" in out.splitlines()[0]
    for words in ("seconds, not 4", "at least 1 image", "takes no reference videos"):
        assert words in err

    code, out, err = here(*arguments, "--check", "--json")
    document = json.loads(out)
    assert (code, document["is_ok"], len(document["problems"])) == (2, False, 3)
    assert document["model"]["extra"]["points"] == 15
    assert json.loads(err.splitlines()[-1])["error"]["exit_code"] == 2
    assert service.creates == []


def test_an_uncertain_order_is_never_resent_by_the_same_command(here, service, fails):
    service.add_fault("videos.create", Fault.close_after_body())
    assert here(*BOAT, "--order-id", "order-1187")[0] == 5
    err = fails(5, *BOAT, "--order-id", "order-1187")
    assert "vidgen orders adopt order-1187 TASK_ID" in err
    assert "vidgen orders resend order-1187 --expect-attempt 1 --reason WHY" in err
    assert "orders.adopt(" not in err
    assert len(service.creates) == 1


def test_another_request_with_the_same_order_id_is_exit_code_2(here, service, fails):
    assert here(*BOAT, "--order-id", "order-1187")[0] == 0
    err = fails(2, "create", "Another boat", *BOAT[2:], "--order-id", "order-1187")
    assert "used for a different request" in err
    assert "already accepted" not in err
    assert err.splitlines()[-1] == "  vidgen orders resume order-1187"
    assert len(service.creates) == 1


def test_the_images_of_a_stored_order_are_not_uploaded_again_and_its_task_id_is_printed(here, service):
    arguments = ("create", "x", "--model", "vendorh3", "--image", PICTURE, "--order-id", "order-1187")
    first = here(*arguments)
    code, out, err = here(*arguments)
    assert first[0] == code == 0
    assert out == first[1] == f"{service.creates[0].task_id}\n"
    assert "order order-1187 was already accepted; it is not sent again" in err
    assert "sending the order" not in err
    assert service.count_requests("files.create") == 1
    assert len(service.creates) == 1


def test_another_request_with_images_and_the_same_order_id_uploads_and_sends_nothing(here, service, fails):
    rest = ("--image", PICTURE, "--order-id", "order-1187")
    assert here("create", "x", "--model", "vendorh3", *rest)[0] == 0
    for changed in (("y",), ("x", "--duration", "8"), ("x", "--image", PICTURE), ("x", "--image-id", "other")):
        err = fails(2, "create", *changed, "--model", "vendorh3", *rest)
        assert "was already used " in err
        assert service.count_requests("files.create") == 1, changed
        assert len(service.creates) == 1, changed


def test_a_rejected_order_with_images_is_resent_without_another_upload(here, service):
    arguments = ("create", "x", "--model", "vendorh3", "--image", PICTURE, "--order-id", "order-1187")
    service.add_fault("videos.create", Fault.status(402))
    assert here(*arguments)[0] == 4
    code, out, err = here(*arguments)
    assert (code, out) == (0, f"{service.creates[1].task_id}\n"), err
    assert service.count_requests("files.create") == 1
    assert service.creates[0].raw == service.creates[1].raw


def test_check_validates_the_files_too(here, service, tmp_path):
    (tmp_path / "notes.png").write_text("no picture at all")
    for more in (("--check",), ()):
        code, _, err = here("create", "x", "--model", "vendorh3", "--image", "notes.png", *more)
        assert code == 2
        assert "the file 'notes.png' is not an image (" in err
        assert "it is text" in err
    assert (service.count_requests("files.create"), service.creates) == (0, [])


def test_a_file_that_cannot_be_saved_is_refused_before_anything_is_ordered(service, tmp_path, fails):
    (tmp_path / "old.mp4").touch()
    for output, why in {
        "old.mp4": "--force replaces it",
        "missing/a.mp4": "missing",
        "old.mp4/": "File exists",
    }.items():
        err = fails(2, "generate", "x", "--model", "vendorh3", "--image", PICTURE, "-o", output)
        assert why in err
    assert (service.creates, service.count_requests("files.create")) == ([], 0)


def test_a_file_name_that_is_too_long_is_one_sentence_and_nothing_is_ordered(service, fails):
    name = "x" * 300 + ".mp4"
    for arguments in (("-o", name), ("--image", name, "-o", "a.mp4")):
        err = fails(2, "generate", *BOAT[1:], *arguments, "--force")
        assert "file name too long" in err.lower()
        assert "bug in vidgen" not in err
    assert service.creates == []


def test_only_the_user_can_read_the_journal(here, data_home):
    assert here(*BOAT)[0] == 0
    file = data_home / "vidgen" / "orders.db"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_the_journal_can_be_another_file(here, data_home, tmp_path, monkeypatch):
    option = ("--journal", "sqlite:///mine.db")
    for options, name in ((option, "mine.db"), ((), "other.db")):
        monkeypatch.setenv("VIDGEN_JOURNAL", "sqlite:///other.db")
        assert here(*BOAT, "--order-id", "order-1187", *options)[0] == 0
        assert (tmp_path / name).exists()
        assert list(data_home.iterdir()) == []
        assert here("orders", "show", "order-1187", *options)[0] == 0
        assert (tmp_path / "other.db").exists() is (name == "other.db")


def test_without_a_journal_the_report_of_an_uncertain_order_points_to_the_console(service, data_home, fails):
    service.add_fault("videos.create", Fault.close_after_body())
    err = fails(5, *BOAT, "--journal", "memory:")
    assert "a second run is a second order" in err
    assert "vidgen orders" not in err
    assert list(data_home.iterdir()) == []


def test_a_data_directory_that_cannot_be_created_is_one_sentence_and_nothing_is_sent(service, monkeypatch, fails):
    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null/data")
    err = fails(2, *BOAT)
    assert "cannot create the directory /dev/null/data/vidgen for the journal" in err
    assert "--journal" in err
    assert service.creates == []


def test_the_price_of_the_catalog_is_shown_as_it_was_received_before_an_order_is_sent(here, service):
    for command in (("create", "x"), ("generate", "x", "--poll-interval", "0.05", "-o", "boat.mp4")):
        code, _, err = here(*command, "--model", "vendorh3", "--image", PICTURE)
        assert code == 0
        assert "price: points 15, memberPoints 12\norder: " in err.replace(f"uploading {PICTURE}\n", "")
    _, out, err = here("create", "x", "--model", "vendorh3", "--image", PICTURE, "--json")
    assert len(out.splitlines()) == 1
    assert {"price": {"points": 15, "memberPoints": 12}} in map(json.loads, err.splitlines())
    for refused in ("--duration", "7"), ("--no-validate",):
        assert "price" not in here("create", "x", "--model", "gen-2.0", *refused)[2]
    service.add_fault("videos.create", Fault.status(402))
    here("create", "x", "--model", "gen-2.0", "--order-id", "order-1187")
    assert "price: points 20\norder: order-1187\n" in here("orders", "resume", "order-1187")[2]
    assert "price" not in here("orders", "resume", "order-1187")[2]
