"""The console at ``/`` in a real browser: what it shows, and what its buttons do."""

import asyncio
import io
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import av
import pytest
import pytest_asyncio
from attrs import define, evolve, field

from tests.browser import DESK, expect, open_browser, reaches
from tests.sandbox.conftest import picture
from vidgen_async.sandbox import Fault, ReceivedRequest, Sandbox

#: One event loop, one browser and one page for all tests, because they are slow to start.
pytestmark = [pytest.mark.needs_dev, pytest.mark.asyncio(loop_scope="module")]
in_module = pytest_asyncio.fixture(loop_scope="module")

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
#: Shortens the polling interval of the page from 1 s to 0.1 s.
FAST_POLLING = "{ const real = setTimeout; setTimeout = (work, after) => real(work, after === 1000 ? 100 : after); }"


@define(slots=False)  # playwright sets attributes on the methods that it is passed
class Console:
    """The page in a browser, with its errors and warnings and the URLs that it requested."""

    page: Any
    origins: set[str]
    messages: list[str] = field(factory=list)
    requested_urls: list[str] = field(factory=list)

    def listeners(self) -> dict[str, Callable[[Any], None]]:
        return {
            "console": self._add_message,
            "pageerror": lambda error: self.messages.append(str(error)),
            "request": lambda request: self.requested_urls.append(request.url),
        }

    def _add_message(self, message: Any) -> None:
        is_icon = message.location["url"].endswith("/favicon.ico")  # which the browser looks for beside a document
        if message.type in ("error", "warning") and not is_icon:
            self.messages.append(message.text)

    async def wait_for_polls(self, times: int = 2) -> None:
        """Return after ``times`` more polls of the page."""
        for _ in range(times):
            await self.page.wait_for_event("response", lambda answer: "/sandbox/state" in answer.url)

    def row(self, place: str, text: str | re.Pattern[str] = "") -> Any:
        """Return the row of a list that contains the text."""
        return self.page.locator(f"#{place} [data-row]").filter(has_text=text)

    @property
    def elsewhere(self) -> list[str]:
        """The requested URLs of other hosts than the sandbox."""
        return [
            url for url in self.requested_urls if "{0.scheme}://{0.netloc}".format(urlsplit(url)) not in self.origins
        ]


@in_module
async def service() -> AsyncIterator[Sandbox]:
    """As for all tests of the sandbox, in the browser's event loop."""
    async with Sandbox(speed=0) as sandbox:
        sandbox.add_model(evolve(sandbox.models["gen-2.0"], durations=(1, 2, 5)))
        yield sandbox


@in_module
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser_page() -> AsyncIterator[Any]:
    """One page for all tests; each test has its own sandbox, which is another origin."""
    async with open_browser(FAST_POLLING) as context:
        yield await context.new_page()


@in_module
async def open_console(service, browser_page) -> AsyncIterator[Callable[..., Any]]:
    """Opens the page. After the test it must have no errors and no requests to other hosts."""
    origin = service.base_url.removesuffix("/openapi/v1")
    console = Console(browser_page, {origin, service.links_url})

    async def open_page(fragment: str = "") -> Console:
        await browser_page.goto("about:blank")  # otherwise another fragment would not load the page again
        await browser_page.goto(f"{origin}/{fragment}")
        await expect(browser_page.locator("#link-state")).to_have_text("live")
        return console

    listeners = console.listeners()
    for event, listener in listeners.items():
        browser_page.on(event, listener)
    yield open_page
    for event, listener in listeners.items():
        browser_page.remove_listener(event, listener)
    await browser_page.goto("about:blank")
    assert console.messages == []
    assert console.elsewhere == []


@in_module
async def console(open_console) -> Console:
    return await open_console()


async def test_a_created_task_appears_and_changes_its_state_without_a_reload(service, api, console):
    row = console.row("tasks")
    await expect(console.page.locator("#tasks .empty")).to_contain_text("vidgen generate")

    task_id = (await api.create(prompt="A paper boat at dawn", duration=2)).json["id"]

    await expect(row).to_contain_text("queued")
    for shown in ("A paper boat at dawn", task_id, "gen-2.0", "2 s", "20", "starts in 1 s"):
        await expect(row).to_contain_text(shown)
    service.clock.advance(2)
    await expect(row).to_contain_text("running")
    await expect(row.get_by_role("progressbar", name="running: 33 %")).to_be_visible()
    service.clock.advance(2)
    await expect(row).to_contain_text("completed")
    await expect(row.get_by_role("progressbar")).to_be_hidden()
    await expect(console.page.locator("#announcements")).to_have_text("1 task completed")
    await expect(console.page.locator("#tasks .empty")).to_be_hidden()


