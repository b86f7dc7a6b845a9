"""``vidgen orders``: the orders in the journal, and the operator's decisions about uncertain ones."""

import getpass

import click

from vidgen_async.cli.commands import run_action
from vidgen_async.cli.option_values import WholeNumber, read_since
from vidgen_async.cli.options import (
    OrderedGroup,
    connection_options,
    no_validate_option,
    order_ids,
    refuse_empty,
)
from vidgen_async.cli.settings import PAGE
from vidgen_async.types.orders import OrderState


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
@connection_options(orders=True)
@run_action("orders")
def ls() -> None:
    """List the orders in the journal, the newest last.

    "points" is the cost of a task that was seen to end. A terminal shows a page, and the command for the page before.

    \b
      vidgen orders ls
      vidgen orders ls --state uncertain --state sending
      vidgen orders ls --since 2h --json
      vidgen orders ls --limit 20 --before order-1187
    """


@orders.command()
@_order
@_with_request
@connection_options(orders=True)
@run_action("orders")
def show() -> None:
    """Show everything that is stored about ORDER.

    This includes its attempts with their outcomes, and all decisions.

    \b
      vidgen orders show order-1187
      vidgen orders show order-1187 --with-request --json
    """


@orders.command()
@_order
@no_validate_option
@connection_options(orders=True)
@run_action("orders")
def resume() -> None:
    """Resume ORDER and print its task id.

    It is sent only if it is proven that the service created nothing for it: it is queued, was not sent, or was
    rejected. An uncertain order is never sent.

    \b
      vidgen orders resume order-1187
    """


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
@connection_options(orders=True)
@run_action("orders")
def resend() -> None:
    """Resend the uncertain ORDER, at the risk of paying twice.

    Prints the task id. The same request is sent with the same Idempotency-Key, but the service may still create a
    second task: check the account first. If the key was first sent more than an hour ago, the service may have
    forgotten it, and --accept-duplicate-risk is required.

    \b
      vidgen orders resend order-1187 --expect-attempt 1 \\
          --reason "no task yet"
    """


@orders.command()
@_order
@click.argument("task_id", metavar="TASK")
@_reason
@_by
@connection_options(orders=True)
@run_action("orders")
def adopt() -> None:
    """Record that TASK is the task of ORDER.

    The task must exist at the service. This is final: check its model, time and prompt first.

    \b
      vidgen orders adopt order-1187 task_9bb34ae375b1 \\
          --reason "same minute"
    """


@orders.command()
@_order
@_required_reason
@_by
@connection_options(orders=True)
@run_action("orders")
def abandon() -> None:
    """Abandon the uncertain ORDER. Its task may still exist and be charged.

    \b
      vidgen orders abandon order-1187 \\
          --reason "nothing in the account"
    """


@orders.command()
@_order
@_reason
@_by
@connection_options(orders=True)
@run_action("orders")
def withdraw() -> None:
    """Withdraw the queued ORDER.

    It was not sent, and never will be.

    \b
      vidgen orders withdraw order-1187
    """


@orders.command()
@click.option(
    "--format", "kind", type=click.Choice(["jsonl", "csv"]), default="jsonl", help="Output format.", show_default=True
)
@_with_request
@connection_options(orders=True)
@run_action("orders")
def export() -> None:
    """Print all orders in the journal.

    JSON lines include all attempts; CSV has one row per order.

    \b
      vidgen orders export > orders.jsonl
      vidgen orders export --format csv > orders.csv
    """
