"""A sandbox with a state continues where the last one ended, even if that was killed."""

import asyncio
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from attrs import evolve

from tests.sandbox.conftest import Caller, picture
from vidgen_async.sandbox import Sandbox, SandboxClock, StateError
from vidgen_async.sandbox.state_file import APPLICATION_ID

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def state(tmp_path) -> Path:
    return tmp_path / "sandbox.db"


def caller(session, sandbox: Sandbox, name: str = "account-1") -> Caller:
    return Caller(session, sandbox.base_url, sandbox.account(name).api_key)


async def test_tasks_ledgers_keys_and_balances_are_restored(session, state):
    async with Sandbox(state=state, speed=0, accounts={"ann": 60}) as first:
        keys = list(first.accounts)
        created = await caller(session, first, "ann").create("key-of-ö", prompt="A boat ö \ud800", ratio="1:1")
        ledgers = [first.ledger_of(name) for name in ("account-1", "ann")]

    async with Sandbox(state=state, speed=0) as second:
        ann = caller(session, second, "ann")
        again = await ann.create("key-of-ö", prompt="A boat ö \ud800", ratio="1:1")
        task = (await ann.get(f"/videos/{created.json['id']}")).json

        assert list(second.accounts) == keys
        assert [second.ledger_of(name) for name in ("account-1", "ann")] == ledgers
        assert again.json == created.json
        assert (second.creates[0].replayed, len(second.tasks)) == (True, 1)
        assert (task["status"], task["created_at"]) == ("queued", created.json["created_at"])
        assert (await ann.create("key-of-ö", prompt="else")).status == 409
        assert (await ann.get("/account")).json["credits"] == 40


async def test_a_restored_task_has_the_same_video_even_if_its_picture_was_deleted(session, state):
    async with Sandbox(state=state, speed=0) as first:
        api = caller(session, first)
        first.add_model(evolve(first.models["gen-2.0"], durations=(1,), resolutions=("180p",)))
        image_id = (await api.upload(picture("teal"))).json["image_id"]
        task_id = (await api.create(image_ids=[image_id])).json["id"]
        first.clock.advance(10)
        video = (await api.get(f"/videos/{task_id}/content")).body
        first.delete_asset(image_id)

    async with Sandbox(state=state, speed=0) as second:
        assert second.models["gen-2.0"].durations == (1,)
        assert (await caller(session, second).get(f"/videos/{task_id}/content")).body == video
        assert list(second.assets) == []


async def test_restored_uploads_and_signed_links_work(session, state):
    async with Sandbox(state=state, speed=0) as first:
        api = caller(session, first)
        asset = (await api.upload(content := picture("gold"))).json
        first.add_model(evolve(first.models["vendorh3"], durations=(1,), resolutions=("180p",)))
        task_id = (await api.create(model="vendorh3", image_ids=[asset["id"]])).json["id"]
        first.clock.advance(10)
        link = urlsplit((await api.get(f"/videos/{task_id}")).json["video_url"])

    async with Sandbox(state=state, speed=0) as second:
        api = caller(session, second)
        root = second.console_url.rstrip("/")
        assert (await api.get(f"{root}{asset['url']}", bare=True)).body == content
        assert (await api.create(model="vendorh3", image_ids=[asset["id"]])).status == 202
        opened = await api.get(f"{second.links_url}{link.path}?{link.query}", bare=True)
        assert (opened.status, opened.headers["content-type"]) == (200, "video/mp4")


async def test_a_refund_that_becomes_due_while_the_sandbox_is_closed_is_booked_once(session, state):
    async with Sandbox(state=state, speed=0) as first:
        ids = [(await caller(session, first).create(prompt="[fail: dark]")).json["id"] for _ in range(2)]
        first.clock.advance(3.5)

    for _ in range(2):
        async with Sandbox(state=state, speed=0) as sandbox:
            sandbox.clock.advance(10)
            refunded = [entry.task_id for entry in sandbox.ledger if entry.kind == "refund"]

            assert sorted(refunded) == sorted(ids)
            assert sandbox.balance == 100_000


async def test_time_continues_in_real_time_while_the_sandbox_is_closed_and_stays_stopped_at_speed_0(state):
    async with Sandbox(state=state, speed=0) as first:
        first.clock.advance(500_000)
        stopped_at = first.clock.now()
    async with Sandbox(state=state, speed=0) as still:
        assert still.clock.now() == stopped_at
    async with Sandbox(state=state, speed=1000) as second:
        began = second.clock.now()
        second.clock.advance(1000)
        ended = second.clock.now()
    an_hour_ago = "UPDATE records SET record = json_set(record, '$[2]', json_extract(record, '$[2]') - 3600)"
    change(state, an_hour_ago + " WHERE id = 'settings'")
    async with Sandbox(state=state, clock=SandboxClock(0, start=5.0)) as third:
        again = third.clock.now()

    assert 0 <= began - stopped_at < 20_000
    assert 3600 <= again - ended < 20_000


