"""Answers are read as far as they can be; what cannot be used is a typed error that quotes the answer."""

import json
import pickle
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from yarl import URL

from vidgen_async import errors
from vidgen_async.errors import InvalidRequestError, UnexpectedResponseError
from vidgen_async.service.codec import Answer, read_account, read_asset, read_catalog, read_created_id, read_task
from vidgen_async.service.endpoints import create_body
from vidgen_async.service.error_responses import describe_outcome, rejected_error, service_error
from vidgen_async.types.http import make_headers
from vidgen_async.types.orders import AttemptOutcome
from vidgen_async.types.resources import VideoRequest

ORIGIN = "https://h"
TASK = {
    "id": "t-1",
    "task_id": "t-1",
    "status": "completed",
    "model": "vendorh3",
    "points": 15,
    "video_url": "https://cdn/v.mp4?exp=1790000000&sig=a%2Bb",
    "failure_reason": None,
    "upstream_task_id": "up-9",
    "provider": {"name": "x"},
    "created_at": 1790000000,
    "updated_at": 1790000060,
}


def answer(body: Any, status: int = 200, *, url: str = "https://h/openapi/v1/videos/t-1", **headers: str) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = make_headers({name.replace("_", "-"): value for name, value in headers.items()})
    return Answer("videos.get", status, named, raw, url=URL(url, encoded=True), known=("key-never-shown",))


@pytest.mark.rule("2.5 unshown provider", side="sdk")
def test_a_task_is_read_with_all_its_fields():
    task = read_task(answer(TASK), "t-1")
    assert (task.id, task.status, task.points, task.model) == ("t-1", "completed", 15, "vendorh3")
    assert task.video_url == TASK["video_url"]
    assert task.created_at == datetime.fromtimestamp(1790000000, UTC)
    assert task.provider == {"name": "x"}
    assert task.is_terminal
    assert task.extra == {}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32-be"])
def test_a_task_is_read_in_each_encoding_of_json(encoding):
    assert read_task(answer(json.dumps(TASK).encode(encoding)), "t-1") == read_task(answer(TASK), "t-1")


@pytest.mark.rule("2.5 field status", "9 bullet 5", side="sdk")
@pytest.mark.parametrize("status", ["queued", "running", "post_processing", "COMPLETED", ""])
def test_only_completed_and_failed_are_terminal_and_other_states_are_kept_as_they_came(status):
    task = read_task(answer({**TASK, "status": status}), "t-1")
    assert task.status == status
    assert not task.is_terminal


@pytest.mark.rule("2.5 field task_id", "2.5 unshown provider", "9 bullet 4", side="sdk")
@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"points": "15"}, "points", 15),
        ({"points": 15.0}, "points", 15),
        ({"created_at": "1790000000"}, "created_at", datetime.fromtimestamp(1790000000, UTC)),
        ({"provider": ["a", 1]}, "provider", ["a", 1]),
        ({"provider": 7}, "provider", 7),
        ({"id": None, "task_id": "t-1"}, "id", "t-1"),
        ({"id": "", "task_id": "t-1"}, "id", "t-1"),
    ],
)
def test_odd_types_are_read_as_far_as_they_can_be(change, field, value):
    assert getattr(read_task(answer({**TASK, **change}), "t-1"), field) == value


@pytest.mark.parametrize(
    ("field", "odd"),
    [
        ("points", "many"),
        ("points", True),
        ("points", 12.5),
        ("created_at", "yesterday"),
        ("updated_at", 10**18),
        ("created_at", float("inf")),
        ("status", 3),
        ("status", ["running"]),
        ("video_url", {"href": "x"}),
        ("model", 5),
    ],
)
def test_what_cannot_be_read_is_left_out_and_kept_as_it_came(field, odd):
    task = read_task(answer({**TASK, field: odd}), "t-1")
    assert getattr(task, field) is None
    assert task.extra == {field: odd}