async def test_a_failed_task_shows_its_reason_and_the_ledger_its_refund(service, api, console):
    task_id = (await api.create(prompt="[fail: the upstream refused it]")).json["id"]
    service.clock.advance(4)

    await expect(console.row("tasks").locator(".badge")).to_have_text("failed")
    await expect(console.row("tasks").locator(".reason")).to_have_text("the upstream refused it")
    await expect(console.row("tasks")).to_contain_text("+20 refunded")
    await expect(console.row("ledger", "refund")).to_contain_text(task_id)
    await expect(console.row("ledger", "refund").locator("td.number")).to_have_text(["+20", "100,000"])
    await expect(console.row("ledger", "charge").locator("td.number")).to_have_text([f"{MINUS}20", "99,980"])
    await expect(console.row("ledger", "opening").locator("td.number")).to_have_text(["+100,000", "100,000"])


async def test_an_upload_shows_its_picture_and_when_it_expires(service, api, console):
    asset = (await api.upload(picture(size=(64, 48)))).json
    row = console.row("uploads", asset["id"])

    await row.scroll_into_view_if_needed()

    image = row.get_by_role("img", name=f"Upload {asset['name']}")
    await expect(image).to_have_js_property("naturalWidth", 64)
    for shown in (asset["name"], "image/png", "in 3 d"):
        await expect(row).to_contain_text(shown)
    service.clock.advance(72 * 3600)
    await expect(row).to_contain_text("expired")


async def test_each_request_has_a_row_with_its_answer_and_a_link_to_its_task(service, api, console):
    first = await api.create("key-of-the-first")
    task_id = first.json["id"]
    await api.create("key-of-the-first")
    refused = await api.create(model="gen-2.5")
    service.faults.add("videos.create", Fault.status(503, made=True))
    await api.create("key-of-the-fourth")
    await api.get(f"/videos/{task_id}?token=planted")

    for number, *shown in (
        (1, "POST /openapi/v1/videos", "key-of-the-first", "202", first.headers["x-request-id"], task_id),
        (2, "POST /openapi/v1/videos", "key-of-the-first", "202", "replayed", task_id),
        (3, "POST /openapi/v1/videos", "503", refused.headers["x-request-id"]),
        (4, "key-of-the-fourth", "503", "fault: status 503", [*service.tasks][1]),
        (5, f"GET /openapi/v1/videos/{task_id}?token=…", "200", task_id),
    ):
        row = console.page.locator("#requests [data-row]").nth(5 - number)
        for text in shown:
            await expect(row).to_contain_text(text)
        await expect(row.locator("td.number")).to_have_text(re.compile(r"[0-9.,]+"))
    await console.page.get_by_role("button", name="Details of request 1").click()
    detail = console.page.locator("#requests [data-row]").last
    await expect(detail.get_by_label("Body", exact=True)).to_contain_text("paper boat")
    assert json.loads(await detail.get_by_label("Body", exact=True).inner_text()) == service.creates[0].body
    await expect(detail.get_by_label("Headers")).to_contain_text("Idempotency-Key: key-of-the-first")
    await expect(console.page.locator("#requests")).not_to_contain_text(service.api_key)
    await detail.get_by_role("link", name=task_id).click()
    assert await console.page.evaluate("document.querySelector(':target').id") == task_id


async def test_a_request_without_an_answer_is_shown_as_such(service, session, api, console):
    service.faults.add("videos.create", Fault.close_before_body())

    with pytest.raises(Exception, match="disconnected"):
        await api.create("a-key-without-answer")

    for shown in ("no answer", "fault: close before body", "a-key-without-answer"):
        await expect(console.row("requests")).to_contain_text(shown)
    await console.row("requests").get_by_role("button").click()
    await expect(console.row("requests")).to_contain_text("The body did not arrive")


