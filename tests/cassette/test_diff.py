"""What counts as a difference between two cassettes."""

import pytest
from attrs import evolve

from tests.cassette.sample_cassettes import BASE, boat, broken, changed, create, document, download, in_blob, look
from vidgen_async.cassette import Failure, RecordedRequest
from vidgen_async.cassette.diff import (
    MISSING,
    Change,
    Kind,
    Part,
    address,
    compared,
    differences,
    is_older_state,
    moved,
)


def found(before, after):
    return [
        (one.kind, change.part, change.pointer, change.before, change.after)
        for one in differences(before, after)
        for change in one.changes
    ]


def kinds(before, after):
    return [(one.kind, one.op, one.ordinal) for one in differences(before, after)]


def test_a_cassette_does_not_differ_from_itself():
    assert differences(boat(), boat()) == ()


def test_times_and_the_recorder_are_not_compared():
    before = boat()
    later = [evolve(one, started=one.started + 7, answered=None, ended=1000.0) for one in before.interactions]
    after = document(*later, recorded_at=before.meta.recorded_at.replace(year=2027), recorder="another/9")
    assert differences(before, after) == ()


def test_the_order_of_different_lanes_does_not_count():
    account = evolve(look(1), op="account.get", request=RecordedRequest("GET", f"{BASE}/account"))
    one = document(account, look(2))
    other = document(evolve(look(1), n=1), evolve(account, n=2))
    assert differences(one, other) == ()


def test_the_third_look_is_compared_with_the_third():
    before = document(look(1), look(2), look(3, "running"))
    after = document(look(1), look(5), look(9, "completed"))
    (one,) = differences(before, after)
    assert (one.kind, one.ordinal, one.before.n, one.after.n) == (Kind.CHANGED, 3, 3, 9)
    assert found(before, after) == [(Kind.CHANGED, Part.BODY, "/data/status", "running", "completed")]


def test_the_turn_is_told_by_the_ordinal_wherever_it_stands():
    assert differences(document(look(1), look(2, "running")), document(look(2, "running"), look(1))) == ()


def test_what_only_one_has_is_removed_or_added():
    before, after = document(create(), look(2)), document(create(), download(2))
    assert kinds(before, after) == [(Kind.REMOVED, "videos.get", 1), (Kind.ADDED, "videos.download", 1)]
    assert kinds(after, before) == [(Kind.REMOVED, "videos.download", 1), (Kind.ADDED, "videos.get", 1)]


def test_a_look_more_is_added_and_changes_no_other():
    assert kinds(document(look(1), look(2)), document(look(1), look(2), look(3))) == [(Kind.ADDED, "videos.get", 3)]


@pytest.mark.parametrize(
    "other",
    [
        evolve(look(1), op="videos.peek"),
        evolve(look(1), request=RecordedRequest("HEAD", f"{BASE}/videos/task_1")),
        evolve(look(1), request=RecordedRequest("GET", f"{BASE}/videos/task_2")),
    ],
    ids=["operation", "method", "URL"],
)
def test_another_operation_method_or_url_is_another_interaction(other):
    assert [one.kind for one in differences(document(look(1)), document(other))] == [Kind.REMOVED, Kind.ADDED]


def recorded_at(base_url: str, foreign: str = "https://cdn.test"):
    links = (f"{base_url}/videos/task_1?x=1", f"{foreign}/v.mp4")
    looks = [look(n, request=RecordedRequest("GET", url)) for n, url in enumerate(links, 1)]
    return document(*looks, base_url=base_url)


def test_the_services_own_addresses_are_compared_without_its_origin_and_others_whole():
    one, two = "http://127.0.0.1:1/openapi/v1", "http://127.0.0.1:2/openapi/v1"
    assert differences(recorded_at(one), recorded_at(two)) == ()
    found = differences(recorded_at(one), recorded_at(two, "https://cdn2.test"))
    assert [(one.kind, one.url) for one in found] == [
        (Kind.REMOVED, "https://cdn.test/v.mp4"),
        (Kind.ADDED, "https://cdn2.test/v.mp4"),
    ]


def test_that_the_service_was_elsewhere_is_a_change_of_its_own():
    assert moved(boat(), boat()) is None
    assert moved(boat(), boat(base_url="http://127.0.0.1:1")) == Change(Part.BASE_URL, "", BASE, "http://127.0.0.1:1")
    assert moved(boat(base_url=None), boat()) == Change(Part.BASE_URL, "", MISSING, BASE)


