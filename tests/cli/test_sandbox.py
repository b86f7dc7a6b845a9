"""``vidgen sandbox`` in this process: its options, its output and its log."""

import builtins
import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import aiohttp
import pytest

from tests.signals import interrupt
from vidgen_async.cli.commands.sandbox import describe
from vidgen_async.cli.service_connection import sandbox_class
from vidgen_async.sandbox import Fault, ReceivedCreate, ReceivedRequest, Sandbox, media
from vidgen_async.sandbox.state import SandboxState

FIELDS = {"model": "gen-2.0", "prompt": "a secret plan", "duration": 5}


@pytest.fixture
def log_lines() -> list[str]:
    """The lines of the log."""
    return []


@pytest.fixture
async def logged(log_lines):
    def log(request: ReceivedRequest) -> None:
        if request.is_over:
            log_lines.append(describe(request))

    async with Sandbox(on_request=log) as sandbox:
        yield sandbox


@pytest.fixture
async def session(logged):
    headers = {"Authorization": f"Bearer {logged.api_key}"}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(20)) as made:
        yield made


async def test_each_request_is_one_line_with_its_status(logged, session, log_lines):
    logged.faults.add("videos.get", Fault.status(503))
    made = await (await session.post(f"{logged.base_url}/videos", json=FIELDS)).json()
    for _ in range(2):
        (await session.get(f"{logged.base_url}/videos/{made['id']}")).release()

    assert log_lines == [
        f"create 1: model gen-2.0, status 202, task {made['id']}",
        f"GET /openapi/v1/videos/{made['id']}: 503, fault: status 503",
        f"GET /openapi/v1/videos/{made['id']}: 200",
    ]


@pytest.mark.parametrize("op", ["videos.create", "videos.content"])
async def test_an_exception_of_the_sandbox_is_in_its_500_and_in_the_line(op, logged, session, log_lines, monkeypatch):
    def fail(*_: object) -> None:
        raise PermissionError("no\nway to write")

    created = await (await session.post(f"{logged.base_url}/videos", json=FIELDS)).json()
    logged.clock.advance(60)
    monkeypatch.setattr(media, "find_renderer", lambda: fail)
    monkeypatch.setattr(SandboxState, "add_task", fail)
    if op == "videos.create":
        answer = await session.post(f"{logged.base_url}/videos", json=FIELDS)
    else:
        answer = await session.get(f"{logged.base_url}/videos/{created['id']}/content")

    assert answer.status == 500
    assert (await answer.json())["error"]["message"] == "the sandbox itself failed: PermissionError: no\nway to write"
    assert log_lines[-1].endswith(", the sandbox itself failed: PermissionError: no way to write")
    assert logged.requests[-1].error == "PermissionError: no\nway to write"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v/up-1.mp4?exp=99&sig=secret", "/v/up-1.mp4?…"),
        ("/openapi/v1/videos/sk-live-51HG7aQ9bXw", "/openapi/v1/videos/…"),
        ("/openapi/v1/videos/sk%2Dlive%2D51HG7aQ9bXw", "/openapi/v1/videos/…"),
        ("/Bearer%20secret-of-mine/models", "/…/models"),
    ],
)
def test_a_secret_in_a_path_or_its_query_is_not_logged(path, shown):
    request = ReceivedRequest("links", "unknown", "GET", path, 0.0, {}, status=401)

    assert describe(request) == f"links: GET {shown}: 401"


def test_a_create_is_described_without_its_prompt():
    create = ReceivedCreate(3, "key-of-order", {}, 0.0)
    request = ReceivedRequest("api", "videos.create", "POST", "/openapi/v1/videos", 0.0, {}, create=create, status=400)
    assert describe(request) == "create 3: no readable body, status 400, no task"
    create.body, create.task_id, create.replayed = {"model": "m", "prompt": "secret"}, "t", True
    assert describe(request) == "create 3: model m, status 400, task t, created by an earlier request"