async def test_requests_are_searched_and_filtered(api, console):
    await api.create(prompt="A boat of paper")
    await api.get("/account")
    await api.get("/videos/task_unknown")
    rows, form = console.row("requests"), console.page.locator("#request-filter")
    await expect(rows).to_have_count(3)

    await form.get_by_label("Search").fill("OF PAPER")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("POST")
    await form.get_by_label("Search").fill("")
    await form.get_by_label("Answer").select_option("4xx")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("task_unknown")
    await form.get_by_label("Operation").select_option("account.get")
    await expect(rows).to_have_count(0)
    await expect(console.page.locator("#requests .empty")).to_be_visible()
    await form.get_by_label("Answer").select_option("all")
    await expect(rows).to_contain_text("/account")


async def test_requests_are_shown_in_pages(api, console):
    for n in range(120):
        await api.get(f"/videos/task_{n:03}")
    rows, extent = console.row("requests"), console.page.locator("#request-range")
    newer, older = (console.page.get_by_role("button", name=name) for name in ("Newer", "Older"))
    await expect(rows.first).to_contain_text("task_119")
    await expect(newer).to_be_disabled()

    for count, shown, last in (
        (50, "No. 120 to 71", "task_070"),
        (50, "No. 70 to 21", "task_020"),
        (20, "No. 20 to 1", "task_000"),
    ):
        await expect(extent).to_have_text(shown)
        await expect(rows).to_have_count(count)
        await expect(rows.last).to_contain_text(last)
        if count == 50:
            await older.click()
    await expect(older).to_be_disabled()
    await expect(newer).to_be_focused()
    await api.get("/account")
    await console.wait_for_polls()
    await expect(rows).to_have_count(20)
    await newer.click()
    await expect(extent).to_have_text("No. 70 to 21")
    await newer.click()
    await expect(extent).to_have_text("No. 121 to 72")


@pytest.mark.parametrize(
    "prompt",
    ["A paper boat", 'it\'s "quoted" $(touch x) `touch x` !! \\', "@/etc/passwd \u202e\u2028 \x1b[201~; touch x\n"],
)
async def test_a_request_is_copied_as_a_curl_command_that_sends_it_again(service, api, console, prompt, tmp_path):
    body = json.dumps({"model": "gen-2.0", "prompt": prompt}, ensure_ascii=False)
    headers = {"Content-Type": "application/json", "Idempotency-Key": "it's-a-key"}
    await api.send("POST", "/videos?a='b", data=body.encode(), headers=headers)
    await console.row("requests").get_by_role("button").click()
    await console.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await console.page.get_by_role("button", name="Copy as curl").click()
    await expect(console.page.get_by_role("button", name="Copied")).to_be_visible()

    command = await console.page.evaluate("navigator.clipboard.readText()")
    arguments = await run_in_bash(f"curl() {{ printf '%s\\0' \"$@\"; }}\n{command}", service.api_key, tmp_path)

    assert service.api_key not in command
    assert re.search(r"[\x00-\x09\x0b-\x1f\u202e\u2028]", command) is None
    assert arguments == [
        "-i",
        f"{service.base_url}/videos?a='b",
        *("-H", f"Authorization: Bearer {service.api_key}"),
        *("-H", "Content-Type: application/json"),
        *("-H", "Idempotency-Key: it's-a-key"),
        *("--data-raw", body),
    ]
    assert list(tmp_path.iterdir()) == []


async def test_the_curl_command_of_a_path_that_looks_like_another_host_goes_to_the_sandbox(service, console):
    headers = {"Authorization": "Bearer x"}
    service.add_request(ReceivedRequest("service", "unknown", "GET", "@evil.test/x", service.clock.now(), headers))

    await console.row("requests").get_by_role("button").click()

    url = f"{service.console_url}@evil.test/x"
    await expect(console.row("requests").get_by_label("curl command")).to_contain_text(url)


