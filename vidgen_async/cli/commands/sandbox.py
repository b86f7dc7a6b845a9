"""``vidgen sandbox``: its options."""

from typing import TYPE_CHECKING, Any

import click

from vidgen_async.cli.option_values import Number, WholeNumber
from vidgen_async.cli.options import execute, json_option, repeatable_option, traceback_option
from vidgen_async.cli.settings import Settings
from vidgen_async.cli.terminal.standard_streams import drop_lost_output

if TYPE_CHECKING:
    from vidgen_async.cli.run import Run

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

    async def serve(run: "Run") -> None:
        from vidgen_async.cli.service_connection import sandbox_class  # noqa: PLC0415 - help needs no sandbox

        sandbox_class()  # names the extra if it is missing
        from vidgen_async.cli import sandbox_runner  # noqa: PLC0415 - it needs the extra

        await sandbox_runner.serve({**options, "accounts": named}, faults, run.state, run.screen, is_json=is_json)

    return execute(serve, Settings(is_json=is_json, is_debug=is_debug))
