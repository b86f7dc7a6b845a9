"""``vidgen models``, ``account`` and ``upload``."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from vidgen_async.sandbox import Fault

from .conftest import PICTURE, text_of

USABLE = ["tierb-video-345b30093bb2", "vendorh3", "sd2_480p_real", "sd_2_5_once_720p", "gen-2.0"]


def test_usable_models_are_aligned_lines_with_their_limits_and_prices(here):
    code, out, err = here("models")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == [
        "model", "name", "seconds", "resolution", "images", "audios", "videos", "memberPoints", "points",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == USABLE
    assert lines[1].split() == ["vendorh3", "Vendor", "H3", "2K", "5-15", "768p", "8", "3", "none", "12", "15"]
    assert lines[4].split() == ["gen-2.0", "Gen", "2.0", "5,10,15", "720p", "—", "—", "—", "—", "20"]
    assert "\t" not in out
    assert {line.index(value) for line, value in zip(lines, ("720p", "768p", "720p"), strict=False)} == {
        head.index("resolution")
    }


def test_all_lists_unavailable_models_last_with_the_reason(works):
    out = works("models", "--all")[0]
    lines = out.splitlines()[1:]
    assert [line.split()[0] for line in lines[:5]] == USABLE
    reasons = {line.split()[0]: line for line in lines[5:]}
    assert " maintenance " in reasons["gen-2.5"]
    assert " disabled " in reasons["promo_gen25_discount_720p"]


def test_models_as_json_are_one_document_that_distinguishes_none_from_unknown(here):
    code, out, err = here("models", "--all", "--json")
    assert (code, err) == (0, "")
    models = {model["code"]: model for model in json.loads(out)["models"]}
    assert len(models) == 10
    assert models["vendorh3"] == {
        "code": "vendorh3",
        "name": "Vendor H3 2K",
        "is_usable": True,
        "enabled": True,
        "maintenance": False,
        "durations": list(range(5, 16)),
        "resolutions": ["768p"],
        "max_reference_images": 8,
        "max_reference_audios": 3,
        "max_reference_videos": 0,
        "extra": {"points": 15, "memberPoints": 12},
    }
    assert models["gen-2.0"]["max_reference_images"] is None
    assert models["gen-2.5"]["is_usable"] is False


def test_one_model_is_shown_with_all_its_fields(here, works):
    out = works("models", "vendorh3")[0]
    facts = dict(line.split(":", 1) for line in out.splitlines())
    assert next(iter(facts)) == "model"
    assert facts["images"].strip() == "8, at least 1"
    assert facts["videos"].strip() == "none"
    assert facts["memberPoints"].strip() == "12"
    assert json.loads(here("models", "vendorh3", "--json")[1])["code"] == "vendorh3"


def test_the_table_fits_the_terminal(terminal):
    for width in (50, 80, 120):
        code, shown = terminal("models", width=width)
        assert code == 0, shown
        lines = [line for line in text_of(shown) if line]
        assert max(map(len, lines)) <= width
        assert lines[0].split()[0] == "model"
        assert sum(line.startswith(tuple(USABLE)) for line in lines) == 5
        assert lines[-1].startswith("5 more are unavailable; --all")
        assert "Vendor H3 2K" in shown


def test_an_empty_catalog_is_reported(here, service):
    service.add_fault("models.list", Fault.status(200, body=b'{"models": []}'))
    assert here("models")[1] == "the catalog is empty\n"


def test_the_account_is_shown_with_all_its_fields(here):
    code, out, err = here("account")
    assert (code, err) == (0, "")
    facts = dict(line.split(": ", 1) for line in out.splitlines())
    assert facts["account at the service"].strip() == "account-1"
    assert list(facts) == ["balance", "account at the service"]  # credits is the balance
    document = json.loads(here("account", "--json")[1])
    assert document["balance"] == document["extra"]["credits"]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"credits": 1234567, "plan": "pro"}, ["balance: 1234567", "plan:    pro"]),
        ({"balance": "12.50", "credits": 3}, ["balance: 12.50", "credits: 3"]),
        ({"balance": None, "credits": 3}, ["balance:                3", "balance at the service: —"]),
        ({"wallet": {"points": 5}}, ["balance: unknown", 'wallet:  {"points": 5}']),
    ],
)
def test_the_balance_is_shown_once_and_as_the_service_sent_it(here, service, answer, shown):
    service.add_fault("account.get", Fault.status(200, body=json.dumps(answer).encode()))
    assert here("account")[1].splitlines() == shown


def test_a_rejected_key_is_exit_code_4_and_names_the_variable(monkeypatch, fails):
    monkeypatch.setenv("VIDGEN_API_KEY", "not-the-right-key")
    for command in (("models",), ("account",), ("generate", "x", "-o", "boat.mp4")):
        err = fails(4, *command)
        assert "VIDGEN_API_KEY" in err
        assert ("Nothing was ordered." in err) is (command[0] == "generate")
        assert "not-the-right-key" not in err

        err = fails(4, *command, "--json")
        error = json.loads(err.splitlines()[-1])["error"]
        assert (error["kind"], error["exit_code"]) == ("authentication", 4)
        assert "not-the-right-key" not in err


def test_a_base_url_without_the_prefix_causes_one_warning(service, monkeypatch, fails):
    wrong = service.base_url.removesuffix("/v1")
    assert fails(1, "account", "--base-url", wrong).count("does not end in /openapi/v1") == 1
    monkeypatch.setenv("VIDGEN_BASE_URL", wrong)
    assert fails(1, "account").count("does not end in /openapi/v1") == 1


@pytest.mark.slow
def test_commands_that_order_nothing_store_nothing_on_the_disk(here, data_home):
    for command in (("models",), ("account",), ("upload", PICTURE), ("get", "x"), ("watch", "x")):
        here(*command)
    assert list(data_home.iterdir()) == []


def test_an_upload_prints_only_the_ids_in_the_order_given(service, works):
    out, err = works("upload", PICTURE, PICTURE)
    ids = out.split()
    assert len(ids) == 2
    assert set(ids) <= set(service.asset_ids())
    assert "token" not in out + err


def test_an_upload_shows_when_it_was_stored_and_until_when(here, service):
    day = timedelta(days=1)
    begin = datetime.now(UTC).replace(microsecond=0)
    _, out, err = here("upload", PICTURE, "--json")
    document = json.loads(out)
    uploaded, expires = (datetime.fromisoformat(document[name]) for name in ("uploaded_at", "expires_at"))
    assert begin <= uploaded < begin + day
    assert expires == uploaded + 3 * day
    _, out, err = here("upload", PICTURE)
    (line,) = [line for line in err.splitlines() if line.startswith("uploaded: ")]
    days = [f"{when:%Y-%m-%d}" for when in (uploaded, expires)]
    assert re.fullmatch(rf"uploaded: {PICTURE}: {days[0]} [\d:]{{8}} UTC, stored until {days[1]} [\d:]{{8}} UTC", line)


def test_an_asset_that_was_uploaded_before_has_no_known_end_and_its_token_is_not_shown(here):
    url = json.loads(here("upload", PICTURE, "--json")[1])["url"]
    _, out, err = here("upload", url, "--json")
    assert [json.loads(out)[name] for name in ("uploaded_at", "expires_at")] == [None, None]
    _, out, err = here("upload", url)
    assert "uploaded before; until when the service stores it is unknown" in err
    assert url.partition("token=")[2] not in err


def test_an_upload_prints_the_url_only_on_request(here):
    assert len(here("upload", PICTURE)[1].split()) == 1
    image_id, url = here("upload", PICTURE, "--url")[1].split()
    assert f"/{image_id}/" in url
    assert "?token=" in url
    (line,) = here("upload", PICTURE, "--json")[1].splitlines()
    document = json.loads(line)
    assert document["file"] == PICTURE
    assert document["mime"] == "image/png"
    assert "?token=" in document["url"]


def test_a_file_that_is_not_an_image_is_exit_code_2_after_the_ids_of_earlier_uploads(here, service, tmp_path):
    (tmp_path / "no.png").write_text("not a picture")
    before = service.count_requests("files.create")
    code, out, err = here("upload", PICTURE, "no.png")
    assert code == 2
    assert len(out.split()) == 1
    assert "no.png" in err
    assert service.count_requests("files.create") == before + 1
