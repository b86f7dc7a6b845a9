"""``vidgen sandbox`` in this process: what it logs of what it is asked."""

import asyncio
import builtins
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import aiohttp
import pytest

from vidgen_async.cli import sandbox_runner
from vidgen_async.cli.sandbox_runner import SandboxLog, describe_create
from vidgen_async.cli.service_connection import sandbox_class
from vidgen_async.errors import ConfigurationError
from vidgen_async.sandbox import Fault, ReceivedCreate, Sandbox

FIELDS = {"model": "gen-2.0", "prompt": "a secret plan", "duration": 5}


@pytest.fixture
def told() -> list[str]:
    """The lines of the log."""
    return []


@pytest.fixture
async def logged(told):
    async with Sandbox(on_request=SandboxLog(told.append).saw) as sandbox:
        yield sandbox


@pytest.fixture
async def session(logged):
    headers = {"Authorization": f"Bearer {logged.api_key}"}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(20)) as made:
        yield made


async def test_each_request_is_one_line_with_its_answer(logged, session, told):
    logged.faults.add("videos.get", Fault.status(503))
    made = await (await session.post(f"{logged.base_url}/videos", json=FIELDS)).json()
    for _ in range(2):
        (await session.get(f"{logged.base_url}/videos/{made['id']}")).release()

    assert told == [
        f"create 1: model gen-2.0, answered 202, task {made['id']}",
        f"GET /openapi/v1/videos/{made['id']}: 503, fault: status 503",
        f"GET /openapi/v1/videos/{made['id']}: 200",
    ]


async def test_a_create_without_an_answer_is_told_when_it_is_overdue_and_when_it_is_over(
    logged, session, told, monkeypatch
):
    monkeypatch.setattr(sandbox_runner, "PATIENCE", 0.05)
    logged.faults.add("videos.create", Fault.stall())
    creating = asyncio.create_task(session.post(f"{logged.base_url}/videos", json=FIELDS))
    while not told:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0.01)

    assert len(told) == 1
    assert told[0].startswith("create 1: model gen-2.0, no answer, task task_")
    assert told[0].endswith(", fault: stall")
    await logged.aclose()
    with pytest.raises(aiohttp.ClientError):
        await creating
    assert told[1:] == told[:1]


async def test_a_signed_link_is_told_without_its_signature(logged, session, told):
    answer = await session.get(f"{logged.links_url}/v/up-1.mp4?exp=99&sig=secret")
    answer.release()

    assert told == ["links: GET /v/up-1.mp4?exp=…&sig=…: 401"]


def test_a_create_is_described_without_its_prompt():
    create = ReceivedCreate(3, "key-of-order", {}, 0.0, status=400)
    assert describe_create(create) == "create 3: no readable body, answered 400, no task"
    create.body, create.status, create.task_id, create.replayed = {"model": "m", "prompt": "secret"}, 202, "t", True
    assert describe_create(create) == "create 3: model m, answered 202, task t, made by an earlier create"


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
    assert ": GET /openapi/v1/models: 401" in err
    assert err.splitlines()[-1] == "sandbox: ended"


def sandbox_of(vidgen, *arguments, **env):
    """A running ``vidgen sandbox --json`` and what it printed."""
    command = vidgen("sandbox", "--json", *arguments, **env)
    return command, json.loads(command.process.stdout.readline())


