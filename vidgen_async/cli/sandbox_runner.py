"""``vidgen sandbox``: the sandbox in the foreground, with a log line for each request. Needs the extra ``sandbox``."""

import asyncio
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from typing import Any

import click
from attrs import define, field

from vidgen_async import Client
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.errors import ConfigurationError
from vidgen_async.sandbox import ReceivedCreate, ReceivedRequest, Sandbox, StateError, plan_text

#: Seconds after which a request without a response is logged as such.
OVERDUE_AFTER = 2.0
#: The variable for the key of the first account, which is never an option.
KEY_VARIABLE = "VIDGEN_SANDBOX_KEY"


async def serve(
    options: Mapping[str, Any], faults: Sequence[str], run_state: RunState, screen: Screen, *, is_json: bool
) -> None:
    """Run until cancelled. The variables to export go to stdout, everything else to stderr. ``options`` are arguments
    of ``Sandbox``, and ``faults`` are not parsed yet."""
    log = SandboxLog(lambda line: screen.print_fact("request" if is_json else time.strftime("%H:%M:%S"), line))
    async with AsyncExitStack() as stack:
        sandbox = await _open_sandbox(stack, options, faults, log)
        run_state.stage = Stage.SERVE
        if not is_json:
            screen.print_fact("sandbox", "ready; nothing is charged. Set these variables in another terminal:")
        _print_addresses(sandbox, is_json=is_json)
        _print_notes(sandbox, options, screen)
        await asyncio.get_running_loop().create_future()


async def _open_sandbox(
    stack: AsyncExitStack, options: Mapping[str, Any], faults: Sequence[str], log: "SandboxLog"
) -> Sandbox:
    """Start the sandbox; ConfigurationError for a wrong option."""
    try:
        sandbox = Sandbox(api_key=os.environ.get(KEY_VARIABLE) or None, on_request=log.handle_request, **options)
        Client(sandbox.api_key, base_url="http://localhost/openapi/v1")  # refuses quotes and placeholders
        _plan_faults(sandbox, faults)
        return await stack.enter_async_context(sandbox)
    except OSError as error:
        raise ConfigurationError(f"the sandbox {error.strerror or error}") from error
    except StateError as error:
        raise ConfigurationError(str(error)) from error
    except ValueError as error:
        problem = re.sub(r"^public_(links_)?url", lambda name: f"--{name[0].replace('_', '-')}", str(error))
        raise ConfigurationError(problem.replace("api_key", KEY_VARIABLE)) from error


def _plan_faults(sandbox: Sandbox, faults: Sequence[str]) -> None:
    problems = []
    for written in faults:
        try:
            plan_text(sandbox.faults, written)
        except ValueError as error:
            problems.append(f"--fault {error}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def _print_addresses(sandbox: Sandbox, *, is_json: bool) -> None:
    accounts = list(sandbox.accounts.values())
    if is_json:
        document = {
            "base_url": sandbox.base_url,
            "api_key": sandbox.api_key,
            "accounts": [{"name": one.name, "api_key": one.api_key, "balance": one.balance} for one in accounts],
            "console": sandbox.console_url,
            "links_url": sandbox.links_url,
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"export VIDGEN_BASE_URL={shlex.quote(sandbox.base_url)}")
    click.echo(f"export VIDGEN_API_KEY={shlex.quote(sandbox.api_key)}")
    for account in accounts[1:]:
        click.echo(f"# account {clean(account.name)}: export VIDGEN_API_KEY={shlex.quote(account.api_key)}")


def _print_notes(sandbox: Sandbox, options: Mapping[str, Any], screen: Screen) -> None:
    screen.print_fact("console", sandbox.console_url)
    screen.print_fact(
        "control", f"{sandbox.console_url}sandbox/ controls faults, the clock, accounts …; an unknown path lists all"
    )
    if not _is_loopback(options["host"]):
        screen.warn(
            f"{options['host']} can be reached from other machines: every client sees the keys and prompts "
            "of the sandbox and can change everything in it"
        )
    screen.print_fact("sandbox", f"Ctrl-C stops it; its state is {'saved' if options['state'] else 'lost'}")


@define
class SandboxLog:
    """Logs a line for each request when it is finished, and one before that if it is overdue."""

    _write: Callable[[str], None]
    _open: dict[ReceivedRequest, asyncio.TimerHandle] = field(factory=dict)

    def handle_request(self, request: ReceivedRequest) -> None:
        """Handle a request that arrived or finished."""
        if not request.is_over:
            loop = asyncio.get_running_loop()
            self._open[request] = loop.call_later(OVERDUE_AFTER, self._log, request)
        elif request in self._open:
            self._open.pop(request).cancel()
            self._log(request)

    def _log(self, request: ReceivedRequest) -> None:
        line = describe_create(request.create) if request.create else describe(request)
        self._write(f"{line}, the sandbox itself failed: {clean(request.error)}" if request.error else line)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def describe(request: ReceivedRequest) -> str:
    """One line about a request other than a create."""
    place = "links: " if request.origin == "links" else ""
    answer = f"{request.status}" if request.status else "no response"
    fault = f", fault: {request.fault}" if request.fault else ""
    return f"{place}{request.method} {clean(re.sub(r'=[^&]*', '=…', request.path))}: {answer}{fault}"


def describe_create(create: ReceivedCreate) -> str:
    """One line about a create, without its prompt."""
    model = create.body.get("model") if isinstance(create.body, dict) else None
    facts = (
        f"model {model}" if isinstance(model, str) else "no readable body",
        f"status {create.status}" if create.status else "no response",
        f"task {create.task_id}" if create.task_id else "no task",
        "created by an earlier request" if create.replayed else "",
        f"fault: {create.fault}" if create.fault else "",
    )
    return f"create {create.n}: {', '.join(fact for fact in facts if fact)}"
