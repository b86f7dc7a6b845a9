"""``vidgen orders``: the orders in the journal, and the operator's decisions about uncertain ones."""

import getpass
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import click
from attrs import evolve

from vidgen_async.cli.options import (
    OrderedGroup,
    Run,
    connection_options,
    execute,
    no_validate_option,
    order_ids,
    refuse_empty,
)
from vidgen_async.cli.process import is_terminal
from vidgen_async.cli.run_state import Stage
from vidgen_async.cli.settings import PAGE, Access, Settings, WholeNumber, read_since
from vidgen_async.cli.terminal.exit_reports import command_line
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.cli.terminal.order_views import budget_text, order_document, order_facts, orders_csv, orders_table
from vidgen_async.types import Order, OrderState, OrderStateName


@click.group(cls=OrderedGroup)
def orders() -> None:
    """List and show orders; resolve uncertain ones.

    Every create is an order, which is stored in the journal before it is sent. An order is "uncertain" if it is unknown
    whether the service accepted it. It is never retried automatically: check the account, then adopt, abandon or resend
    it.

    \b
      vidgen orders ls --state uncertain
      vidgen orders show order-1187
      vidgen orders adopt order-1187 task_9bb34ae375b1
      vidgen orders abandon order-1187 --reason "no task"
    """


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user id
        return ""


_order = click.argument("order_id", metavar="ORDER", shell_complete=order_ids)
_by = click.option(
    "--by",
    metavar="NAME",
    default=_login_name,
    help="Name of the person who decides, recorded in the journal. Default: your login name.",
)
_required_reason = click.option("--reason", metavar="TEXT", required=True, help="The reason, recorded in the journal.")
_with_request = click.option(
    "--with-request", is_flag=True, help="Include the Idempotency-Key, and the request with prompt and URLs."
)
_reason = click.option("--reason", metavar="TEXT", default="", help="The reason, recorded in the journal.")


@orders.command()
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in OrderState]),
    metavar="STATE",
    multiple=True,
    help=f"Only orders in this state: {', '.join(OrderState)}. May be repeated.",
)
@click.option(
    "--since",
    type=read_since,
    metavar="WHEN",
    help="Only orders that were created then or later: 5m, 2h, 7d (ago; units: s, m, h, d, w), 2026-11-29 or "
    "2026-11-29T08:00 (local time).",
)
@click.option(
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help=f"Only the N newest of them. Default: {PAGE} at a terminal, else all.",
)
@click.option(
    "--before", metavar="ORDER", callback=refuse_empty, shell_complete=order_ids, help="Only orders older than ORDER."
)
@connection_options(orders=True, budget=True)
async def ls(
    run: Run,
    states: tuple[OrderStateName, ...],
    since: datetime | None,
    limit: int | None,
    before: str | None,
) -> None:
    """List the orders in the journal, the newest last.

    "points" is the cost of a task that was seen to end. A terminal shows a page, and the command for the page before.

    \b
      vidgen orders ls
      vidgen orders ls --state uncertain --state sending
      vidgen orders ls --since 2h --json
      vidgen orders ls --limit 20 --before order-1187
    """
    run.stage, settings = Stage.JOURNAL, run.settings
    client = await run.connect(Access.EXISTING, only_prints=True, needs_key=False)
    is_page = limit is None and is_terminal(sys.stdout) and not settings.is_json
    size = PAGE if is_page else limit
    if before is not None:
        await run.get_order(before)
    found = await client.orders.list(
        states or None, since=since, after=before, limit=None if size is None else size + 1, newest_first=True
    )
    page = found[:size][::-1]
    older = ""
    if len(found) > len(page):
        filters = [word for state in states for word in ("--state", state)]
        filters += [] if since is None else ["--since", since.isoformat(timespec="seconds")]
        filters += [] if limit is None else ["--limit", str(limit)]
        options = (f"--before={page[0].order_id}", *filters, *settings.budget_options, *settings.connection)
        older = command_line("orders", "ls", options=options)
    empty = f"no {'matching ' if states or since or before else ''}orders {run.journal_place}"
    if not page and (others := await run.describe_other_accounts()):
        empty += f"; it has orders of {others}"
    budget = None if settings.is_json else await client.orders.budget()
    table = orders_table(page, datetime.now(UTC), empty, older, budget_text(budget))
    run.screen.show(table, *map(order_document, page))


@orders.command()
@_order
@_with_request
@connection_options(orders=True)
async def show(run: Run, order_id: str, with_request: bool) -> None:
    """Show everything that is stored about ORDER.

    This includes its attempts with their outcomes, and all decisions.

    \b
      vidgen orders show order-1187
      vidgen orders show order-1187 --with-request --json
    """
    await run.connect(Access.EXISTING, only_prints=True, needs_key=False)
    order = await run.get_order(order_id)
    run.screen.show(order_facts(order, with_request=with_request), order_document(order, with_request=with_request))


