"""The server as a process, and the official client, at a sandbox."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.client.conftest import small_videos
from vidgen_async.sandbox import ReceivedRequest, Sandbox

__all__ = ["small_videos"]

ROOT = Path(__file__).resolve().parents[2]
VIDEO = {"model": "gen-2.0", "prompt": "SECRET-PROMPT", "duration": 5}


class Session:
    """One session of the official client."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result of a call that succeeded."""
        result = await self.session.call_tool(tool, arguments)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return result.structured_content

    async def order(self, order_id: str, **changes: Any) -> dict[str, Any]:
        return await self.call("order_video", order_id=order_id, video=VIDEO | changes)


class Servers:
    """Starts servers on one journal and one directory."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.has_create = asyncio.Event()
        self.to = folder / "videos"
        self.to.mkdir()
        self.log = folder / "log.txt"
        self.env = {
            "VIDGEN_BASE_URL": sandbox.base_url,
            "VIDGEN_API_KEY": sandbox.api_key,
            "VIDGEN_JOURNAL": f"sqlite:///{folder / 'orders.db'}",
            "PATH": os.environ["PATH"],
        }

    def command(self, *, points: int = 1000, answer_within: float | None = None) -> list[str]:
        if answer_within is not None:
            return [sys.executable, "-m", "tests.mcp.server_child", str(self.to), str(points), str(answer_within)]
        options = ["--to", str(self.to), "--max-points", str(points), "--price", "points"]
        return [sys.executable, "-m", "vidgen_async", "mcp", *options]

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Session]:
        command, *args = self.command(**options)
        parameters = StdioServerParameters(command=command, args=args, env=self.env, cwd=ROOT)
        with self.log.open("a") as log:
            async with stdio_client(parameters, errlog=log) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                yield Session(session)

    @property
    def posts(self) -> int:
        return len(self.sandbox.creates)


@pytest.fixture
async def servers(small_videos: None, tmp_path: Path) -> AsyncIterator[Servers]:
    def note(request: ReceivedRequest) -> None:
        if request.create is not None:
            servers.has_create.set()

    async with Sandbox(queued_for=0, running_for=0, on_request=note) as sandbox:
        servers = Servers(sandbox, tmp_path)
        yield servers


@pytest.fixture
async def slow_servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """At a service whose tasks run for a long time."""
    async with Sandbox(queued_for=0, running_for=1000) as sandbox:
        yield Servers(sandbox, tmp_path)


def pick(result: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(result[name] for name in names)