async def test_another_speed_is_stored_on_opening_so_that_a_killed_sandbox_continues_at_its_time(state):
    async with Sandbox(state=state, speed=0):
        pass
    async with Sandbox(state=state, speed=1) as second:
        (record,) = second._state_file._db.execute("SELECT record FROM records WHERE id = 'settings'").fetchone()
        _, now, wall, speed = json.loads(record)

        assert (now, wall, speed) == (pytest.approx(second.clock.now(), abs=60), pytest.approx(time.time(), abs=60), 1)


async def test_after_a_kill_a_fast_sandbox_has_the_time_of_its_last_read_and_books_no_refund_twice(session, state):
    killed = state.with_name("killed.db")
    async with Sandbox(state=state, speed=2) as first:
        api = caller(session, first)
        await api.create(prompt="[fail: dark]")
        first.clock.advance(500_000)
        assert (await api.get("/account")).json["credits"] == 100_000
        for end in ("", "-wal"):
            shutil.copy(f"{state}{end}", f"{killed}{end}")
        ledger, now = first.ledger, first.clock.now()

    async with Sandbox(state=killed, speed=0) as second:
        assert second.clock.now() == pytest.approx(now, abs=60)
        assert second.ledger == ledger


async def test_changes_from_python_are_stored_on_closing(session, state):
    async with Sandbox(state=state) as first:
        ids = [(await caller(session, first).create()).json["id"] for _ in range(9)]
        del first.tasks[ids.pop(1)]
        first.tasks[ids[-1]] = evolve(first.tasks[ids[-1]], points=7)
        del first.models["gen-2.5"]
        first.add_account(name="ann", balance=3)
        first.change_model("gen-2.0", maintenance=True)
        first.balance = 8

    async with Sandbox(state=state) as second:
        assert list(second.tasks) == ids
        assert second.tasks[ids[-1]].points == 7
        assert "gen-2.5" not in second.models
        assert second.account("ann").balance == 3
        assert second.models["gen-2.0"].maintenance
        assert second.balance == 8


async def test_after_a_reset_only_later_changes_are_restored(session, state):
    async with Sandbox(state=state, speed=0, accounts={"ann": 60}) as first:
        api = caller(session, first)
        await api.create("key-of-order", image_ids=[(await api.upload(picture())).json["id"]])
        first.reset()
        task_id = (await api.create("key-of-order")).json["id"]

    async with Sandbox(state=state, speed=0) as second:
        assert list(second.tasks) == [task_id]
        assert [entry.kind for entry in second.ledger] == ["opening", "charge"]
        assert list(second.assets) == []
        assert second.accounts.names == ["account-1", "ann"]


async def test_stored_accounts_keep_their_credits_and_new_ones_are_added(state):
    async with Sandbox(state=state, balance=7, accounts={"ann": 60}) as first:
        keys = list(first.accounts)

    async with Sandbox(state=state, balance=9, accounts={"ann": 1, "ben": 2}) as second:
        balances = {account.name: account.balance for account in second.accounts.values()}

        assert balances == {"account-1": 7, "ann": 60, "ben": 2}
        assert list(second.accounts)[:2] == keys


async def test_a_directory_gets_a_file_that_only_its_owner_may_read(tmp_path):
    async with Sandbox(state=str(tmp_path)):
        mode = (tmp_path / "sandbox.db").stat().st_mode

    assert mode & 0o077 == 0


async def test_reads_at_the_usual_speed_write_nothing(session, state):
    async with Sandbox(state=state) as sandbox:
        before = {path: path.stat().st_mtime_ns for path in state.parent.iterdir()}
        for _ in range(20):
            await caller(session, sandbox).get("/account")

        assert {path: path.stat().st_mtime_ns for path in state.parent.iterdir()} == before


# Failures.


async def error_of_opening(state: Path, **options) -> str:
    """The message of the StateError."""
    with pytest.raises(StateError) as caught:
        async with Sandbox(state=state, **options):
            pytest.fail("it cannot be opened")
    return str(caught.value)


async def test_a_second_sandbox_on_the_same_state_is_refused_while_the_first_runs(session, state):
    async with Sandbox(state=state) as first:
        refusals = [await error_of_opening(state) for _ in range(2)]
        created = await caller(session, first).create()

    assert refusals == [f"the state {state} is in use by another sandbox"] * 2
    async with Sandbox(state=state) as second:
        assert list(second.tasks) == [created.json["id"]]


