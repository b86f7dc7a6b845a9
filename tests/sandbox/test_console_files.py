"""The files of the console and their Content-Security-Policy. No browser is needed."""

import re
from typing import Any

import pytest

from vidgen_async.sandbox import Fault

OWN_FILES = ("base.css", "sections.css", "main.js", "icon.svg")


def home(service: Any) -> str:
    return service.base_url.removesuffix("/openapi/v1")


async def test_the_page_needs_no_key_is_not_cached_and_loads_nothing_from_other_hosts(service, api):
    answer = await api.get(f"{home(service)}/", bare=True)

    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    assert policy.pop("media-src") == service.links_url
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert policy["script-src"] == "'self'"


async def test_every_file_of_the_page_is_served_and_names_no_other_host(service, api):
    pending, texts = ["/"], {}

    while pending:
        path = pending.pop()
        answer = await api.get(home(service) + path, bare=True)
        assert answer.status == 200, path
        texts[path] = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
        links = re.findall(r'(?:href|src)="(/[^"]+)"', texts[path])
        links += [f"/sandbox/console/{name}" for name in re.findall(r'from "\./([^"]+)"', texts[path])]
        pending += {*links} - {*texts, *pending, "/openapi.json"}

    assert {f"/sandbox/console/{name}" for name in OWN_FILES} < {*texts}
    assert [path for path, text in texts.items() if re.search(r"(https?:)?//[\w-]+\.", text)] == []
    assert [path for path, text in texts.items() if re.search(r"innerHTML|outerHTML|insertAdjacentHTML", text)] == []


@pytest.mark.parametrize("name", ["nothing.js", "console.py", "..%2fconsole.py", "index.html%00"])
async def test_other_files_are_not_served(service, api, name):
    answer = await api.get(f"{home(service)}/sandbox/console/{name}", bare=True)

    assert (answer.status, answer.code) == (404, "NOT_FOUND")


async def test_requests_of_the_console_are_not_logged(service, api):
    service.faults.add("*", Fault.status(500))

    reply = await api.send("HEAD", f"{home(service)}/", bare=True)

    assert (reply.status, reply.body) == (200, b"")
    assert service.requests == []
    assert len(service.faults.planned) == 1


async def test_only_a_completed_task_has_a_video_to_download(service, api):
    task_id = (await api.create()).json["id"]

    early = await api.get(f"{home(service)}/sandbox/console/videos/{task_id}", bare=True)
    unknown = await api.get(f"{home(service)}/sandbox/console/videos/task_unknown", bare=True)

    assert (early.status, unknown.status) == (404, 404)
    assert service.rendered == 0