def asked(url: str, key: str = "", **body: object) -> tuple[int, dict]:
    """GET, or POST of a JSON body."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - our own sandbox
    if body:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own sandbox
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_stdout_is_what_a_shell_evaluates_with_further_accounts_as_comments(vidgen):
    sandbox = vidgen("sandbox", "--account", "b=500", "--account", "c", VIDGEN_SANDBOX_KEY="key-of-mine")
    sandbox.until("console: ")
    sandbox.until("control: ")
    sandbox.until("Ctrl-C")
    sandbox.interrupt()
    code, out, _ = sandbox.end()

    script = 'eval "$1"; echo "$VIDGEN_BASE_URL $VIDGEN_API_KEY"'
    shown = subprocess.run(["/bin/sh", "-c", script, "sh", out], capture_output=True, text=True, check=True)  # noqa: S603
    assert code == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/openapi/v1 key-of-mine\n", shown.stdout)
    assert re.findall(r"^# account (\w+): export VIDGEN_API_KEY=sandbox-key-\w+$", out, re.MULTILINE) == ["b", "c"]
    assert len(out.splitlines()) == 4


def test_with_json_one_line_tells_addresses_and_accounts_and_their_keys_work(vidgen):
    sandbox, told = sandbox_of(vidgen, "--balance", "7", "--account", "b=500")

    assert [(account["name"], account["balance"]) for account in told["accounts"]] == [("account-1", 7), ("b", 500)]
    assert told["api_key"] == told["accounts"][0]["api_key"]
    answers = [asked(f"{told['base_url']}/account", account["api_key"])[1] for account in told["accounts"]]
    assert [answer["credits"] for answer in answers] == [7, 500]
    with urllib.request.urlopen(told["console"]) as page:  # noqa: S310 - our own sandbox
        assert page.headers["Content-Type"].startswith("text/html")
    assert asked(f"{told['links_url']}/v/up-1.mp4")[0] == 401
    sandbox.interrupt()
    code, out, err = sandbox.end()
    assert (code, out) == (0, "")
    assert [json.loads(line) for line in err.splitlines()][-1] == {"sandbox": "ended"}


def test_limits_times_and_faults_are_what_was_asked_for(vidgen):
    _, told = sandbox_of(
        vidgen,
        *("--submission-limit", "2", "--queued-for", "10", "--running-for", "20", "--speed", "0"),
        *("--fault", "account.get=status,code=418,body=teapot:2", "--fault", "models.list=html:always"),
    )
    url, key = told["base_url"], told["api_key"]
    with pytest.raises(json.JSONDecodeError):
        asked(f"{url}/account", key)
    state = asked(f"{told['console']}sandbox/state")[1]
    statuses = [asked(f"{url}/videos", key, **FIELDS)[0] for _ in range(3)]
    task = asked(f"{told['console']}sandbox/state")[1]["tasks"][0]

    assert [(fault["op"], fault["fault"], fault["times"]) for fault in state["faults"]] == [
        ("account.get", "status 418", 1),
        ("models.list", "html 200", None),
    ]
    assert statuses == [202, 202, 429]
    assert (task["starts_at"] - state["now"], task["ends_at"] - state["now"]) == (10, 30)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fault", "videos.create"], "must be OP=NAME"),
        (["--fault", "a=stall", "--fault", "*=edit"], "op: must be one of"),
        (["--fault", "a=stall", "--fault", "*=edit"], "fault: must be one of"),
        (["--fault", "*=status,code=1"], "code: must be a whole number of 200 to 999, not 1"),
        (["--account", "b=x"], "'b=x': the credits must be a whole number"),
        (["--account", "b", "--account", "b=3"], "an account is given twice"),
        (["--account", "account-1"], "there is an account 'account-1' already"),
        (["--state", "/nowhere/at/all/x.db"], "the state /nowhere/at/all/x.db cannot be opened: No such file"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_in_one_sentence(here, arguments, words):
    code, out, err = here("sandbox", *arguments)

    assert (code, out) == (2, "")
    assert words in err


def test_a_bad_key_is_named_by_its_variable_and_not_shown(here, monkeypatch):
    monkeypatch.setenv("VIDGEN_SANDBOX_KEY", "with blanks")
    code, _, err = here("sandbox")

    assert code == 2
    assert "VIDGEN_SANDBOX_KEY: must be 8 to 200 visible ASCII characters" in err
    assert "with blanks" not in err


@pytest.mark.parametrize(("host", "is_warned"), [("0.0.0.0", True), ("127.0.0.1", False), ("localhost", False)])  # noqa: S104
def test_on_an_address_that_others_reach_it_says_what_they_see(vidgen, host, is_warned):
    sandbox = vidgen("sandbox", "--host", host)
    sandbox.until("Ctrl-C")

    assert ("whoever reaches it sees the keys" in sandbox.shown) == is_warned


def test_a_port_of_links_that_is_taken_is_named(here, service):
    taken = service.base_url.split(":")[2].split("/")[0]
    code, _, err = here("sandbox", "--links-port", taken)

    assert code == 2
    assert f"the sandbox cannot listen on 127.0.0.1, port {taken}: Address already in use" in err


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