def test_fields_that_are_missing_are_none_and_unknown_ones_are_kept():
    task = read_task(answer({"task_id": "t-9", "eta": 30, "extra": {"a": 1}}), "t-9")
    assert (task.id, task.status, task.points, task.created_at) == ("t-9", None, None, None)
    assert task.extra == {"eta": 30, "extra": {"a": 1}}


@pytest.mark.rule("4.5 path id", side="sdk")
@pytest.mark.parametrize(("asked", "ids"), [("12", {"id": 12}), ("3", {"id": "", "task_id": 3})], ids=str)
def test_a_number_is_the_id_that_was_asked_for(asked, ids):
    assert read_task(answer({**TASK, **ids}), asked).id == asked


@pytest.mark.parametrize("ids", [{"id": "t-10"}, {"id": "t-2", "task_id": "t-3"}, {"id": " t-1"}, {"id": 1}], ids=str)
def test_a_task_that_was_not_asked_for_is_unexpected(ids):
    with pytest.raises(UnexpectedResponseError, match="is about another task"):
        read_task(answer({**TASK, "task_id": None, **ids}), "t-1")


@pytest.mark.rule("2.5 field task_id", side="sdk")
@pytest.mark.parametrize("name", ["id", "task_id"])
def test_an_id_that_differs_from_the_requested_one_is_kept(name):
    task = read_task(answer({**TASK, name: "other"}), "t-1")
    assert task.id == "t-1"
    assert task.extra == {name: "other"}


@pytest.mark.parametrize("points", [15, "many"])
def test_the_request_id_is_that_of_the_headers(points):
    task = read_task(answer({**TASK, "points": points, "request_id": "of the body"}, X_Request_Id="r-1"), "t-1")
    assert task.request_id == "r-1"
    assert task.extra["request_id"] == "of the body"


@pytest.mark.parametrize("code", ["vendorh3", 7])
def test_what_a_value_has_besides_its_json_is_not_read_from_it(code):
    asset = read_asset(answer({"id": "a", "mime": code, "uploaded_at": 1, "extra": {"b": 2}}), str)
    assert asset.uploaded_at is None
    assert asset.extra == {"uploaded_at": 1, "extra": {"b": 2}} | ({"mime": 7} if code == 7 else {})


@pytest.mark.rule("1 bullet 7", side="sdk")
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>key-never-shown</html>", b"[]", b'"text"', b"null", b"{", b"\xff\xfe", b"[" * 100_000, {}, {"id": ""},
     {"id": True}, {"upstream_task_id": "up"}],
    ids=repr,
)  # fmt: skip
def test_a_task_that_cannot_be_used_is_a_typed_error_that_quotes_the_answer(body):
    with pytest.raises(UnexpectedResponseError) as caught:
        read_task(answer(body), "t-1")
    assert caught.value.status == 200
    assert caught.value.body == answer(body).body
    assert "key-never-shown" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.rule("2.1 field maxReferenceAudios", "2.1 field maxReferenceVideos", side="sdk")
def test_a_catalog_keeps_absent_limits_apart_from_unsupported_ones():
    catalog = read_catalog(
        answer(
            {
                "models": [
                    {
                        "code": "a",
                        "enabled": True,
                        "maintenance": False,
                        "durations": [5, "10"],
                        "maxReferenceAudios": 0,
                    },
                    {"code": "b", "enabled": True, "maintenance": True, "points": 15},
                    {"name": "no code"},
                    "not an object",
                ],
                "page": 1,
            }
        )
    )
    assert [model.code for model in catalog] == ["a", "b"]
    assert catalog["a"].durations == (5, 10)
    assert (catalog["a"].max_reference_images, catalog["a"].max_reference_audios) == (None, 0)
    assert [model.code for model in catalog.usable] == ["a"]
    assert catalog["b"].extra == {"points": 15}
    assert catalog.extra == {"page": 1, "unreadable": [{"name": "no code"}, "not an object"]}
    assert "a" in catalog
    assert len(catalog) == 2
    with pytest.raises(KeyError, match="there are: a, b"):
        catalog["c"]


