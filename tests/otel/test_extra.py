"""The extra: without it, the client does not import OpenTelemetry."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USE = """
import asyncio, sys
from vidgen_async import Client
from vidgen_async.transports import BufferedResponse, FakeTransport

async def answer(request):
    return BufferedResponse(200, b'{"id": "t", "status": "completed"}')

async def main():
    asyncio.get_running_loop().slow_callback_duration = 30.0  # the machine may be busy
    async with Client("a-key", base_url="http://localhost/openapi/v1", transport=FakeTransport(answer)) as client:
        print((await client.videos.wait("t")).status)

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("opentelemetry", "vidgen_async.otel"))])
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-X", "dev", "-W", "error", "-c", *command)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - ours


@pytest.mark.slow
def test_a_client_imports_no_opentelemetry():
    ran = run(USE)
    assert (ran.stdout, ran.stderr) == ("completed\n[]\n", "")


def test_without_opentelemetry_the_import_names_the_extra():
    ran = run("import sys; sys.modules['opentelemetry'] = None; import vidgen_async.otel")
    assert ran.returncode == 1
    expected = 'ImportError: vidgen_async.otel needs opentelemetry-api: pip install "vidgen-async[otel]"'
    assert ran.stderr.splitlines()[-1] == expected


@pytest.mark.slow
def test_with_the_api_package_alone_it_works_and_stores_nothing():
    ran = run(
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        + USE.replace(
            "from vidgen_async import Client", "from vidgen_async import Client; from vidgen_async.otel import *"
        )
        .replace("=FakeTransport(answer)", "=TracedTransport(FakeTransport(answer))")
        .replace("        print(", "        observe(client); print(")
        .replace("print([name", "len([name")
    )
    assert (ran.stdout, ran.stderr) == ("completed\n", "")
