"""The page about the sandbox in CI: its commands are run, and each of its requests is accepted."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.docs.documentation import PAGES, ROOT, find_blocks
from tests.free_ports import find_port
from vidgen_async import RejectedError, UncertainCreateError

PAGE = "docs/how-to/sandbox-in-ci.md"
_, START, FAULT, STOP = (block.text for block in find_blocks("sh") if block.page == PAGE)

#: A create, whose response is lost: curl has the exit code 52.
CREATE = """
curl --silent --header "Authorization: Bearer $VIDGEN_SANDBOX_KEY" --header "Content-Type: application/json" \\
    --data '{"model": "gen-2.0", "prompt": "a boat", "duration": 5}' \\
    http://127.0.0.1:8080/openapi/v1/videos || echo "curl: $?"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a command vidgen of this checkout."""
    command = tmp_path / "bin" / "vidgen"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vidgen_async "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VIDGEN_")}
    return kept | {"PATH": f"{command.parent}:{kept['PATH']}", "PYTHONPATH": str(ROOT)}


def on_free_ports(script: str) -> str:
    return script.replace("8080", str(find_port())).replace("8081", str(find_port()))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
def test_the_commands_start_a_sandbox_lose_a_response_and_stop_it(environment, tmp_path):
    shell = ["/bin/sh", "-eu", "-c", on_free_ports(START + FAULT + CREATE + STOP)]
    ran = subprocess.run(shell, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603 - the page's own
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.fullmatch(r'{"id": .*"fault": "close after body".*}\s*curl: 52\n', ran.stdout)
    log = (tmp_path / "sandbox.log").read_text()
    assert re.search(r"create 1: model gen-2\.0, no response, task task_\w+, fault: close after body", log)
    assert log.endswith("sandbox: stopped\n")
    exported = (tmp_path / "sandbox.env").read_text()
    assert "export VIDGEN_API_KEY=sandbox-key-of-our-tests\n" in exported


@pytest.mark.slow
def test_a_test_program_reads_one_line_of_a_sandbox_that_is_ready(environment):
    (shown,) = (json.loads(block.text) for block in find_blocks("json") if block.page == PAGE)
    command = [sys.executable, "-m", "vidgen_async", "sandbox", "--json"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **streams) as sandbox:  # noqa: S603 - our own list
        line = json.loads(sandbox.stdout.readline())
        port = int(line["base_url"].split(":")[2].split("/")[0])
        socket.create_connection(("127.0.0.1", port)).close()
        on_its_port = [*command, "--port", str(port)]
        second = subprocess.run(on_its_port, env=environment, check=False, **streams)  # noqa: S603 - our own list
        sandbox.terminate()
        _, log = sandbox.communicate()
    assert shown.keys() == line.keys()
    assert shown["accounts"][0].keys() == line["accounts"][0].keys()
    assert sandbox.returncode == 0
    assert all(json.loads(entry) for entry in log.splitlines())
    assert (second.returncode, "in use" in second.stderr) == (2, True)


async def test_each_request_of_the_page_has_the_effect_that_it_states(client, service):
    rows = re.findall(r"^\| (.+) \| `(\w+) (\S+)`(?: `(.+)`)? \|$", PAGES[PAGE], re.MULTILINE)
    video = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}
    began = service.clock.now()
    async with aiohttp.ClientSession(service.console_url) as browser:
        answers = {}
        for effect, method, path, body in sorted(rows, key=lambda row: row[2] == "/sandbox/reset"):
            if effect.startswith("begins anew"):
                break
            async with browser.request(method, path, json=json.loads(body) if body else None) as response:
                assert response.status in (200, 201), (path, await response.text())
                answers[effect] = await response.json()
        assert [fault.fault.name for fault in service.faults.planned] == [
            "close after body",
            "status 402",
            "status 503",
        ]
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**video)
        with pytest.raises(RejectedError):
            await client.videos.create(**video)
        assert service.clock.now() - began >= 3600
        assert service.account("test-7").balance == 50
        async with browser.post("/sandbox/reset", json={}) as response:
            assert response.status == 200
        assert (service.faults.planned, list(service.creates)) == ([], [])
        assert service.account("test-7").balance == 50
    assert len(rows) == len(answers) + 1
