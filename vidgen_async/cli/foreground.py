"""``vidgen sandbox``: the sandbox in the foreground, with a line for everything that it is asked."""

import asyncio
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import takewhile
from typing import TYPE_CHECKING

import click
from attrs import define, field

from vidgen_async.cli.journey import Journey, Stage
from vidgen_async.cli.screens import Screen
from vidgen_async.cli.service import sandbox_class
from vidgen_async.errors import ConfigurationError
from vidgen_async.redaction import hide_secrets

if TYPE_CHECKING:
    from vidgen_async.sandbox import ReceivedCreate, ReceivedRequest, Sandbox

#: Seconds between two looks at what the sandbox has received.
LOOK_EVERY = 0.1
#: Seconds after which a create without an answer is shown all the same.
PATIENCE = 2.0


async def serve(host: str, port: int, speed: float, journey: Journey, screen: Screen) -> None:
    """Run until cancelled. The two lines to export go to stdout, everything else to stderr."""
    async with AsyncExitStack() as stack:
        try:
            sandbox = await stack.enter_async_context(sandbox_class()(host=host, port=port, speed=speed))
        except OSError as error:
            message = f"the sandbox cannot listen on {host}, port {port}: {error.strerror or error}"
            raise ConfigurationError(message) from error
        journey.stage = Stage.SERVE
        screen.say("sandbox", "ready; nothing that it does is charged. To use it, set in another terminal:")
        click.echo(f"export VIDGEN_BASE_URL={shlex.quote(sandbox.base_url)}")
        click.echo(f"export VIDGEN_API_KEY={shlex.quote(sandbox.api_key)}")
        screen.say("sandbox", "Ctrl-C ends it, and its tasks with it")
        log = SandboxLog(sandbox)
        while True:
            for line in log.news():
                screen.say(time.strftime("%H:%M:%S"), line)
            await asyncio.sleep(LOOK_EVERY)


@define
class SandboxLog:
    """What has reached a sandbox since the last look, a line for each."""

    _sandbox: "Sandbox"
    _last: "ReceivedRequest | None" = None
    _creates: int = 0
    _open: "list[tuple[ReceivedCreate, float]]" = field(factory=list)

    def news(self) -> Iterator[str]:
        """The lines; a create's once it is answered, or overdue."""
        for request in self._fresh(self._sandbox.requests):
            self._last = request
            if request.op != "videos.create":
                place = "links: " if request.origin == "links" else ""
                yield f"{place}{request.method} {hide_secrets(request.path)}"
        now = time.monotonic()
        self._open += [(create, now) for create in self._sandbox.creates[self._creates :]]
        self._creates = len(self._sandbox.creates)
        for create, since in self._open[:]:
            if create.status is not None or now - since > PATIENCE:
                self._open.remove((create, since))
                yield describe(create)

    def _fresh(self, requests: "Sequence[ReceivedRequest]") -> "Sequence[ReceivedRequest]":
        # Found by identity: the sandbox forgets the oldest of very many.
        last = self._last
        return list(takewhile(lambda request: request is not last, reversed(requests)))[::-1]


def describe(create: "ReceivedCreate") -> str:
    """One line about a create; not its prompt."""
    model = create.body.get("model") if isinstance(create.body, dict) else None
    facts = (
        f"model {model}" if isinstance(model, str) else "no readable body",
        f"answered {create.status}" if create.status else "no answer",
        f"task {create.task_id}" if create.task_id else "no task",
        "made by an earlier create" if create.replayed else "",
        f"fault: {create.fault}" if create.fault else "",
    )
    return f"create {create.n}: {', '.join(fact for fact in facts if fact)}"