@pytest.mark.rule("4.1 response 200", side="sdk")
def test_a_catalog_without_models_is_a_typed_error():
    with pytest.raises(UnexpectedResponseError, match="no array of models"):
        read_catalog(answer({"models": {"a": 1}}))


@pytest.mark.rule("2.2 unshown fields", side="sdk")
@pytest.mark.parametrize(
    ("body", "balance"),
    [({"balance": 12.5}, 12.5), ({"credits": "7"}, 7.0), ({"credits": "x", "points": 3}, 3), ({"balance": True}, None),
     ({"user": "u"}, None), ({"balance": None, "points": 0}, 0), ({"balance": 10**400, "points": 3}, 3),
     ({"credits": "9" * 400}, None)],
)  # fmt: skip
def test_the_balance_is_the_first_documented_name_that_holds_a_number(body, balance):
    account = read_account(answer(body))
    assert account.balance == balance
    assert all(abs(number) < 1000 for number in account.numbers.values())
    assert account.extra == body


@pytest.mark.rule("2.3 field id", "2.3 field image_id", side="sdk")
@pytest.mark.parametrize(
    "ids", [{"id": "a", "image_id": "a"}, {"id": "a"}, {"image_id": "a"}, {"id": "a", "image_id": None}]
)
def test_an_asset_has_an_absolute_url_and_either_id_stands_for_the_other(ids):
    body = {**ids, "url": "/api/x?token=t%2B", "mime": "image/png", "name": "x.png?sig=t%2B", "size": 1}
    asset = read_asset(answer(body), lambda url: "https://h" + url)
    assert (asset.id, asset.image_id, asset.url) == ("a", "a", "https://h/api/x?token=t%2B")
    assert asset.extra == {"size": 1}
    assert "t%2B" not in repr(asset)


def test_an_asset_without_any_id_is_a_typed_error():
    with pytest.raises(UnexpectedResponseError, match="neither id nor image_id"):
        read_asset(answer({"url": "/x"}), str)


@pytest.mark.rule("4.4 unshown body", side="sdk")
@pytest.mark.parametrize(
    ("body", "task_id"),
    [
        (b'{"id": "t", "upstream_task_id": null}', "t"),
        (b'{"task_id": "t"}', "t"),
        (b'{"id": "", "task_id": 5}', "5"),
        (b'{"id": null, "upstream_task_id": "up"}', None),
        (b'{"data": {"id": "t"}}', None),
        (b'{"id": true}', None),
        (b'{"id": " "}', None),
        (b"[1]", None),
        (b"<html>", None),
        (b"", None),
    ],
)
def test_the_id_of_a_create_is_id_or_task_id_and_nothing_else(body, task_id):
    assert read_created_id(body)[0] == task_id


@pytest.mark.parametrize("around", ["[%s]", '{"a":%s}'])
@pytest.mark.parametrize("levels", [90, 99, 100, 700])
def test_what_is_nested_too_deep_is_left_out(around, levels):
    nested = ""
    for _ in range(levels):
        nested = around % (nested or "1")
    body = b'{"id": "t-1", "x": %s, "y": 1}' % nested.encode()

    task = read_task(answer(body), "t-1")
    task_id, extra = read_created_id(body)

    assert (task_id, extra) == (task.id, task.extra)
    assert extra["y"] == 1
    assert (extra == {"x": json.loads(nested), "y": 1}) is (levels < 100)
    for document in (task.to_json(), pickle.dumps(task)):
        assert len(document) < 2000


def test_the_same_request_gives_the_same_bytes_and_unset_fields_are_not_sent():
    first = VideoRequest(model="m", prompt="ä", duration=5, extra={"b": 1, "a": {"y": 1, "x": 2}})
    again = VideoRequest(model="m", prompt="ä", duration=5, extra={"a": {"x": 2, "y": 1}, "b": 1})
    assert create_body(first) == create_body(again)
    assert json.loads(create_body(first)) == {"model": "m", "prompt": "ä", "duration": 5, "b": 1, "a": {"y": 1, "x": 2}}


