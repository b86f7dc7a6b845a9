"""``vidgen sandbox``: the sandbox in the foreground, with a log line for each request. Needs the extra ``sandbox``."""

import json
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import click

from vidgen_async.cli.options import Run, execute, json_option, repeatable_option, traceback_option
from vidgen_async.cli.process import drop_lost_output
from vidgen_async.cli.run_state import Stage
from vidgen_async.cli.settings import Number, Settings, WholeNumber
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.errors import ConfigurationError

if TYPE_CHECKING:
    from vidgen_async.cli.terminal.status_display import Screen
    from vidgen_async.sandbox import ReceivedRequest, Sandbox

#: The variable for the key of the first account, which is never an option.
KEY_VARIABLE = "VIDGEN_SANDBOX_KEY"
#: The segments of a path that are no secrets: words, and the ids of tasks, videos and images.
_SHOWN = re.compile(r"(?:[a-z-]{1,20}|v1|task_[0-9a-f]{24}|up-[0-9a-f_a-z]{1,29}\.mp4|asset_[0-9a-f]{1,64})?")
PORT = WholeNumber(0, 65535)
SECONDS = Number(min=0)
COUNT = WholeNumber(min=0)
DEFAULT_BALANCE = 100_000


def read_account(text: str) -> tuple[str, int]:
    """Parse ``NAME[=CREDITS]``, an additional account."""
    name, equals, credits_left = text.partition("=")
    if equals and not (credits_left.isascii() and credits_left.isdigit() and len(credits_left) <= 12):
        raise click.BadParameter(f"{text!r}: the credits must be a whole number")
    return name, int(credits_left) if equals else DEFAULT_BALANCE


@click.command(name="sandbox")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=PORT, default=0, help="Port of the service. Default: a free one.")
@click.option("--links-port", type=PORT, default=0, help="Port of signed links. Default: a free one.")
@click.option(
    "--public-url",
    metavar="URL",
    help="URL of the service for its clients, behind a proxy. Default: the name and port that each client uses.",
)
@click.option(
    "--public-links-url",
    metavar="URL",
    help="URL of signed links for their clients. Default: the name of the service, with --links-port.",
)
@click.option(
    "--speed", type=SECONDS, default=1.0, help="Sandbox seconds per real second. Default: 1; 0 stops the clock."
)
@click.option(
    "--balance", type=COUNT, default=DEFAULT_BALANCE, show_default=True, help="Initial credits of the first account."
)
@repeatable_option(
    "--account", "accounts", type=read_account, metavar="NAME[=CREDITS]", help="An additional account with its own key."
)
@click.option("--state", metavar="PATH", help="File or directory that stores the state for later runs.")
@click.option("--queued-for", type=SECONDS, default=1.0, show_default=True, help="Seconds for which a task is queued.")
@click.option("--running-for", type=SECONDS, default=3.0, show_default=True, help="Seconds for which a task then runs.")
@click.option(
    "--submission-limit",
    type=COUNT,
    default=100,
    show_default=True,
    help="Creates per account in 60 seconds; more are rejected with 429.",
)
@repeatable_option(
    "--fault",
    "faults",
    metavar="OP=NAME[,ARG=VALUE…][:TIMES]",
    help="Inject a fault into the next request of an operation (* for any), the next TIMES requests, or always.",
)
@json_option
@traceback_option
def run_sandbox(
    accounts: tuple[tuple[str, int], ...], faults: tuple[str, ...], is_json: bool, is_debug: bool, **options: Any
) -> int:
    """Run a sandbox of the service until Ctrl-C.

    It needs no key and charges nothing. stdout has the environment variables to export; stderr has a log line for each
    request. The web console shows its state.

    \b
      vidgen sandbox --speed 60 --account b=500 --state s.db
      vidgen sandbox --fault videos.create=close_after_body
      vidgen sandbox --fault videos.get=status,code=503:3 \\
          --fault account.get=stall:always

    The key of the first account is generated, or read from VIDGEN_SANDBOX_KEY. --json prints one line with base_url,
    api_key, accounts (name, api_key, balance), console and links_url.
    """
    named = dict(accounts)
    if len(named) < len(accounts):
        raise click.BadParameter("the same account name is given twice", param_hint="--account")
    drop_lost_output()
    settings = Settings(is_json=is_json, is_debug=is_debug)
    return execute(_serve, settings, faults=faults, options={**options, "accounts": named})


