"""The API key is in no file and in no log, whatever becomes of the orders."""

import asyncio
import base64
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.processes import KEY, LATER, ROOT, check

ORDERS = {
    "accepted": "ok",
    "late": "late=0.05",
    "refused": "status=402",
    "limited": "status=429",
    "unauthorized": "status=401",
    "unavailable": "status=503",
    "nameless": "nameless",
    "half": "half",
    "reset": "reset",
    "hang": "hang",
}
SECRETS = [KEY.encode(), base64.b64encode(KEY.encode())[:-4], b"Bearer", b"Authorization: "]


def files_with_a_secret(place: Path) -> list[str]:
    """Every file below is looked at, whatever it is."""
    files = [path for path in place.rglob("*") if path.is_file()]
    return [path.name for path in files if any(secret in path.read_bytes() for secret in SECRETS)]


async def exported(base_url: str, journal: str) -> tuple[bytes, bytes]:
    """What the command line writes out about all orders."""
    settings = {"VIDGEN_API_KEY": KEY, "VIDGEN_BASE_URL": base_url, "VIDGEN_JOURNAL": journal}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vidgen_async", "orders", "export", "--with-request"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | settings,
    )
    return await program.communicate()


@pytest.mark.needs_dev
@pytest.mark.slow
async def test_no_outcome_of_an_order_writes_the_key_to_disk_or_to_a_log(on_service, tmp_path):
    log = tmp_path / "debug.log"
    creates = [[["create", name, f"{name}: {plan}"]] for name, plan in ORDERS.items()]
    told = await on_service.run(*creates, log=str(log), create_timeout=1.0)
    again = [[["resend", "unavailable", "nobody saw a task", 1]], [["adopt", "reset", "task-found"]], *creates]
    told += await on_service.run(*again, log=str(log), create_timeout=1.0, ahead=LATER)
    document, complaints = await exported(on_service.base_url, on_service.journal)
    (tmp_path / "told").write_text(repr(told))
    (tmp_path / "exported").write_bytes(document + complaints)

    shown = {post.authorization for post in on_service.record.posts()}
    assert shown == {hashlib.sha256(f"Bearer {KEY}".encode()).hexdigest()}, "it was sent, so it could have leaked"
    assert len(document.splitlines()) == len(ORDERS)
    assert complaints == b""
    assert "attempt 1 is accepted" in log.read_text()
    assert files_with_a_secret(tmp_path) == []


async def test_a_scan_would_find_the_key(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.log").write_text(f"send {KEY} now")
    assert files_with_a_secret(tmp_path) == ["a.log"]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before the commit of the attempt", "before the commit of the outcome"])
async def test_files_that_a_killed_process_leaves_are_accessible_to_their_owner_only_and_contain_no_key(
    on_service, tmp_path, point
):
    worker = await on_service.start([["create", "order", "order: ok"]], at=point, log=str(tmp_path / "debug.log"))
    await worker.ended()

    left = sorted(path for path in tmp_path.iterdir() if path.name.startswith("orders.db"))
    assert [path.name for path in left] == [
        f"orders.db{suffix}" for suffix in ("", "-journal", "-lock", "-lock-queue", "-senders")
    ]
    assert all(path.stat().st_size for path in left[:2]), "the transaction was under way"
    assert {stat.S_IMODE(path.stat().st_mode) for path in left} == {0o600}
    assert files_with_a_secret(tmp_path) == []
    check(on_service.record, on_service.journal)