@pytest.mark.parametrize("odd", [float("nan"), object(), {1, 2}, "\ud800"])
def test_what_json_cannot_hold_is_refused_before_anything_is_sent(odd):
    with pytest.raises(InvalidRequestError, match="JSON"):
        create_body(VideoRequest(model="m", prompt="p", extra={"x": odd}))


@pytest.mark.rule("7 error", side="sdk")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequestError),
        (401, errors.AuthenticationError),
        (402, errors.InsufficientCreditsError),
        (403, errors.UnexpectedResponseError),
        (404, errors.NotFoundError),
        (409, errors.NotReadyError),
        (429, errors.RateLimitError),
        (500, errors.UnexpectedResponseError),
        (502, errors.GatewayError),
        (503, errors.ServiceUnavailableError),
        (504, errors.GatewayError),
        (307, errors.UnexpectedResponseError),
    ],
)
def test_every_row_of_section_7_has_its_error(status, kind):
    error = service_error(
        answer({}, status, Retry_After="7", X_Request_Id="r-1"), origin=ORIGIN, wall=datetime.now(UTC)
    )
    assert type(error) is kind
    assert (error.status, error.retry_after, error.request_id) == (status, 7.0, "r-1")


@pytest.mark.rule("4.3 note foreign", "4.3 response 400", "7 error", side="sdk")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("EMPTY_REFERENCE_ASSET", errors.EmptyReferenceAssetError),
        ("INVALID_REFERENCE_IMAGE", errors.InvalidReferenceImageError),
        ("REFERENCE_ASSET_EXPIRED", errors.ReferenceAssetExpiredError),
        ("UNSUPPORTED_REFERENCE_URL", errors.UnsupportedReferenceURLError),
    ],
)
@pytest.mark.parametrize(
    "shape",
    [
        lambda code: {"error": {"code": code}},
        lambda code: {"code": code, "message": "m"},
        lambda code: {"error": code},
        lambda code: {"error": "bad", "code": 400, "error_code": code},
        lambda code: {"errors": [{"code": code, "detail": "m"}]},
        lambda code: {"errorCode": code},
        lambda code: {"error": {"type": "invalid_request", "reason": code}},
        lambda code: {"detail": {"status": "error", "code": code}},
        lambda code: {"message": f"{code}: upload the file again"},
        lambda code: {"code": "validation_failed", "data": {"inner": [f"[{code}]"]}},
        lambda code: {code: ["m"]},
        lambda code: [code],
        lambda code: code,
        lambda code: f"{code}\n".encode(),
        lambda code: f"<html><body>Bad request: {code}.</body></html>".encode(),
        lambda code: f'cut short {{"code":"{code}"'.encode(),
        # Escapes of JSON end in letters and digits.
        lambda code: {"message": f"bad request\n{code}"},
        lambda code: {"message": f"\u65e0\u6548{code}\uff0c\u56fe\u7247"},
        lambda code: json.dumps({"message": f"\u65e0\u6548{code}\t1"}, ensure_ascii=False).encode(),
        lambda code: {"detail": json.dumps({"message": f"\u6548{code}\n1"})},
        lambda code: b'cut short {"message":"\\u6548\\n' + code.encode() + b"\\",
        lambda code: json.loads("[" * 900 + json.dumps(code) + "]" * 900),
    ],
)
def test_the_four_codes_of_a_400_have_their_errors(code, kind, shape):
    error = service_error(answer(shape(code), 400), origin=ORIGIN, wall=datetime.now(UTC))
    assert type(error) is kind
    assert error.code == code


@pytest.mark.parametrize("status", [401, 404, 409, 422, 500, 503])
def test_the_four_codes_mean_nothing_with_another_status(status):
    error = service_error(answer({"why": "EMPTY_REFERENCE_ASSET"}, status), origin=ORIGIN, wall=datetime.now(UTC))
    assert not isinstance(error, errors.BadRequestError)
    assert error.code is None


