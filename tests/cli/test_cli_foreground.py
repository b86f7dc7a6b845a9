"""``vidgen sandbox`` in this process: what it logs of what it is asked."""

import asyncio
import builtins
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest

from vidgen_async.cli.foreground import PATIENCE, SandboxLog, describe
from vidgen_async.cli.service import sandbox_class
from vidgen_async.client import Client
from vidgen_async.errors import ConfigurationError
from vidgen_async.sandbox import Fault, ReceivedCreate, Sandbox

from .conftest import PICTURE

FIELDS = {"model": "gen-2.0", "prompt": "a secret plan", "duration": 5}


async def test_each_request_is_one_line_and_told_once():
    async with Sandbox() as service, Client(service.api_key, base_url=service.base_url) as client:
        log = SandboxLog(service)
        await client.files.upload(PICTURE)
        receipt = await client.videos.create(**FIELDS)
        await client.videos.get(receipt)
        assert list(log.news()) == [
            "POST /openapi/v1/files",
            f"GET /openapi/v1/videos/{receipt.task_id}",
            f"create 1: model gen-2.0, answered 202, task {receipt.task_id}",
        ]
        assert list(log.news()) == []
        await client.account.get()
        assert list(log.news()) == ["GET /openapi/v1/account"]


async def test_a_create_without_an_answer_is_told_when_it_is_overdue(monkeypatch):
    async with Sandbox() as service:
        client = Client(service.api_key, base_url=service.base_url)
        log = SandboxLog(service)
        service.faults.add("videos.create", Fault.stall())
        creating = asyncio.get_running_loop().create_task(client.videos.create(**FIELDS))
        while not (service.creates and service.creates[0].task_id):  # noqa: ASYNC110 - the sandbox has no event for it
            await asyncio.sleep(0.01)
        assert list(log.news()) == []

        later = time.monotonic() + PATIENCE + 1
        monkeypatch.setattr(time, "monotonic", lambda: later)
        (line,) = log.news()
        monkeypatch.undo()
        assert line.startswith("create 1: model gen-2.0, no answer, task task_")
        assert line.endswith(", fault: stall")

        await client.aclose(grace=0)
        await asyncio.gather(creating, return_exceptions=True)


def test_a_create_is_described_without_its_prompt():
    create = ReceivedCreate(3, "key-of-order", {}, 0.0, status=400)
    assert describe(create) == "create 3: no readable body, answered 400, no task"
    create.body, create.status, create.task_id, create.replayed = {"model": "m", "prompt": "secret"}, 202, "t", True
    assert describe(create) == "create 3: model m, answered 202, task t, made by an earlier create"


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_what_to_export_serves_and_ends_cleanly(here, monkeypatch, which):
    asked = []

    def use() -> None:
        while not (line := os.environ.get("TEST_CLI_READY")):
            time.sleep(0.01)
        with pytest.raises(urllib.error.HTTPError) as answered:
            urllib.request.urlopen(f"{line}/models")  # noqa: S310 - our own sandbox
        asked.append(answered.value.code)
        answered.value.close()
        time.sleep(0.25)
        os.kill(os.getpid(), which)

    opened = Sandbox.__aenter__

    async def open_and_tell(self):
        await opened(self)
        monkeypatch.setenv("TEST_CLI_READY", self.base_url)
        return self

    monkeypatch.setattr(Sandbox, "__aenter__", open_and_tell)
    user = threading.Thread(target=use)
    user.start()
    code, out, err = here("sandbox")
    user.join(10)

    assert asked == [401]
    assert code == 0
    assert out.startswith("export VIDGEN_BASE_URL=http://127.0.0.1:")
    assert "\nexport VIDGEN_API_KEY=sandbox-key-" in out
    assert ": GET /openapi/v1/models" in err
    assert err.splitlines()[-1] == "sandbox: ended"


def test_a_port_that_is_taken_is_one_sentence(here, service):
    code, _, err = here("sandbox", "--port", str(service.base_url.split(":")[2].split("/")[0]))
    assert code == 2
    assert "the sandbox cannot listen on 127.0.0.1, port" in err


def test_a_sandbox_that_lacks_a_library_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without_pillow(name, *facts):
        if name == "vidgen_async.sandbox":
            raise ImportError("no sandbox") from ModuleNotFoundError("no PIL", name="PIL")
        return real(name, *facts)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(ConfigurationError) as caught:
        sandbox_class()
    assert str(caught.value) == 'the sandbox needs PIL, which is not installed: pip install "vidgen-async[sandbox]"'


def test_a_fault_of_the_sandbox_itself_is_not_taken_for_a_missing_library(monkeypatch):
    real = builtins.__import__

    def broken(name, *facts):
        if name == "vidgen_async.sandbox":
            raise ImportError("cannot import name")
        return real(name, *facts)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ImportError, match="cannot import name"):
        sandbox_class()