@pytest.fixture
def served(here):
    """Runs ``vidgen sandbox`` in this process. When it is ready, ``use`` is called with it on another thread; then it
    is interrupted. Returns the result of ``use``, the exit code, stdout and stderr."""

    def run(use, *arguments: str, which: signal.Signals = signal.SIGINT):
        opened: list[Sandbox] = []
        used: list[object] = []

        def in_thread() -> None:
            try:
                used.append(use(opened[0]))
            finally:
                interrupt(which)

        enter = Sandbox.__aenter__

        async def open_and_keep(self):
            opened.append(await enter(self))
            return self

        user = threading.Thread(target=in_thread, daemon=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sandbox, "__aenter__", open_and_keep)
            code, out, err = here("sandbox", *arguments, when={"Ctrl-C": user.start})
        user.join(10)
        (result,) = used
        return result, code, out, err

    return run


def test_it_prints_the_variables_serves_and_stops_cleanly(served):
    for which in (signal.SIGINT, signal.SIGTERM):
        status, code, out, err = served(lambda sandbox: request_json(f"{sandbox.base_url}/models")[0], which=which)
        assert status == 401
        assert code == 0
        assert out.startswith("export VIDGEN_BASE_URL=http://127.0.0.1:")
        assert "\nexport VIDGEN_API_KEY=sandbox-key-" in out
        assert ": GET /openapi/v1/models: 401" in err
        assert err.splitlines()[-1] == "sandbox: stopped"