async def test_a_file_of_another_program_is_refused_and_not_changed(tmp_path):
    text, database = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("my notes, which are long enough to be more than a header of a database would need " * 9)
    change(database, "CREATE TABLE mine (x)")
    before = [text.read_bytes(), database.read_bytes()]

    assert "file is not a database" in await error_of_opening(text)
    assert (await error_of_opening(database)).startswith(f"{database} has format of another program, not 5. It was not")
    assert [text.read_bytes(), database.read_bytes()] == before


def change(state: Path, statements: str) -> None:
    """Run SQL on a state."""
    with closing(sqlite3.connect(state)) as db:
        db.executescript(statements)


@pytest.mark.parametrize("version", [3, 4, 6])
async def test_a_state_of_another_format_is_refused_with_what_to_do_and_not_changed(state, version):
    change(state, f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}")
    before = state.read_bytes()

    message = f"{state} has format {version}, not 5. It was not changed: pass another path"
    assert (await error_of_opening(state)).startswith(message)
    assert state.read_bytes() == before


#: Changes after which the file is still a database of this format.
DAMAGES = [
    "UPDATE records SET record = '{'",
    "UPDATE records SET record = '{}'",
    "UPDATE records SET record = '[]'",
    "UPDATE records SET record = '7'",
    "UPDATE records SET id = 'gift' WHERE id = 'settings'",
    "UPDATE records SET record = json_set(record, '$.points', 'x') WHERE id LIKE 'task%'",
    "UPDATE records SET record = json_set(record, '$.account', 'ann') WHERE id LIKE 'task%'",
    "UPDATE records SET record = json_set(record, '$.request', 7) WHERE id LIKE 'task%'",
    "UPDATE records SET record = json_set(record, '$.balance', 'x') WHERE id LIKE 'entry%'",
    "UPDATE records SET record = json_set(record, '$.expires_at', null) WHERE id LIKE 'asset%'",
    "UPDATE records SET record = json_set(record, '$.content', 'no Base64') WHERE id LIKE 'asset%'",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, 'TEXT)', 'CHECK (id < ''t''))')",
    "DELETE FROM records WHERE id = 'accounts'",
    "DELETE FROM records WHERE id = 'settings'",
]


async def test_a_damaged_record_is_an_error_that_names_the_file(session, state, tmp_path):
    async with Sandbox(state=state) as sandbox:
        await caller(session, sandbox).upload(picture())
        await caller(session, sandbox).create("key-of-order")
    for n, damage in enumerate(DAMAGES):
        damaged = tmp_path / f"damaged-{n}.db"
        damaged.write_bytes(state.read_bytes())
        change(damaged, damage)
        before = damaged.read_bytes()

        assert re.match(f"the state {damaged} (is damaged|cannot be read)", await error_of_opening(damaged)), damage
        assert damaged.read_bytes() == before, damage


async def test_flipped_bytes_are_a_state_error_or_have_no_effect(session, tmp_path):
    good = tmp_path / "good.db"
    async with Sandbox(state=good) as first:
        await caller(session, first).create("key-of-order")
    data, rng = good.read_bytes(), random.Random(5)  # noqa: S311 - the same damage every time

    for n in range(30):
        flipped = bytearray(data)
        for _ in range(rng.choice([1, 3, 50, 500])):
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        state = tmp_path / f"flipped-{n}.db"
        state.write_bytes(flipped)
        with suppress(StateError):
            async with Sandbox(state=state) as sandbox:
                assert (await caller(session, sandbox).get("/account")).status == 200


async def test_damaged_pages_are_an_error_that_names_the_file(session, state):
    async with Sandbox(state=state) as first:
        for _ in range(30):
            await caller(session, first).create()
    data = bytearray(state.read_bytes())
    data[4096:12288] = os.urandom(8192)
    state.write_bytes(data)

    assert (await error_of_opening(state)).startswith(f"the state {state} cannot be read or written: ")


async def test_a_missing_directory_is_an_error_that_names_the_file(tmp_path):
    nowhere = tmp_path / "not" / "there.db"
    message = await error_of_opening(nowhere)

    assert message.startswith(f"the state {nowhere} cannot be read or written: No such file")


async def test_another_key_for_a_stored_account_is_refused(state):
    async with Sandbox(state=state, api_key="key-of-mine"):
        pass

    assert (
        await error_of_opening(state, api_key="key-of-else")
        == f"the state {state} has another API key for the account 'account-1'"
    )
    async with Sandbox(state=state, api_key="key-of-mine") as again:
        assert again.api_key == "key-of-mine"