async def run_in_bash(script: str, key: str, directory: Path) -> list[str]:
    """Return what a script printed, which ends with NUL characters."""
    environment = {"VIDGEN_API_KEY": key, "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, env=environment, cwd=directory, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode().removesuffix("\0").split("\0")


async def test_a_create_of_the_form_is_sent_and_a_refusal_shows_why(service, api, console):
    asset = (await api.upload(picture())).json
    form = console.page.locator("#create")

    await form.get_by_label("Prompt").fill("A boat from the form")
    await form.get_by_label("Model").select_option("gen-2.5")
    await form.get_by_role("button", name="Create").click()
    await expect(form.get_by_role("alert")).to_have_text("The model gen-2.5 is in maintenance")
    await expect(form.get_by_role("status")).to_have_text("")
    await expect(console.row("requests").first).to_contain_text("503")
    console.messages.clear()
    await form.get_by_label("Model").select_option("vendorh3")
    await form.get_by_label("Duration").select_option("6")
    await form.locator("[name=ratio]").select_option("9:16")
    await form.get_by_label("Images").fill(f"{asset['image_id']} https://pics.test/a.png")
    await form.get_by_label("Idempotency-Key").fill("key-of-the-form")
    await form.get_by_role("button", name="Create").press("Enter")

    await expect(form.get_by_role("status")).to_have_text(re.compile("Created: task_"))
    (task_id,) = service.tasks
    assert service.creates[-1].idempotency_key == "key-of-the-form"
    assert service.creates[-1].body == {
        "model": "vendorh3",
        "prompt": "A boat from the form",
        "duration": 6,
        "ratio": "9:16",
        "image_ids": [asset["image_id"]],
        "image_urls": ["https://pics.test/a.png"],
    }
    await form.get_by_role("link", name=task_id).click()
    await expect(console.row("tasks").locator(".detail")).to_be_visible()


async def test_the_link_to_a_task_opens_it_also_when_it_is_not_among_the_newest(service, api, open_console):
    linked = service.tasks[(await api.create(prompt="The linked one")).json["id"]]
    service.tasks.update({f"task_{at:05}": evolve(linked, id=f"task_{at:05}") for at in range(200)})
    console = await open_console(f"#{linked.id}")

    await expect(console.page.locator(f"[id={linked.id}] .detail")).to_be_visible()
    await expect(console.page.locator(f"[id={linked.id}]")).to_be_in_viewport()
    assert await console.page.evaluate("document.querySelector(':target').id") == linked.id


async def test_an_address_with_an_unknown_task_is_ignored(api, open_console):
    await api.create()

    for fragment in ("#task_unknown", "#%", "#tasks"):
        console = await open_console(fragment)
        await console.wait_for_polls()
        await expect(console.row("tasks").locator(".detail")).to_be_hidden()


async def test_the_page_links_to_the_openapi_document(service, console):
    await console.page.get_by_role("link", name="OpenAPI").click()

    assert json.loads(await console.page.locator("body").inner_text())["servers"] == [{"url": service.base_url}]


async def test_planned_faults_are_listed_and_can_be_removed(service, console):
    service.faults.add("videos.get", Fault.status(502), times=3, after=2)
    service.faults.add("link", Fault.ignore_range(), times=None)

    for shown in ("status 502", "videos.get", f"3{TIMES}, after 2"):
        await expect(console.row("faults").first).to_contain_text(shown)
    await expect(console.row("faults").last).to_contain_text("always")
    await console.page.get_by_role("button", name="Remove the fault status 502 of videos.get").click()
    await expect(console.row("faults")).to_have_count(1)
    assert [planned.op for planned in service.faults.planned] == ["link"]


async def test_a_fault_is_added_with_its_arguments_or_refused_beside_the_form_and_applied(service, api, console):
    form = console.page.locator("#add-fault")

    await form.locator("[name=op]").select_option("videos.create")
    await form.locator("[name=fault]").select_option("status")
    await form.get_by_label("code").fill("12")
    await form.get_by_role("button", name="Add fault").click()
    await expect(form.get_by_role("alert")).to_contain_text(re.compile("code.* 12"))
    assert service.faults.planned == []
    assert any("400" in message for message in console.messages)
    console.messages.clear()
    await form.get_by_label("code").fill("418")
    await form.get_by_role("textbox", name="body").fill('{"a": [1]}')
    await form.get_by_label("Times").fill("2")
    await form.get_by_role("button", name="Add fault").click()

    await expect(console.row("faults")).to_contain_text("status 418")
    assert [(planned.op, planned.times) for planned in service.faults.planned] == [("videos.create", 2)]
    refused = await api.create()
    assert (refused.status, refused.json) == (418, {"a": [1]})


async def test_the_video_of_a_completed_task_plays_in_the_page_and_can_be_saved(service, api, console):
    size = (720, 1280)
    task_id = (await api.create(duration=2, ratio="9:16")).json["id"]
    service.clock.advance(4)

    await console.page.get_by_role("button", name=f"Play the video of task {task_id}").press("Enter")

    video = console.page.locator("video")
    await expect(video).to_have_js_property("videoWidth", size[0])
    await expect(video).to_have_js_property("videoHeight", size[1])
    assert await video.evaluate("video => video.duration") == pytest.approx(2, abs=0.1)
    await reaches(video, 0.2)
    async with console.page.expect_download() as saving:
        await console.page.get_by_role("link", name="Download the MP4").click()
    saved = await saving.value
    assert saved.suggested_filename == f"{task_id}.mp4"
    with av.open(io.BytesIO(await asyncio.to_thread(Path(await saved.path()).read_bytes))) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == size


async def test_a_playing_video_continues_while_the_page_polls_and_new_tasks_appear(service, api, console):
    watched = (await api.create(duration=5, ratio="1:1")).json["id"]
    service.clock.advance(4)
    await console.page.get_by_role("button", name=f"Play the video of task {watched}").click()
    video = await console.page.locator("video").element_handle()
    await reaches(video, 0.1)
    source = await video.get_attribute("src")

    await api.create(prompt="The next one")
    service.clock.advance(30)
    await console.wait_for_polls()
    before = await video.evaluate("video => [video.currentTime, video.isConnected, video.paused]")
    await reaches(video, before[0] + 0.1)

    assert before[1:] == [True, False]
    assert await video.get_attribute("src") == source
    await console.page.get_by_role("button", name="Close the video").click()
    await expect(console.page.locator("video")).to_have_count(0)


async def test_a_video_that_cannot_be_loaded_is_reported_and_can_be_retried(service, api, console):
    service.faults.add("link", Fault.status(502))
    task_id = (await api.create(duration=1)).json["id"]
    service.clock.advance(4)

    await console.page.get_by_role("button", name=f"Play the video of task {task_id}").click()
    await expect(console.row("tasks").get_by_role("alert")).to_contain_text("could not be loaded")
    await console.page.get_by_role("button", name="Play the latest link").click()

    await expect(console.page.locator("video")).to_have_js_property("videoWidth", 1280)
    await expect(console.row("tasks").get_by_role("alert")).to_have_count(0)
    console.messages.clear()


HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>"\'&amp;\u202e'


async def test_markup_in_requests_is_shown_as_text_and_has_no_effect(service, api, console):
    await api.create(HOSTILE[:40], prompt=f"{HOSTILE}[fail: {HOSTILE}]", ratio="1:1")
    service.clock.advance(4)

    row = console.row("tasks")
    await expect(row.locator(".prompt")).to_have_text(f"{HOSTILE}[fail: {HOSTILE}]")
    await expect(row.locator(".reason")).to_have_text(HOSTILE)
    await row.get_by_role("button", name="Details of task").click()
    await console.row("requests").get_by_role("button").click()
    await expect(row.locator("dd.text")).to_have_text(f"{HOSTILE}[fail: {HOSTILE}]")
    body = console.row("requests").get_by_label("Body", exact=True)
    await expect(body).to_contain_text("<script>document.title=2</script>")
    assert await console.page.locator("[data-row] :is(script, img[src=x])").count() == 0
    assert await console.page.title() == "vidgen sandbox"


async def test_open_details_focus_and_a_selection_stay_after_a_poll(service, api, console):
    await api.create(prompt="A text to select")
    row = console.row("tasks", "to select")
    await row.get_by_role("button", name="Details of task").click()
    prompt = row.locator("dd.text")
    await prompt.select_text()

    await api.create(prompt="The next one")
    await expect(console.row("tasks")).to_have_count(2)
    service.clock.advance(2)
    await console.wait_for_polls()

    assert await console.page.evaluate("getSelection().toString()") == "A text to select"
    await expect(prompt).to_be_visible()
    await expect(row.get_by_role("button", name="Details of task")).to_be_focused()


async def test_the_clock_can_be_advanced_and_its_speed_set(service, console):
    before = service.clock.now()

    await console.page.get_by_role("button", name="+1 h").click()
    await console.page.get_by_label("Speed").select_option(f"60{TIMES}")
    await console.wait_for_polls()

    assert service.clock.now() >= before + 3600
    assert service.clock.speed == 60


async def test_a_balance_is_set_and_the_next_task_fails_as_planned(service, api, console):
    accounts = console.page.locator(".accounts")
    await accounts.locator("summary").click()
    await accounts.get_by_label("Balance").fill("500")
    await accounts.get_by_role("button", name="Set").click()
    await expect(accounts).to_contain_text("500 points")
    await expect(console.row("ledger", "adjustment")).to_contain_text(f"{MINUS}99,500")

    form = console.page.locator("#fail-next")
    await form.get_by_label("Reason").fill("out of film")
    await form.get_by_label("with a refund").uncheck()
    await form.get_by_role("button", name="Fail the next task").click()
    await expect(form.get_by_role("status")).to_contain_text("will fail")
    await api.create()
    service.clock.advance(4)

    await expect(console.row("tasks")).to_contain_text("out of film")
    assert service.balance == 480


async def test_an_upload_is_deleted_and_the_whole_sandbox_reset(service, api, console):
    asset = (await api.upload(picture())).json
    await api.create()
    await console.page.get_by_role("button", name=f"Delete {asset['name']}").click()
    await expect(console.row("uploads")).to_have_count(0)
    assert [*service.assets] == []

    await console.page.get_by_role("button", name="Reset the sandbox…").click()
    await console.page.get_by_role("button", name="Cancel").click()
    assert len(service.tasks) == 1
    await console.page.get_by_role("button", name="Reset the sandbox…").click()
    await console.page.get_by_role("button", name="Reset", exact=True).click()

    await expect(console.row("tasks")).to_have_count(0)
    await expect(console.row("requests")).to_have_count(0)
    assert service.tasks == {}


async def test_one_of_several_accounts_can_be_selected(service, api, stranger, console):
    await api.create(prompt="Of the first account")
    await stranger.create(prompt="Of the second account")
    await stranger.create(model="gen-2.5", prompt="Refused")
    await expect(console.row("tasks")).to_have_count(2)

    await console.page.get_by_label("Account", exact=True).select_option("account-2")

    await expect(console.row("tasks")).to_have_count(1)
    await expect(console.row("tasks")).to_contain_text("Of the second account")
    await expect(console.row("ledger")).to_have_count(2)
    await expect(console.row("requests")).to_have_count(2)
    await expect(console.page.locator("#exports")).to_contain_text(f"VIDGEN_API_KEY={stranger.key}")


async def test_the_two_lines_to_export_are_copied_for_a_shell(service, open_console):
    console = await open_console()
    await console.page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    await console.page.get_by_role("button", name="Copy", exact=True).click()

    await expect(console.page.get_by_role("button", name="Copied")).to_be_visible()
    assert await console.page.evaluate("navigator.clipboard.readText()") == (
        f"export VIDGEN_BASE_URL={service.base_url}\nexport VIDGEN_API_KEY={service.api_key}\n"
    )


async def test_a_sandbox_that_does_not_answer_is_reported_and_reconnected(service, api, console):
    await api.create(prompt="Still to be seen")
    await expect(console.row("tasks")).to_have_count(1)

    async with service.refusing():
        await expect(console.page.locator("#gone")).to_contain_text("the sandbox does not answer")
        await expect(console.page.locator("#link-state")).to_have_text("not answering")
        await expect(console.row("tasks")).to_contain_text("Still to be seen")
    await api.create(prompt="Made after the outage")

    await expect(console.row("tasks", "Made after the outage")).to_be_visible()
    await expect(console.page.locator("#gone")).to_be_hidden()
    await expect(console.page.locator("#announcements")).to_have_text("The sandbox answers again.")
    console.messages.clear()


async def test_a_hidden_page_does_not_poll(console):
    await console.page.clock.install()
    await console.page.reload()
    await console.wait_for_polls(1)

    await console.page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    await console.page.wait_for_load_state("networkidle")  # a poll that had begun
    console.requested_urls.clear()
    await console.page.clock.run_for(10_000)
    assert console.requested_urls == []
    await console.page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    await console.wait_for_polls(1)


async def test_the_page_never_scrolls_sideways(service, api, open_console):
    await api.upload(picture())
    await api.create("k" * 100, prompt="w" * 2000)
    await api.create(prompt=f"[fail: {'r' * 500}]")
    service.clock.advance(4)
    service.faults.add("videos.content", Fault.status(503), times=100, after=100)
    console = await open_console()
    await expect(console.row("tasks")).to_have_count(2)
    for button in await console.page.get_by_role("button", name="Details of").all():
        await button.click()

    for width in (360, 1400):
        await console.page.set_viewport_size({"width": width, "height": 740})
        assert await console.page.evaluate("document.documentElement.scrollWidth") == width
        too_wide = await console.page.evaluate(
            """() => [...document.querySelectorAll("main .card *")]
                .filter(each => each.checkVisibility() && !each.closest(".unseen"))
                .filter(each => each.getBoundingClientRect().right > innerWidth)
                .map(each => each.outerHTML)"""
        )
        assert too_wide == []
    await console.page.set_viewport_size(DESK)


async def test_the_page_follows_the_colour_scheme_of_the_system(console):
    shades = {}
    for scheme in ("dark", "light"):
        await console.page.emulate_media(color_scheme=scheme)
        shown = await console.page.evaluate(
            "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"
        )
        shades[scheme] = [sum(map(int, re.findall(r"\d+", shade)[:3])) for shade in shown]

    assert shades["light"][0] > 600 > 200 > shades["light"][1]
    assert shades["dark"][0] < 200 < 600 < shades["dark"][1]


async def test_every_element_has_a_name_for_screen_readers(service, api, console):
    await api.upload(picture())
    await api.create()
    service.faults.add("link", Fault.status(500))
    service.clock.advance(4)
    await expect(console.row("faults")).to_have_count(1)

    unnamed = await console.page.evaluate(
        """() => [
            ...[...document.querySelectorAll("table")].filter(each => !each.caption?.textContent),
            ...[...document.querySelectorAll("input, select, textarea")].filter(each => !each.labels.length),
            ...[...document.querySelectorAll("button")].filter(each => !(each.ariaLabel || each.textContent.trim())),
            ...[...document.querySelectorAll("th")].filter(each => !each.scope || !each.textContent.trim()),
            ...[...document.querySelectorAll("section")].filter(each => !each.getAttribute("aria-labelledby")),
            ...[...document.querySelectorAll("[data-row] img")].filter(each => !each.alt),
        ].map(each => each.outerHTML)"""
    )

    assert unnamed == []
    await expect(console.page.get_by_role("table", name="Tasks, the newest first").get_by_role("row")).to_have_count(2)


async def test_the_newest_of_many_tasks_are_shown_and_more_on_request(service, api, open_console):
    first = service.tasks[(await api.create()).json["id"]]
    service.tasks.update({f"task_{at:05}": evolve(first, id=f"task_{at:05}") for at in range(9_999)})
    console = await open_console()

    await expect(console.row("tasks")).to_have_count(100)
    await expect(console.page.locator("[data-count=tasks]")).to_have_text("10,000")
    await expect(console.row("tasks").first).to_contain_text("task_09998")
    await console.page.get_by_role("button", name="Show 300").click()
    await expect(console.row("tasks")).to_have_count(300)


async def test_a_row_with_open_details_stays_when_newer_rows_exceed_the_limit(service, api, console):
    read = service.tasks[(await api.create(prompt="Still read")).json["id"]]
    await console.row("tasks").get_by_role("button", name="Details of task").click()

    service.tasks.update({f"task_{at:05}": evolve(read, id=f"task_{at:05}") for at in range(120)})

    await expect(console.row("tasks")).to_have_count(101)
    await console.page.locator(f"[id={read.id}]").get_by_role("button", name="Details of task").click()
    await expect(console.row("tasks")).to_have_count(100)
