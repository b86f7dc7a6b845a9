"""The log of received requests: what it holds, how it is filtered, and what it does not show."""

import json
from urllib.parse import urlencode

import pytest
from yarl import URL

from tests.sandbox.conftest import picture
from vidgen_async.sandbox import Fault
from vidgen_async.sandbox.request_log import LOGGED_BODY


@pytest.fixture
def read_log(service, api):
    """Returns requests as the control path shows them."""

    async def get(path: str = "", **query: object):
        url = f"{service.console_url}sandbox/requests{path}?{urlencode(query)}"
        return (await api.get(url, bare=True)).json

    return get


async def numbers(read_log, **query: object) -> list[int]:
    return [request["n"] for request in (await read_log(**query))["requests"]]


async def test_a_request_is_logged_with_its_answer_its_time_and_its_body(service, api, read_log):
    reply = await api.create("key-of-order", prompt="A paper boat")

    (request,) = (await read_log())["requests"]
    detail = await read_log("/1")

    for found in (request, detail):
        assert (found["n"], found["method"], found["path"]) == (1, "POST", "/openapi/v1/videos")
        assert (found["status"], found["request_id"]) == (202, reply.headers["x-request-id"])
        assert 0 < found["milliseconds"] < 20_000
        assert (found["account"], found["task_id"]) == ("account-1", reply.json["id"])
        assert found["headers"]["Idempotency-Key"] == "key-of-order"
    assert json.loads(detail["body"]) == service.creates[0].body
    assert (detail["size"], detail["is_cut"]) == (len(service.creates[0].raw), False)
    assert detail["sha256"] == service.creates[0].sha256


async def test_a_request_without_an_answer_has_no_request_id(service, session, api, read_log):
    service.faults.add("videos.create", Fault.close_before_body())
    with pytest.raises(Exception, match="disconnected"):
        await api.create()

    (request,) = (await read_log())["requests"]

    assert (request["status"], request["request_id"], request["is_over"]) == (None, None, True)
    assert (request["fault"], request["has_key"]) == ("close before body", True)


async def test_the_requests_of_one_task_have_its_id(api, read_log):
    task_id = (await api.create()).json["id"]
    await api.get(f"/videos/{task_id}")
    await api.get(f"/videos/{task_id}/content")
    await api.get("/account")

    assert [request["task_id"] for request in (await read_log())["requests"]] == [task_id, task_id, task_id, None]


async def test_the_log_is_read_in_pages(api, read_log):
    for _ in range(5):
        await api.get("/account")

    newest, older, oldest = [await read_log(limit=2, **more) for more in ({}, {"before": 4}, {"before": 2})]

    assert [[request["n"] for request in page["requests"]] for page in (newest, older, oldest)] == [[4, 5], [2, 3], [1]]
    assert [page["has_older"] for page in (newest, older, oldest)] == [True, True, False]
    assert (await read_log(limit=5))["has_older"] is False
    assert await numbers(read_log) == [1, 2, 3, 4, 5]


async def test_the_log_is_filtered(service, api, stranger, read_log):
    created = (await api.create("key-of-order", prompt="A Paper boat")).json["id"]
    missing = await api.get("/videos/task_unknown")
    await stranger.get("/account")
    service.faults.add("models.list", Fault.close_after_body(), times=None)
    with pytest.raises(Exception, match="disconnected"):
        await api.get("/models")
    lost = len(service.requests)
    await api.get("/account", bare=True)
    bare = len(service.requests)

    for query, expected in (
        ({"status": "2xx"}, [1, 3]),
        ({"status": "404"}, [2]),
        ({"op": "account.get"}, [3, bare]),
        ({"account": "account-2"}, [3, bare]),
        ({"search": "paper BOAT"}, [1]),
        ({"search": "Key-of-order"}, [1]),
        ({"search": created}, [1]),
        ({"search": missing.headers["x-request-id"]}, [2]),
        ({"search": "post"}, [1]),
        ({"search": "nothing has this"}, []),
        ({"search": "task_unknown", "status": "2xx"}, []),
    ):
        assert await numbers(read_log, **query) == expected, query
    assert lost in await numbers(read_log, status="none")


async def test_a_filter_that_does_not_exist_is_400(read_log):
    for query in ({"status": "6xx"}, {"op": "*"}, {"before": "x"}, {"limit": "-1"}, {"page": "2"}):
        answer = await read_log(**query)
        assert answer["error"]["code"] == "INVALID_PARAMETER", query


async def test_a_request_that_is_not_in_the_log_is_404(read_log):
    for number in ("1", "x", "0"):
        assert (await read_log(f"/{number}"))["error"]["code"] == "NOT_FOUND"


async def test_no_secret_of_a_request_is_shown(service, api, read_log):
    body = {
        "model": "gen-2.0",
        "prompt": f"the key is {service.api_key}",
        "api_key": "planted-1",
        "nested": {"clientSecret": 'planted-2"planted-3'},
        "note": "Bearer planted-4",
        "image_urls": [
            "https://bucket.test/a.png?X-Amz-Signature=planted-5&X-Amz-Security-Token=planted-6&width=64",
            "https://ann:planted-7@pics.test/b.png",
        ],
    }
    headers = {"X-Api-Key": "planted-8", "Cookie": "a=planted-9", "X-Note": "Basic planted-10"}
    await api.post("/videos?token=planted-11&sig=planted-12&design=shown", body, headers=headers)

    detail = await read_log("/1")

    text = json.dumps([detail, await read_log()])
    assert "planted" not in text
    assert service.api_key not in text
    assert json.loads(detail["body"])["image_urls"][0].endswith("&width=64")
    assert detail["path"] == "/openapi/v1/videos?token=…&sig=…&design=shown"
    assert detail["headers"]["X-Note"] == "Basic …"
    assert "the key is …" in detail["body"]


async def test_no_secret_that_is_percent_encoded_in_a_path_is_shown(service, session, api, read_log):
    key = service.api_key
    for task_id in (
        key,
        f"{key[:-1]}%{ord(key[-1]):x}",
        "https%3A%2F%2Fh%2Fv.mp4%3Fexp%3D1%26sig%3Dplanted",
        "token%253Dplanted",
        "token=planted%26planted",
        "plain%2Fid",
    ):
        async with session.get(URL(f"{service.base_url}/videos/{task_id}", encoded=True)):
            pass

    requests = (await read_log())["requests"]

    text = json.dumps(requests)
    assert "planted" not in text
    assert key[:-1] not in text
    assert [request["path"].rpartition("videos/")[2] for request in requests[2:]] == [
        "https://h/v.mp4?exp=1&sig=…", "token=…", "token=…", "plain%2Fid",
    ]  # fmt: skip
    assert (requests[0]["task_id"], requests[-1]["task_id"]) == ("…", "plain/id")


async def test_of_a_large_body_the_beginning_is_stored_and_of_an_image_the_beginning_is_shown(service, api, read_log):
    await api.upload(picture(size=(900, 700)))
    await api.create(prompt="boat " * 4000)

    upload, create = await read_log("/1"), await read_log("/2")

    assert upload["body"].startswith('{"image_b64": "iVBOR')
    assert len(upload["body"]) < 100
    assert (create["is_cut"], create["size"]) == (True, len(service.creates[0].raw))
    assert len(service.requests[1].body) == LOGGED_BODY


async def test_a_reset_clears_the_log_and_its_numbers(service, api, read_log):
    await api.get("/account")
    service.reset()
    await api.get("/models")

    assert [(request["n"], request["op"]) for request in (await read_log())["requests"]] == [(1, "models.list")]