async def _serve(run: Run, faults: Sequence[str], options: Mapping[str, Any]) -> None:
    """Run until cancelled. The variables to export go to stdout, everything else to stderr. ``options`` are arguments
    of ``Sandbox``, and ``faults`` are not parsed yet."""
    import asyncio  # noqa: PLC0415 - help needs no event loop

    sandbox = await _open_sandbox(run, faults, options)
    run.stage = Stage.SERVE
    if not run.settings.is_json:
        run.screen.print_fact("sandbox", "ready; nothing is charged. Set these variables in another terminal:")
    _print_addresses(sandbox, is_json=run.settings.is_json)
    _print_notes(sandbox, options, run.screen)
    await asyncio.get_running_loop().create_future()


async def _open_sandbox(run: Run, faults: Sequence[str], options: Mapping[str, Any]) -> "Sandbox":
    """Start the sandbox; ConfigurationError for a wrong option."""
    from vidgen_async.cli.service_connection import sandbox_class  # noqa: PLC0415 - help needs no client and no sandbox

    sandbox_type = sandbox_class()  # names the extra if it is missing
    from vidgen_async import Client  # noqa: PLC0415 - as above
    from vidgen_async.sandbox import StateError, plan_text  # noqa: PLC0415 - it needs the extra

    def log(request: "ReceivedRequest") -> None:
        if request.is_over:
            run.screen.print_fact("request" if run.settings.is_json else time.strftime("%H:%M:%S"), describe(request))

    problems = []
    try:
        sandbox = sandbox_type(api_key=os.environ.get(KEY_VARIABLE) or None, on_request=log, **options)
        Client(sandbox.api_key, base_url="http://localhost/openapi/v1")  # refuses quotes and placeholders
        for written in faults:
            try:
                plan_text(sandbox.faults, written)
            except ValueError as error:
                problems.append(f"--fault {error}")
        if problems:
            raise ConfigurationError("; ".join(problems))
        return await run.exits.enter_async_context(sandbox)
    except OSError as error:
        raise ConfigurationError(f"the sandbox {error.strerror or error}") from error
    except StateError as error:
        raise ConfigurationError(str(error)) from error
    except ValueError as error:
        problem = re.sub(r"^public_(links_)?url", lambda name: f"--{name[0].replace('_', '-')}", str(error))
        raise ConfigurationError(problem.replace("api_key", KEY_VARIABLE)) from error


def _print_addresses(sandbox: "Sandbox", *, is_json: bool) -> None:
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


def _print_notes(sandbox: "Sandbox", options: Mapping[str, Any], screen: "Screen") -> None:
    screen.print_fact("console", sandbox.console_url)
    screen.print_fact(
        "control", f"{sandbox.console_url}sandbox/ controls faults, the clock, accounts …; an unknown path lists all"
    )
    if not _is_loopback(host := options["host"]):
        everything = "every client sees the keys and prompts of the sandbox and can change everything in it"
        screen.warn(f"{host} can be reached from other machines: {everything}")
    screen.print_fact("sandbox", f"Ctrl-C stops it; its state is {'saved' if options['state'] else 'lost'}")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def describe(request: "ReceivedRequest") -> str:
    """One line about a finished request, without its prompt and without what may be a secret in its path."""
    create, status = request.create, f"{request.status}" if request.status else "no response"
    if create is None:
        place = "links: " if request.origin == "links" else ""
        path, has_query, _ = request.path.partition("?")
        shown = "/".join(segment if _SHOWN.fullmatch(segment) else "…" for segment in path.split("/"))
        what, facts = f"{place}{request.method} {shown}{has_query and '?…'}", [status]
    else:
        model = create.body.get("model") if isinstance(create.body, dict) else None
        facts = [f"model {model}" if isinstance(model, str) else "no readable body"]
        facts += [f"status {status}" if request.status else status]
        facts += [f"task {create.task_id}" if create.task_id else "no task"]
        facts += ["created by an earlier request"] if create.replayed else []
        what = f"create {create.n}"
    facts += [f"fault: {request.fault}"] if request.fault else []
    facts += [f"the sandbox itself failed: {clean(request.error)}"] if request.error else []
    return f"{what}: {', '.join(facts)}"
