"""Every program of the documentation does what its page states."""

import asyncio
import contextlib
import io
import json
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import av
import pytest
from yarl import URL

from tests.docs.documentation import ROOT, find_blocks, find_program, run_program
from tests.media.test_upload import PNG
from tests.transports.raw_service import make_certificate, raw_service, responds
from vidgen_async import CatalogModel, Client, Pacing, UncertainCreateError, VideoRequest
from vidgen_async.errors import ConnectError, ConnectionLostError
from vidgen_async.sandbox import Fault
from vidgen_async.transports import BufferedResponse, Delivery, DirectTransport, FakeTransport, Request

pytestmark = pytest.mark.slow

TASK = b'HTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n{"id": "task-1", "status": "queued"}'
VIDEO = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)

#: The modules that run programs, and the calls by which they do.
RUNNERS = {
    "tests/docs/test_programs.py": "run_program",
    "tests/docs/test_tutorial.py": "run_program",
    "tests/docs/test_backups.py": "run_program",
    "tests/docs/test_operations.py": "run_program",
    "tests/docs/test_without_an_event_loop.py": "run_program",
    "tests/otel/test_dashboard.py": "run_program",
    "tests/pytest_plugin/test_documentation.py": "find_program",
}


def test_the_program_of_the_readme_runs_offline_and_saves_a_video(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_program("key, url = service.api_key, service.base_url")
    assert printed.getvalue() == "boat.mp4 15\n"
    with av.open("boat.mp4") as video:
        assert video.duration / av.time_base == pytest.approx(5, abs=0.2)


def test_the_program_of_the_readme_has_at_most_fifteen_lines():
    program = find_program("key, url = service.api_key, service.base_url")
    assert program.page == "README.md"
    assert len([line for line in program.text.splitlines() if line.strip()]) <= 15


async def test_the_program_about_creates_returns_the_task_id(client, service):
    make = run_program("async def make(")["make"]
    assert await make(client, "order-1187") == service.creates[0].task_id

    service.faults.add("videos.create", Fault.close_after_body())
    with pytest.raises(UncertainCreateError):
        await make(client, "order-1188")


@pytest.mark.usefixtures("environment")
async def test_the_program_of_a_job_states_whether_to_run_it_again(client, service, tmp_path):
    run_job = run_program("async def run_job(")["run_job"]
    service.faults.add("videos.create", Fault.status(429, headers={"Retry-After": "0"}))
    service.faults.add("videos.create", Fault.status(402))
    assert [await run_job(client, "job-1", "a boat") for _ in range(3)] == [True, False, False]
    assert (tmp_path / "job-1.mp4").read_bytes()[4:8] == b"ftyp"
    assert [create.status for create in service.creates] == [429, 402, 202]


async def test_the_program_with_a_local_image_saves_one_video_for_one_order(client, service, tmp_path, capsys):
    image = tmp_path / "boat.png"
    shutil.copyfile(ROOT / "examples" / "boat.png", image)
    animate = run_program("async def animate(")["animate"]
    for _ in range(2):
        assert await animate(client, "order-1187", image) == tmp_path / "boat.mp4"
    assert (tmp_path / "boat.mp4").read_bytes()[4:8] == b"ftyp"
    assert [request.op for request in service.requests if request.method == "POST"] == ["files.create", "videos.create"]
    assert {"upload 1.0", "order None", "download 1.0"} <= set(capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("environment")
async def test_the_programs_about_budgets_show_prices_and_order_within_the_budget(client, service, capsys):
    await run_program("async def show_prices(")["show_prices"](client)
    assert "gen-2.0 {'points': 20" in capsys.readouterr().out
    price = run_program("def price(model")["price"]
    assert price(CatalogModel(code="m", extra={"points_per_second": 2.5}), VIDEO) == 12.5
    assert price(CatalogModel(code="m"), VIDEO) is None
    assert await run_program("async def order_within_budget(")["order_within_budget"](["a boat"] * 30) == 25
    assert "of the budget of 500 points in 86400 s 0 are spent and 500 are reserved" in capsys.readouterr().out
    assert len(service.creates) == 25
    await client.videos.wait(await client.videos.create(VIDEO))
    await run_program("async def show_spend(")["show_spend"](client)
    assert "gen-2.0                  1 videos         20 points" in capsys.readouterr().out


@pytest.mark.parametrize("language", ["json", "text"])
async def test_the_program_for_thousands_of_videos_makes_those_of_its_manifest(
    service, tmp_path, monkeypatch, language
):
    [manifest] = [block.text for block in find_blocks(language) if block.page == "docs/how-to/batches.md"]
    (tmp_path / "jobs").write_text(manifest)
    shutil.copyfile(ROOT / "examples" / "boat.png", tmp_path / "sea.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", str(service.base_url))
    for _ in range(2):
        await run_program("async def make_videos(")["make_videos"]("jobs", "videos")
    assert {path.name for path in (tmp_path / "videos").rglob("*.mp4")} == {"spring-1.mp4", "1.mp4"}
    assert len(service.creates) == 2
    assert len((tmp_path / "report.csv").read_text().splitlines()) == 3


async def test_the_program_that_downloads_many_videos_saves_them(client, tmp_path, capsys):
    receipts = [await client.videos.create(model="gen-2.0", prompt="a boat", duration=5) for _ in range(3)]
    assert await run_program("async def save_all(")["save_all"](client, receipts, str(tmp_path)) == 3
    assert {path.stem for path in tmp_path.glob("*.mp4")} == {receipt.task_id for receipt in receipts}
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.fixture
def environment(service, tmp_path, monkeypatch):
    """A directory of its own for a program, with the sandbox in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)


@pytest.mark.usefixtures("environment")
async def test_the_program_with_telemetry_waits_for_a_task(client):
    receipt = await client.videos.create(model="gen-2.0", prompt="a boat", duration=5)
    watch = run_program("async def watch_with_telemetry(")["watch_with_telemetry"]
    assert await watch(receipt.task_id) == (await client.videos.get(receipt)).video_url


async def test_the_formatter_writes_events_as_json_lines(client, caplog):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(run_program("class JsonLines(")["JsonLines"]())
    caplog.set_level("INFO", "vidgen_async")
    logger = logging.getLogger("vidgen_async")
    logger.addHandler(handler)
    try:
        receipt = await client.videos.create(model="gen-2.0", prompt="a boat", duration=5, order_id="o-1")
        try:
            raise OSError
        except OSError:
            logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    accepted, failed = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (accepted["event_name"], accepted["task_id"]) == ("order.accepted", receipt.task_id)
    assert (accepted["level"], accepted["order_id"], accepted["attempt"]) == ("INFO", "o-1", 1)
    assert failed["traceback"].endswith("OSError")


async def test_the_program_for_customers_orders_with_their_keys(client, service):
    order_for = run_program("async def order_for(")["order_for"]
    customers = [service.add_account(name=name, balance=100) for name in ("anna", "bert")]

    tasks = [await order_for(client, one.name, one.api_key, "order-1", "a boat") for one in customers]

    assert [task.status for task in tasks] == ["completed", "completed"]
    assert [create.headers["Authorization"] for create in service.creates] == [
        f"Bearer {one.api_key}" for one in customers
    ]


@pytest.mark.usefixtures("environment")
async def test_the_program_with_a_handling_block_saves_the_video_and_makes_one_order(client, service, tmp_path):
    save = run_program("async def save(")["save"]
    for _ in range(2):
        await save(client, "job-1", "a boat")
    assert len(service.creates) == 1
    assert (tmp_path / "job-1.mp4").read_bytes()[4:8] == b"ftyp"
    assert [task.task_id async for task in client.orders.running()] == []


@pytest.mark.usefixtures("environment")
async def test_the_worker_that_is_started_again_orders_nothing_twice(service, capsys):
    work = run_program("async def work(")["work"]
    jobs = {"job-1": "a boat", "job-2": "another boat [fail: too blue]"}

    assert await work(jobs) == [Path("job-1.mp4")]
    assert await work(jobs) == []
    assert len(service.creates) == 2
    assert "too blue" in capsys.readouterr().out


@pytest.mark.usefixtures("environment")
async def test_the_worker_saves_a_video_while_another_create_waits_for_the_submission_limit(service, tmp_path):
    program = run_program("async def work(")
    program["Client"] = partial(Client, pacing=Pacing(limit=1, window=3600))
    work = asyncio.ensure_future(program["work"]({"job-1": "a boat", "job-2": "another boat"}))
    async with asyncio.timeout(20):
        while not list(tmp_path.glob("*.mp4")):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
    assert (len(service.creates), work.done()) == (1, False)
    work.cancel()
    await asyncio.wait({work})


@pytest.mark.usefixtures("environment")
async def test_an_invalid_job_does_not_stop_the_other_jobs_of_the_worker(service, capsys):
    saved = await run_program("async def work(")["work"]({"job-1": "a boat", "job-2": "", "job-3": "another boat"})
    assert len(saved) == len(service.creates) == 2
    assert "job-2 the request was not sent: prompt: must not be empty" in capsys.readouterr().out


@pytest.mark.usefixtures("environment")
async def test_the_worker_that_is_cancelled_during_a_download_saves_the_video_the_next_time(service):
    work = run_program("async def work(")["work"]
    service.faults.add("videos.content", Fault.stall())
    first = asyncio.ensure_future(work({"job-1": "a boat"}))
    while "videos.content" not in [request.op for request in service.requests]:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait({first})

    assert await work({"job-1": "a boat"}) == [Path("job-1.mp4")]
    assert len(service.creates) == 1


async def test_the_benchmark_counts_its_creates(capsys):
    await run_program("async def benchmark(")["benchmark"](5)
    assert capsys.readouterr().out.startswith("5 creates in ")


@pytest.mark.usefixtures("environment")
async def test_the_program_with_a_cassette_replays_what_it_recorded_without_the_service(service):
    balance = run_program("async def balance(")["balance"]

    answers = [await balance("record"), await balance("replay")]

    assert answers == [service.balance] * 2
    assert [request.op for request in service.requests] == ["account.get"]


async def test_the_transport_with_request_ids_sends_and_logs_them_but_none_to_another_host(service, caplog):
    transport = run_program("class RequestIds(")["RequestIds"](DirectTransport())
    caplog.set_level("INFO", "documentation")
    async with Client(service.api_key, base_url=service.base_url, transport=transport) as client:
        receipt = await client.videos.create(VIDEO, validate=False)
        with pytest.raises(ConnectError):
            async with transport.connect(Request(op="videos.create", method="POST", url=URL("http://127.0.0.1:1"))):
                pass

    (create,) = service.creates
    assert create.task_id == receipt.task_id
    assert caplog.messages == [f"request {create.headers['X-Request-Id']}: videos.create"]


async def test_the_transport_over_a_socket_sends_and_a_failure_of_it_makes_a_create_uncertain(service, tmp_path):
    transport = run_program("class SocketTransport(")["SocketTransport"]()
    path = transport.path = str(tmp_path / "socket")
    async with Client(service.api_key, base_url=service.base_url, transport=transport, retry_reads_for=0) as client:
        async with forwarded(path, service.base_url):
            receipt = await client.videos.create(VIDEO, validate=False)
            assert (await client.videos.get(receipt)).id == receipt.task_id
            assert (await client.files.upload(PNG)).image_id
        with pytest.raises(ConnectionLostError):
            await client.videos.get(receipt)
        with pytest.raises(UncertainCreateError):
            await client.videos.create(VIDEO, validate=False)
    assert len(service.creates) == 1


@contextlib.asynccontextmanager
async def forwarded(path: str, url: str) -> AsyncIterator[None]:
    """A socket of which each connection is passed on to the service."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(URL(url).host, URL(url).port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async with await asyncio.start_unix_server(forward, path):
        yield


@pytest.mark.parametrize("delivery", Delivery)
async def test_the_transport_with_another_host_uses_it_if_nothing_was_sent_to_the_first_one(delivery):
    async def refuse(request: Request) -> None:
        if request.url.host == "service.test":
            raise ConnectError("refused", delivery=delivery)

    async def accept(_: Request) -> BufferedResponse:
        return BufferedResponse(202, b'{"id": "task-1"}')

    inner = FakeTransport(accept, on_connect=refuse)
    transport = run_program("class Failover(")["Failover"](inner)
    async with Client("key", base_url="https://service.test/openapi/v1", transport=transport) as client:
        (result,) = await asyncio.gather(client.videos.create(VIDEO, validate=False), return_exceptions=True)

    hosts = [request.url.host for request in inner.requests]
    if delivery is Delivery.NOT_SENT:
        assert (result.task_id, hosts) == ("task-1", ["second-host.test"])
    else:
        assert (type(result), hosts) == (UncertainCreateError, [])


async def test_the_program_that_trusts_the_certificates_of_a_proxy_connects(tmp_path):
    certificate = make_certificate(tmp_path / "ca.pem")
    make_client = run_program("load_verify_locations(")["make_client"]
    async with raw_service(responds(TASK), tls=certificate.server()) as service:
        base_url = f"https://localhost:{service.port}/openapi/v1"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VIDGEN_API_KEY", "key")
            patch.setenv("VIDGEN_BASE_URL", base_url)
            trusting = make_client(str(certificate.path))
        async with trusting, Client("key", base_url=base_url, retry_reads_for=0) as other:
            assert (await trusting.videos.get("task-1")).status == "queued"
            with pytest.raises(ConnectError, match="certificate"):
                await other.videos.get("task-1")


@pytest.mark.needs_dev
def test_every_program_passes_a_strict_type_checker(tmp_path):
    """With the cache of the project's own check, which has read the package already."""
    imported = {"class RequestIds(": "request_ids"}
    for number, block in enumerate(find_blocks("python")):
        names = [name for marker, name in imported.items() if marker in block.text]
        (tmp_path / f"{names[0] if names else f'program_{number}'}.py").write_text(block.text)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own list
    assert checked.returncode == 0, checked.stdout


def test_every_program_is_run_by_a_test():
    markers = {
        marker
        for module, call in RUNNERS.items()
        for marker in re.findall(rf'\b{call}\("([^"]+)"\)', (ROOT / module).read_text())
    }
    programs = list(find_blocks("python"))
    assert [str(program) for program in programs if not any(marker in program.text for marker in markers)] == []
    assert len(programs) > 10