@orders.command()
@_order
@no_validate_option
@connection_options(orders=True, budget=True)
async def resume(run: Run, order_id: str, validate: bool) -> None:
    """Resume ORDER and print its task id.

    It is sent only if it is proven that the service created nothing for it: it is queued, was not sent, or was
    rejected. An uncertain order is never sent.

    \b
      vidgen orders resume order-1187
    """
    await run.connect(Access.EXISTING)
    receipt = await run.resume(order_id, validate=validate)
    run.screen.show(receipt.task_id, receipt.to_dict())


@orders.command()
@_order
@click.option(
    "--expect-attempt",
    type=WholeNumber(min=1),
    metavar="N",
    required=True,
    help="Number of the last attempt you know of. If two operators resend at once, only one succeeds.",
)
@_required_reason
@_by
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@click.option("--accept-duplicate-risk", is_flag=True, help="Resend even if the service may have forgotten the key.")
@connection_options(orders=True, budget=True)
def resend(settings: Settings, order_id: str, by: str, is_sure: bool, **decision: Any) -> int:
    """Resend the uncertain ORDER, at the risk of paying twice.

    Prints the task id. The same request is sent with the same Idempotency-Key, but the service may still create a
    second task: check the account first. If the key was first sent more than an hour ago, the service may have
    forgotten it, and --accept-duplicate-risk is required.

    \b
      vidgen orders resend order-1187 --expect-attempt 1 \\
          --reason "no task yet"
    """

    async def check(run: Run) -> None:
        client = await run.connect(Access.EXISTING)
        await run.load_order(order_id)
        run.stage = Stage.CHECK
        await client.orders.check_resend(order_id, **decision)

    async def send(run: Run) -> None:
        client = await run.connect(Access.EXISTING)
        await run.load_order(order_id)
        receipt = await run.send(client.orders.resend(order_id, by=by, **decision), "sending the order")
        run.screen.show(receipt.task_id, receipt.to_dict())

    if not is_sure:
        if code := execute(check, settings):
            return code
        _ask(f"The service may have accepted order {order_id} already: a resend may be charged twice. Resend it?")
        settings = evolve(settings, shows_warnings=False)  # it was shown before the question
    return execute(send, settings)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} stdin is not a terminal: confirm with --yes.")
    if not click.confirm(clean(question), err=True):
        raise click.UsageError("the order was not resent")


@orders.command()
@_order
@click.argument("task_id", metavar="TASK")
@_reason
@_by
@connection_options(orders=True)
async def adopt(run: Run, order_id: str, task_id: str, reason: str, by: str) -> None:
    """Record that TASK is the task of ORDER.

    The task must exist at the service. This is final: check its model, time and prompt first.

    \b
      vidgen orders adopt order-1187 task_9bb34ae375b1 \\
          --reason "same minute"
    """
    client = await run.connect(Access.EXISTING)
    await run.get_order(order_id)
    receipt = await client.orders.adopt(order_id, task_id, reason=reason, by=by)
    run.screen.show(f"order {order_id}: task {receipt.task_id}", receipt.to_dict())


@orders.command()
@_order
@_required_reason
@_by
@connection_options(orders=True)
async def abandon(run: Run, order_id: str, reason: str, by: str) -> None:
    """Abandon the uncertain ORDER. Its task may still exist and be charged.

    \b
      vidgen orders abandon order-1187 \\
          --reason "nothing in the account"
    """
    client = await run.connect(Access.EXISTING, needs_key=False)
    await _close_order(run, order_id, lambda: client.orders.abandon(order_id, reason, by=by))


@orders.command()
@_order
@_reason
@_by
@connection_options(orders=True)
async def withdraw(run: Run, order_id: str, reason: str, by: str) -> None:
    """Withdraw the queued ORDER.

    It was not sent, and never will be.

    \b
      vidgen orders withdraw order-1187
    """
    client = await run.connect(Access.EXISTING, needs_key=False)
    await _close_order(run, order_id, lambda: client.orders.withdraw(order_id, reason, by=by))


async def _close_order(run: Run, order_id: str, close: Callable[[], Awaitable[Order]]) -> None:
    await run.get_order(order_id)
    order = await close()
    run.screen.show(f"order {order_id}: {order.state}", order_document(order))


@orders.command()
@click.option(
    "--format", "kind", type=click.Choice(["jsonl", "csv"]), default="jsonl", help="Output format.", show_default=True
)
@_with_request
@connection_options(orders=True)
async def export(run: Run, kind: str, with_request: bool) -> None:
    """Print all orders in the journal.

    JSON lines include all attempts; CSV has one row per order.

    \b
      vidgen orders export > orders.jsonl
      vidgen orders export --format csv > orders.csv
    """
    if kind == "csv" and (with_request or run.settings.is_json):
        raise click.UsageError("--format csv cannot be combined with --with-request or --json.")
    run.stage = Stage.JOURNAL
    client = await run.connect(Access.EXISTING, only_prints=True, needs_key=False)
    found = await client.orders.list()
    if kind == "csv":
        click.echo(orders_csv(found), nl=False)
    for order in found if kind == "jsonl" else ():
        click.echo(json.dumps(order_document(order, with_request=with_request)))
