"""Where requests go (section 4), and where the key goes: into one header."""

import pytest

from vidgen_async.client.settings import checked_base_url
from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.types.http import BytesBody
from vidgen_async.types.resources import Receipt, VideoTask

KEY = "key-never-shown"


@pytest.fixture
def endpoints() -> Endpoints:
    return Endpoints(checked_base_url("https://h:8443/openapi/v1"), KEY)


@pytest.mark.rule("4 note key", "4 endpoint", "5 item 4", side="sdk")
def test_every_endpoint_has_its_method_and_path(endpoints):
    body = BytesBody(b"{}")
    requests = [
        endpoints.list_models(),
        endpoints.get_account(),
        endpoints.create_file(body),
        endpoints.create_video(body, "vg1-key-key"),
        endpoints.get_video("t-1"),
        endpoints.get_content("t-1"),
    ]
    assert [(request.method, str(request.url)) for request in requests] == [
        ("GET", "https://h:8443/openapi/v1/models"),
        ("GET", "https://h:8443/openapi/v1/account"),
        ("POST", "https://h:8443/openapi/v1/files"),
        ("POST", "https://h:8443/openapi/v1/videos"),
        ("GET", "https://h:8443/openapi/v1/videos/t-1"),
        ("GET", "https://h:8443/openapi/v1/videos/t-1/content"),
    ]
    for request in requests:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        assert KEY not in str(request.url)
        assert KEY not in repr(request)


@pytest.mark.rule("4.5 path id", side="sdk")
@pytest.mark.parametrize(
    ("task_id", "segment"),
    [("a/b", "a%2Fb"), ("a?b#c", "a%3Fb%23c"), ("ü ä", "%C3%BC%20%C3%A4"), ("%2F", "%252F"), ("..a", "..a")],
)
def test_ids_are_quoted_as_one_path_segment(endpoints, task_id, segment):
    assert str(endpoints.get_video(task_id).url) == f"https://h:8443/openapi/v1/videos/{segment}"


@pytest.mark.parametrize("task_id", ["", "  ", ".", "..", " .. "])
def test_empty_blank_and_dot_ids_are_refused(endpoints, task_id):
    with pytest.raises(InvalidRequestError, match="task id"):
        endpoints.get_video(task_id)


def test_a_task_a_receipt_and_an_id_all_mean_the_task(endpoints, now):
    receipt = Receipt(order_id="o", idempotency_key="k", task_id="t-1", accepted_at=now)
    urls = {str(endpoints.get_video(task).url) for task in ("t-1", receipt, VideoTask(id="t-1"))}
    assert len(urls) == 1


def test_anything_else_is_a_type_error_that_names_what_is_accepted(endpoints):
    with pytest.raises(TypeError, match="a task id, a Receipt or a VideoTask"):
        endpoints.get_video(17)


@pytest.mark.rule("2.3 field url", side="sdk")
def test_an_address_that_starts_with_a_slash_gets_the_host_and_keeps_every_byte(endpoints):
    path = "/api/reference-assets/a1/content/x%20y.png?token=a%2Bb%3D%3D&x=%c3%bc"
    assert endpoints.absolute(path) == f"https://h:8443{path}"
    assert endpoints.absolute("https://cdn/x?token=%2b") == "https://cdn/x?token=%2b"