@pytest.mark.parametrize(
    "word", ["MY_EMPTY_REFERENCE_ASSET", "EMPTY_REFERENCE_ASSETS", "EMPTY_REFERENCE_ASSET_2", "ANOTHER"]
)
def test_another_word_is_none_of_the_four_codes(word):
    error = service_error(answer({"message": word}, 400), origin=ORIGIN, wall=datetime.now(UTC))
    assert type(error) is errors.BadRequestError


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"message": "bad prompt: Title: EMPTY_REFERENCE_ASSET \u00fc"}, None),
        ({"message": "no", "request": {"prompt": "Title: EMPTY_REFERENCE_ASSET \u00fc"}}, None),
        (b"bad prompt: Title: EMPTY_REFERENCE_ASSET \xc3\xbc", None),
        ({"message": "no", "got": ["https://pics.net/INVALID_REFERENCE_IMAGE.png"]}, None),
        ({"why": "REFERENCE_ASSET_EXPIRED", "got": "Title: EMPTY_REFERENCE_ASSET \u00fc"}, "REFERENCE_ASSET_EXPIRED"),
        ({"code": "EMPTY_REFERENCE_ASSET", "message": "m"}, "EMPTY_REFERENCE_ASSET"),
        # Quotes that are shortened, escaped, or have other white space.
        ({"message": "too long: Title: EMPTY_REFERENCE_ASSET\u2026"}, None),
        ({"message": "EMPTY_REFERENCE_ASSET \u00fc"}, None),
        ({"message": "bad: Title:  EMPTY_REFERENCE_ASSET\n\u00fc"}, None),
        ({"message": "bad: Title: EMPTY_REFERENCE_ASSET &uuml;"}, None),
        (b"<p>bad: <b>Title:</b> EMPTY_REFERENCE_ASSET &uuml;</p>", None),
        (b'cut short {"got": "Title: EMPTY_REFERENCE_ASSET \\u00f', None),
        ({"got": "UNSUPPORTED_REFERENCE_URL is the ti\u2026"}, None),
    ],
)
def test_a_code_in_text_that_the_request_sent_is_not_the_services(body, code):
    sent = {
        "prompt": "Title: EMPTY_REFERENCE_ASSET \u00fc",
        "image_urls": ["https://pics.net/INVALID_REFERENCE_IMAGE.png"],
        "mode": " UNSUPPORTED_REFERENCE_URL is the title",
    }
    raw = answer(body, 400)
    raw.sent = json.dumps(sent).encode()
    assert service_error(raw, origin=ORIGIN, wall=datetime.now(UTC)).code == code


@pytest.mark.rule("2.5 field failure_reason", "7 rule 1", side="sdk")
@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ({"code": "E1", "message": "face détecté"}, '{"code": "E1", "message": "face détecté"}'),
        (["a", "b"], '["a", "b"]'),
        (17, "17"),
        ("as text", "as text"),
        (None, None),
        ({}, None),
        ([], None),
    ],
)
def test_a_failure_reason_that_is_no_string_is_text_and_kept_as_it_came(reason, text):
    task = read_task(answer({"id": "t", "status": "failed", "failure_reason": reason}), "t")
    assert task.failure_reason == text
    assert task.extra == ({} if isinstance(reason, str | None) else {"failure_reason": reason})


@pytest.mark.rule("7 rule 3", side="sdk")
@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"error": {"code": "X", "message": "words here"}}, "X", "words here"),
        ({"error": "words here"}, None, "words here"),
        ({"code": "X", "message": "words here"}, "X", "words here"),
        ({"code": 17, "msg": "words here"}, "17", "words here"),
        ({"detail": "words here"}, None, "words here"),
        ({"detail": [{"msg": "words here"}]}, None, "words here"),
        (b"words here", None, "words here"),
        (b"<html><head><title>words</title></head><body> here</body></html>", None, "words here"),
        (b'"words here"', None, "words here"),
        (b"", None, ""),
    ],
)
def test_code_and_message_are_read_from_every_common_shape_and_the_raw_body_is_kept(body, code, words):
    raw = answer(body, 400)
    error = service_error(raw, origin=ORIGIN, wall=datetime.now(UTC))
    assert error.code == code
    assert words in str(error)
    assert error.body == raw.body