async def test_a_create_that_cannot_be_stored_is_503_and_is_stored_as_soon_as_possible(session, state):
    async with Sandbox(state=state) as first:
        api = caller(session, first)
        database = first._state_file._db
        database.execute("PRAGMA query_only = 1")
        refused = await api.create("key-of-order")
        database.execute("PRAGMA query_only = 0")
        accepted = await api.create("key-of-order")

    assert (refused.status, refused.code) == (503, "STATE_NOT_STORED")
    assert refused.json["error"]["message"].startswith(f"the state {state} cannot be read or written: ")
    assert accepted.status == 202
    async with Sandbox(state=state) as second:
        assert list(second.tasks) == [accepted.json["id"]]
        assert [entry.kind for entry in second.ledger] == ["opening", "charge"]


async def test_what_could_not_be_stored_is_shown_by_no_later_answer_before_it_is(session, state):
    async with Sandbox(state=state) as first:
        api = caller(session, first)
        first._state_file._db.execute("PRAGMA query_only = 1")
        assert (await api.create("key-of-order")).status == 503
        assert (await api.get("/account")).code == "STATE_NOT_STORED"
        first._state_file._db.execute("PRAGMA query_only = 0")
        assert (await api.get("/account")).status == 200


async def test_a_sandbox_whose_block_ends_with_an_exception_stores_its_changes(state):
    with suppress(ZeroDivisionError):
        async with Sandbox(state=state) as first:
            first.balance = 8
            raise ZeroDivisionError
    async with Sandbox(state=state) as second:
        assert second.balance == 8


async def test_a_changed_task_keeps_its_place(session, state):
    async with Sandbox(state=state) as first:
        api = caller(session, first)
        ids = [(await api.create()).json["id"] for _ in range(3)]
        first.tasks[ids[0]] = evolve(first.tasks[ids[0]], points=7)
    async with Sandbox(state=state) as second:
        assert list(second.tasks) == ids
        assert second.tasks[ids[0]].points == 7


async def test_a_port_in_use_leaves_the_state_unlocked(service, state):
    port_in_use = int(service.console_url.split(":")[2].rstrip("/"))
    with pytest.raises(OSError, match="in use"):
        async with Sandbox(state=state, port=port_in_use):
            pytest.fail("it cannot listen there")

    async with Sandbox(state=state) as again:
        assert again.balance == 100_000


# Killed.


@pytest.fixture
def start(state):
    """Starts ``vidgen sandbox --state`` and returns the process and the JSON that it printed."""
    processes = []

    def begin(*arguments: str) -> tuple[subprocess.Popen, dict]:
        command = [sys.executable, "-m", "vidgen_async", "sandbox", "--state", str(state), "--json", *arguments]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
        )
        processes.append(process)
        return process, json.loads(process.stdout.readline())

    yield begin
    for process in processes:
        with process:
            process.kill()


@pytest.mark.needs_dev
async def test_after_a_kill_every_accepted_create_is_restored_with_its_task_charge_and_key(session, start):
    """One process for all that comes before the kill, and one for all that comes after it."""
    process, started = start("--account", "ann=60", "--fault", "videos.create=close_after_body")
    api = Caller(session, started["base_url"], started["api_key"])
    ann = Caller(session, started["base_url"], started["accounts"][1]["api_key"])
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await api.create("key-of-the-lost-answer")
    image_id = (await ann.upload(picture("olive"))).json["image_id"]
    created = await ann.create("key-of-order", image_ids=[image_id])
    accepted = {}

    async def order(worker: int) -> None:
        with suppress(aiohttp.ClientError):
            for n in range(100):
                reply = await api.create(f"key-of-{worker}-{n}")
                accepted[f"key-of-{worker}-{n}"] = reply.json["id"]
                if len(accepted) == 40:
                    process.send_signal(signal.SIGKILL)

    await asyncio.gather(*(order(worker) for worker in range(8)))
    assert process.wait(20) == -signal.SIGKILL

    _, restarted = start()
    api.base_url = ann.base_url = restarted["base_url"]
    state = (await api.get(f"{restarted['console']}sandbox/state?limit=999999", bare=True)).json
    ids, (key, task_id) = {task["id"] for task in state["tasks"]}, list(accepted.items())[-1]

    assert restarted["accounts"][1] == {"name": "ann", "api_key": ann.key, "balance": 40}
    assert (await ann.create("key-of-order", image_ids=[image_id])).json["id"] == created.json["id"]
    # Creates that were accepted until the kill, with others in flight.
    assert 40 <= len(accepted) < 100
    assert set(accepted.values()) < ids
    assert len(state["ledger"]) == 2 + len(ids)
    assert (await api.create(key)).json["id"] == task_id
    # A create that was handled although its answer was lost.
    assert (await api.create("key-of-the-lost-answer")).json["id"] in ids - set(accepted.values())
