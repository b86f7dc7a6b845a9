"""``vidgen sandbox``: the sandbox in the foreground, with a log line for each request."""

import asyncio
import json
import os
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click
from attrs import define, field, frozen

from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.service_connection import sandbox_class
from vidgen_async.cli.terminal.status_display import Screen
from vidgen_async.errors import ConfigurationError
from vidgen_async.redaction.messages import hide_secrets

if TYPE_CHECKING:
    from vidgen_async.sandbox import Account, ReceivedCreate, ReceivedRequest, Sandbox

#: Seconds after which a request without a response is logged as such.
OVERDUE_AFTER = 2.0
#: The variable for the key of the first account, which is never an option.
KEY_VARIABLE = "VIDGEN_SANDBOX_KEY"


@frozen(kw_only=True)
class Settings:
    """The options of the sandbox. ``accounts`` are additional ones with their credits; ``faults`` are unparsed."""

    host: str = "127.0.0.1"
    port: int = 0
    links_port: int = 0
    speed: float = 1.0
    balance: int
    accounts: Mapping[str, int] = field(factory=dict)
    state: str | None = None
    queued_for: float
    running_for: float
    submission_limit: int
    faults: tuple[str, ...] = ()
    is_json: bool = False


async def serve(settings: Settings, run_state: RunState, screen: Screen) -> None:
    """Run until cancelled. The variables to export go to stdout, everything else to stderr."""
    log = SandboxLog(lambda line: screen.print_fact("request" if settings.is_json else time.strftime("%H:%M:%S"), line))
    async with AsyncExitStack() as stack:
        sandbox = await _open_sandbox(stack, settings, log)
        run_state.stage = Stage.SERVE
        _print_addresses(sandbox, settings, screen)
        await asyncio.get_running_loop().create_future()


async def _open_sandbox(stack: AsyncExitStack, settings: Settings, log: "SandboxLog") -> "Sandbox":
    """Start the sandbox; ConfigurationError for a wrong option."""
    make = sandbox_class()
    from vidgen_async.sandbox import StateError  # noqa: PLC0415 - the extra is installed: see above

    try:
        sandbox = make(
            api_key=os.environ.get(KEY_VARIABLE) or None,
            balance=settings.balance,
            host=settings.host,
            port=settings.port,
            links_port=settings.links_port,
            speed=settings.speed,
            queued_for=settings.queued_for,
            running_for=settings.running_for,
            submission_limit=settings.submission_limit,
            accounts=settings.accounts,
            state=settings.state,
            on_request=log.handle_request,
        )
        _plan_faults(sandbox, settings.faults)
        return await stack.enter_async_context(sandbox)
    except OSError as error:
        raise ConfigurationError(f"the sandbox {error.strerror or error}") from error
    except StateError as error:
        raise ConfigurationError(str(error)) from error
    except ValueError as error:
        raise ConfigurationError(str(error).replace("api_key", KEY_VARIABLE)) from error


def _plan_faults(sandbox: "Sandbox", faults: tuple[str, ...]) -> None:
    from vidgen_async.sandbox.web.fault_input import plan_text  # noqa: PLC0415 - it needs the sandbox's extra

    problems = []
    for written in faults:
        try:
            plan_text(sandbox.faults, written)
        except ValueError as error:
            problems.append(f"--fault {error}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def _print_addresses(sandbox: "Sandbox", settings: Settings, screen: Screen) -> None:
    from vidgen_async.sandbox.web.access_control import is_loopback  # noqa: PLC0415 - it needs the sandbox's extra

    if settings.is_json:
        accounts = [
            {"name": each.name, "api_key": each.api_key, "balance": each.balance} for each in _accounts(sandbox)
        ]
        addresses = {"console": sandbox.console_url, "links_url": sandbox.links_url}
        document = {"base_url": sandbox.base_url, "api_key": sandbox.api_key, "accounts": accounts, **addresses}
        click.echo(json.dumps(document))
    else:
        screen.print_fact("sandbox", "ready; nothing is charged. To use it, set these variables in another terminal:")
        click.echo(f"export VIDGEN_BASE_URL={shlex.quote(sandbox.base_url)}")
        click.echo(f"export VIDGEN_API_KEY={shlex.quote(sandbox.api_key)}")
        for account in _accounts(sandbox)[1:]:
            click.echo(f"# account {account.name}: export VIDGEN_API_KEY={shlex.quote(account.api_key)}")
    screen.print_fact("console", sandbox.console_url)
    screen.print_fact(
        "control",
        f"{sandbox.console_url}sandbox/ controls faults, the clock, accounts …; an unknown path lists all",
    )
    if not is_loopback(settings.host):
        screen.warn(
            f"{settings.host} can be reached from other machines: every client sees the keys and prompts "
            "of the sandbox and can change everything in it"
        )
    screen.print_fact("sandbox", f"Ctrl-C stops it; its state is {'saved' if settings.state else 'lost'}")


def _accounts(sandbox: "Sandbox") -> "list[Account]":
    return list(sandbox.accounts.values())


@define
class SandboxLog:
    """Logs a line for each request when it is finished, and one before that if it is overdue."""

    _write: Callable[[str], None]
    _open: "dict[ReceivedRequest, asyncio.TimerHandle]" = field(factory=dict)

    def handle_request(self, request: "ReceivedRequest") -> None:
        """Handle a request that arrived or finished."""
        if not request.is_over:
            loop = asyncio.get_running_loop()
            self._open[request] = loop.call_later(OVERDUE_AFTER, self._log, request)
        elif request in self._open:
            self._open.pop(request).cancel()
            self._log(request)

    def _log(self, request: "ReceivedRequest") -> None:
        self._write(describe_create(request.create) if request.create else describe(request))


def describe(request: "ReceivedRequest") -> str:
    """One line about a request other than a create."""
    place = "links: " if request.origin == "links" else ""
    answer = f"{request.status}" if request.status else "no response"
    fault = f", fault: {request.fault}" if request.fault else ""
    return f"{place}{request.method} {hide_secrets(request.path)}: {answer}{fault}"


def describe_create(create: "ReceivedCreate") -> str:
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