def request_json(url: str, key: str = "", **body: object) -> tuple[int, dict]:
    """GET, or POST of a JSON body."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - our own sandbox
    if body:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - our own sandbox
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_text_of_a_client_cannot_control_the_terminal(served):
    model = "a\x1b[2Jb\x9b2Jc\x07d\u202ee\u200bf\nINJECTED"
    _, code, out, err = served(
        lambda box: request_json(f"{box.base_url}/videos", box.api_key, model=model, prompt="p"), "--account", "b=5"
    )
    assert code == 0
    assert "create 1: model a�[2Jb�2Jc�d�e�f INJECTED, status 400" in err
    assert all(char.isprintable() or char == "\n" for char in out + err)


def test_stdout_can_be_evaluated_by_a_shell_and_has_additional_accounts_as_comments(served, monkeypatch):
    monkeypatch.setenv("VIDGEN_SANDBOX_KEY", "key-of-mine")
    _, code, out, err = served(lambda _: None, "--account", "b=500", "--account", "c")

    script = 'eval "$1"; echo "$VIDGEN_BASE_URL $VIDGEN_API_KEY"'
    shown = subprocess.run(["/bin/sh", "-c", script, "sh", out], capture_output=True, text=True, check=True)  # noqa: S603
    assert code == 0
    assert err.index("console: ") < err.index("control: ") < err.index("Ctrl-C")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/openapi/v1 key-of-mine\n", shown.stdout)
    assert re.findall(r"^# account (\w+): export VIDGEN_API_KEY=sandbox-key-\w+$", out, re.MULTILINE) == ["b", "c"]
    assert len(out.splitlines()) == 4


def test_with_json_one_line_has_the_urls_and_the_accounts_with_working_keys(served):
    def use(sandbox: Sandbox):
        with urllib.request.urlopen(sandbox.console_url, timeout=20) as page:  # noqa: S310 - our own sandbox
            kind = page.headers["Content-Type"]
        keys = [account.api_key for account in sandbox.accounts.values()]
        balances = [request_json(f"{sandbox.base_url}/account", key)[1]["credits"] for key in keys]
        return sandbox.console_url, kind, keys, balances, request_json(f"{sandbox.links_url}/v/up-1.mp4")[0]

    seen, code, out, err = served(use, "--json", "--balance", "7", "--account", "b=500")
    (line,) = out.splitlines()
    document = json.loads(line)
    console, kind, keys, balances, link = seen
    assert [(account["name"], account["balance"]) for account in document["accounts"]] == [("account-1", 7), ("b", 500)]
    assert [account["api_key"] for account in document["accounts"]] == keys
    assert document["api_key"] == keys[0]
    assert balances == [7, 500]
    assert document["console"] == console
    assert kind.startswith("text/html")
    assert document["console"].startswith(document["base_url"].removesuffix("openapi/v1"))
    assert link == 401
    assert code == 0
    assert [json.loads(line) for line in err.splitlines()][-1] == {"sandbox": "stopped"}


def test_limits_times_and_faults_are_those_of_the_options(served):
    def use(sandbox: Sandbox):
        url, key, console = sandbox.base_url, sandbox.api_key, sandbox.console_url
        with pytest.raises(json.JSONDecodeError):
            request_json(f"{url}/account", key)
        state = request_json(f"{console}sandbox/state")[1]
        statuses = [request_json(f"{url}/videos", key, **FIELDS)[0] for _ in range(3)]
        return state, statuses, request_json(f"{console}sandbox/state")[1]["tasks"][0]

    (state, statuses, task), *_ = served(
        use,
        *("--submission-limit", "2", "--queued-for", "10", "--running-for", "20", "--speed", "0"),
        *("--fault", "account.get=status,code=418,body=teapot:2", "--fault", "models.list=html:always"),
    )
    assert [(fault["op"], fault["fault"], fault["times"]) for fault in state["faults"]] == [
        ("account.get", "status 418", 1),
        ("models.list", "html 200", None),
    ]
    assert statuses == [202, 202, 429]
    assert (task["starts_at"] - state["now"], task["ends_at"] - state["now"]) == (10, 30)


def test_a_bad_key_is_named_by_its_variable_and_not_shown(here, monkeypatch, fails):
    monkeypatch.setenv("VIDGEN_SANDBOX_KEY", "with blanks")
    code, _, err = here("sandbox")

    assert code == 2
    assert "VIDGEN_SANDBOX_KEY: must be 8 to 200 visible ASCII characters" in err
    assert "with blanks" not in err
    for key, problem in {"'hush-hush'": "has quotes around it", "YOUR_API_KEY": "is a placeholder"}.items():
        monkeypatch.setenv("VIDGEN_SANDBOX_KEY", key)
        err = fails(2, "sandbox")
        assert f"VIDGEN_SANDBOX_KEY {problem}" in err
        assert key not in err


def test_listening_on_a_public_address_causes_a_warning(here):
    for host, is_warned in {"0.0.0.0": True, "127.0.0.1": False, "localhost": False}.items():  # noqa: S104
        code, out, err = here("sandbox", "--host", host, when={"Ctrl-C": interrupt})
        assert code == 0
        assert "export VIDGEN_BASE_URL=http://127.0.0.1:" in out or host == "localhost"
        assert ("every client sees the keys" in err) == is_warned, host


def test_public_urls_are_printed_instead_of_the_address_it_listens_at(here):
    options = ("--host", "0.0.0.0", "--public-url", "https://sandbox.test/", "--public-links-url", "https://v.test")  # noqa: S104
    code, out, _ = here("sandbox", *options, "--json", when={"Ctrl-C": interrupt})
    shown = json.loads(out)

    assert code == 0
    assert (shown["base_url"], shown["links_url"]) == ("https://sandbox.test/openapi/v1", "https://v.test")
    assert shown["console"] == "https://sandbox.test/"


def test_a_port_in_use_is_named(service, fails):
    port = service.base_url.split(":")[2].split("/")[0]
    for option in ("--port", "--links-port"):
        err = fails(2, "sandbox", option, port)
        assert f"the sandbox cannot listen on 127.0.0.1, port {port}: Address already in use" in err


def test_a_bug_in_the_sandbox_is_not_reported_as_a_missing_library(monkeypatch):
    real = builtins.__import__

    def broken(name, *facts):
        if name == "vidgen_async.sandbox":
            raise ImportError("cannot import name")
        return real(name, *facts)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ImportError, match="cannot import name"):
        sandbox_class()