def test_an_error_message_shows_no_key_that_the_service_echoes():
    error = service_error(answer({"error": "bad key key-never-shown"}, 401), origin=ORIGIN, wall=datetime.now(UTC))
    assert "key-never-shown" not in str(error)


@pytest.mark.rule("5 item 7", "7 error 401", side="sdk")
@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://h/openapi/v1/account", "service key"),
        ("https://cdn/v.mp4?exp=1&sig=2", "signed link"),
        ("https://upstream.example/v.mp4", "upstream"),
    ],
)
def test_the_failing_host_tells_whose_word_a_401_is(url, source):
    assert service_error(answer({}, 401, url=url), origin=ORIGIN, wall=datetime.now(UTC)).source == source


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 429, 431])
def test_the_refusal_of_a_create_is_a_rejection_and_the_service_error_at_once(status):
    plain = service_error(answer({"code": "C"}, status, Retry_After="2"), origin=ORIGIN, wall=datetime.now(UTC))
    error = rejected_error(plain, order_id="o-1", idempotency_key="k", attempts=())
    assert isinstance(error, errors.RejectedError)
    assert isinstance(error, type(plain))
    assert (error.status, error.code, error.retry_after, error.order_id) == (status, "C", 2.0, "o-1")
    assert "o-1" in str(error)


def test_the_outcome_of_a_2xx_without_an_id_says_what_came():
    said = describe_outcome(answer({"ok": True, "key": "key-never-shown"}, 202), AttemptOutcome.UNCERTAIN)
    assert "no task id" in said
    assert "key-never-shown" not in said


@pytest.mark.parametrize(
    "said", ["Bearer key-never-shown", "key-never-shown", "KEY-NEVER-SHOWN", "two words", "x" * 65]
)
def test_what_is_no_plain_word_is_no_code_and_stays_in_the_body(said):
    for name, status in product(("code", "error_code", "type"), (202, 400, 500)):
        raw = answer({name: said, "ok": True}, status)
        error = service_error(raw, origin=ORIGIN, wall=datetime.now(UTC))
        told = describe_outcome(raw, AttemptOutcome.UNCERTAIN)
        assert (error.code, error.body) == (None, raw.body), (name, status)
        assert "never-shown" not in f"{error} {told}".lower(), (name, status)


def test_a_plain_word_is_the_code_where_an_earlier_field_holds_none():
    error = service_error(answer({"code": "see below", "type": "E-17"}, 400), origin=ORIGIN, wall=datetime.now(UTC))
    assert error.code == "E-17"


@pytest.mark.parametrize("extra", [None, 5, "x", {1: 2}, {"a": 1, 2: 3}, {"\ud800": 1}])
def test_an_extra_that_cannot_be_sent_is_refused_by_name(extra):
    with pytest.raises(InvalidRequestError) as caught:
        create_body(VideoRequest(model="m", prompt="p", extra=extra))
    assert all(problem.startswith("extra: ") for problem in caught.value.problems)
    assert len(caught.value.problems) == 1


def test_a_request_that_cannot_be_written_is_quoted_by_no_error_in_the_chain():
    with pytest.raises(InvalidRequestError) as caught:
        create_body(VideoRequest(model="m", prompt="the secret boat \ud800"))
    assert "boat" not in repr(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize("status", ["running", "dreaming of the secret boat, see https://h/x?sig=hush"])
def test_the_repr_of_a_task_shows_no_secret_place(status):
    reason = "refused: https://h/x?exp=17&sig=hush token=hush data:image/png;base64,hush"
    body = {"id": "t", "status": status, "failure_reason": reason, "provider": {"token": "hush"}}
    task = read_task(answer(body), "t")
    assert (task.failure_reason, task.provider) == (reason, {"token": "hush"})
    assert "hush" not in repr(task)