def test_an_address_that_only_begins_like_the_services_is_another():
    assert address("https://api.test/v1/x?y=1", "https://api.test/v1") == "/v1/x?y=1"
    assert address("https://api.test.else/v1/x", "https://api.test/v1") == "https://api.test.else/v1/x"
    assert address("https://api.test/v1/x", None) == "https://api.test/v1/x"


def test_another_status_is_a_change():
    assert found(boat(), changed(boat(), 1, status=202)) == [(Kind.CHANGED, Part.STATUS, "", 201, 202)]


def test_a_header_is_compared_by_its_name_in_any_case_and_with_all_its_values():
    before = document(look(1, headers=(("a", "1"), ("b", "2"), ("b", "3"))))
    assert differences(before, document(look(1, headers=(("B", "2"), ("B", "3"), ("A", "1"))))) == ()
    after = document(look(1, headers=(("a", "1"), ("b", "2"), ("c", "4"))))
    assert found(before, after) == [
        (Kind.CHANGED, Part.HEADERS, "/b", ["2", "3"], "2"),
        (Kind.CHANGED, Part.HEADERS, "/c", MISSING, "4"),
    ]


def test_request_bodies_and_headers_are_compared_too():
    request = RecordedRequest("POST", f"{BASE}/videos", (), {"json": {"model": "gen-2.0", "prompt": "Another"}})
    assert [change[1:3] for change in found(document(create()), document(create(request=request)))] == [
        (Part.REQUEST_HEADERS, "/content-type"),
        (Part.REQUEST_BODY, "/prompt"),
        (Part.REQUEST_BODY, "/duration"),
    ]


def test_how_json_was_written_and_where_a_body_is_kept_does_not_count():
    before = document(look(1, body={"json": {"a": 1, "b": 2}, "style": "compact"}), download(2))
    after = document(
        look(1, body={"json": {"b": 2, "a": 1}, "style": "spaced", "redacted": True}),
        download(2, body=in_blob(blob="sha256-0.bin", stored="ends", ends=[1, 1])),
    )
    assert differences(before, after) == ()


def test_another_content_of_a_blob_is_a_change():
    after = document(download(1, body=in_blob(b"another")))
    assert [change[1:3] for change in found(document(download(1)), after)] == [
        (Part.BODY, "/bytes"),
        (Part.BODY, "/sha256"),
    ]


def test_an_answer_without_a_body_differs_from_one_with_null():
    none, null = document(look(1, body=None)), document(look(1, body={"json": None}))
    assert found(none, null) == [(Kind.CHANGED, Part.BODY, "", MISSING, {"json": None})]


def test_json_that_became_text_is_a_change():
    after = document(look(1, body={"text": "Bad gateway"}))
    assert {change[2] for change in found(document(look(1)), after)} == {"/json", "/text"}


def test_a_failure_where_there_was_an_answer_is_a_change():
    parts = [change[1] for change in found(document(look(1)), document(broken(1)))]
    assert parts == [Part.STATUS, Part.HEADERS, Part.BODY, Part.FAILURE]


@pytest.mark.parametrize(
    ("name", "value"),
    [("type", "BodyError"), ("delivery", "answered"), ("phase", "body"), ("message", "gone"), ("received", 7)],
)
def test_every_fact_of_a_failure_is_compared(name, value):
    before = boat()
    failure: Failure = before.interactions[1].failure
    changes = found(before, changed(before, 2, failure=evolve(failure, **{name: value})))
    assert [change[1:3] for change in changes] == [(Part.FAILURE, f"/{name}")]


def test_places_are_json_pointers_as_deep_as_both_have_the_same_shape():
    before = {"a/b": {"~": [1, {"x": 1}]}, "gone": None, "list": [1, 2], "kind": {"x": 1}}
    after = {"a/b": {"~": [1, {"x": 2}]}, "list": [1, 2, 3], "kind": "text"}
    assert list(compared(before, after)) == [
        ("/a~1b/~0/1/x", 1, 2),
        ("/gone", None, MISSING),
        ("/list/2", MISSING, 3),
        ("/kind", {"x": 1}, "text"),
    ]


def test_true_is_not_one():
    assert list(compared({"a": True}, {"a": 1})) == [("/a", True, 1)]


def test_an_older_state_has_nothing_that_the_newer_one_has_not():
    whole = boat()
    older = document(*whole.interactions[:3])
    assert is_older_state(older, whole)
    assert is_older_state(whole, whole)
    assert not is_older_state(whole, older)
    assert not is_older_state(changed(older, 3, status=500), whole)
