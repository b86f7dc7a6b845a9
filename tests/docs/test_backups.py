"""The page about backups: its programs and its commands, on files of SQLite."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.docs.documentation import find_steps, run_program
from vidgen_async import Client, UncertainCreateError, VideoRequest
from vidgen_async.sandbox import Sandbox

REQUEST = VideoRequest(model="gen-2.0", prompt="a boat", duration=5)


def make_client(service: Sandbox, journal: Path) -> Client:
    return Client(service.api_key, base_url=service.base_url, journal=f"sqlite:///{journal}")


async def order(client: Client, order_id: str) -> str | None:
    """Create a video; return the task id, or None if the order is uncertain."""
    try:
        return (await client.videos.create(REQUEST, order_id=order_id)).task_id
    except UncertainCreateError:
        return None


def restore(directory: Path) -> None:
    """As the page shows it."""
    commands, _ = find_steps("docs/how-to/backups.md")
    subprocess.run(["/bin/sh", "-eu", "-c", commands], cwd=directory, check=True)  # noqa: S603 - the page's own


async def test_a_journal_in_use_is_copied(service, tmp_path):
    source, target = tmp_path / "orders.db", tmp_path / "backup.db"
    async with make_client(service, source) as client:
        task_id = await order(client, "order-1")
        await run_program("async def back_up(")["back_up"](source, target)
        assert await order(client, "order-2") not in (task_id, None)
    async with make_client(service, target) as client:
        assert [one.order_id for one in await client.orders.list()] == ["order-1"]
        assert await order(client, "order-1") == task_id
    assert target.stat().st_mode & 0o777 == 0o600
    assert len(service.creates) == 2


async def test_the_backup_of_a_journal_that_does_not_exist_creates_none(tmp_path):
    with pytest.raises(SystemExit, match="there is no journal"):
        await run_program("async def back_up(")["back_up"](tmp_path / "oders.db", tmp_path / "backup.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:this client belongs to a sandbox")
async def test_orders_after_the_backup_of_a_file_are_not_sent_again(service, tmp_path, monkeypatch):
    journal, backup = tmp_path / "orders.db", tmp_path / "backup.db"
    async with make_client(service, journal) as client:
        known = await order(client, "known")
        await run_program("async def back_up(")["back_up"](journal, backup)
        lost = await order(client, "lost")
    (tmp_path / "orders.db-journal").write_bytes(b"left by a killed worker")

    restore(tmp_path)
    assert {path.name for path in tmp_path.glob("orders.db*")} == {"orders.db"}
    monkeypatch.setenv("VIDGEN_JOURNAL", f"sqlite:///{journal}")
    monkeypatch.setenv("VIDGEN_API_KEY", service.api_key)
    monkeypatch.setenv("VIDGEN_BASE_URL", service.base_url)
    made_at = datetime.fromtimestamp(backup.stat().st_mtime, UTC)
    jobs = dict.fromkeys(("known", "lost"), REQUEST)
    await run_program("async def store_as_uncertain(")["store_as_uncertain"](jobs, made_at)

    async with make_client(service, journal) as client:
        assert [await order(client, order_id) for order_id in jobs] == [known, None]
        await client.orders.adopt("lost", lost)
        assert await order(client, "lost") == lost
    assert len(service.creates) == 2
