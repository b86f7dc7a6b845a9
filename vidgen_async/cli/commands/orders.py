"""``vidgen orders``: what is on record about creates, and what a person decides about an uncertain one."""

import getpass
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import click

from vidgen_async.cli.command_setup import start
from vidgen_async.cli.operations import Errand
from vidgen_async.cli.options import InOrder, connected, no_validate_option
from vidgen_async.cli.order_id_completion import order_ids
from vidgen_async.cli.run_state import Journey, Stage
from vidgen_async.cli.service_connection import Access, Settings
from vidgen_async.cli.terminal.exit_reports import EXIT_CODES, Exit
from vidgen_async.cli.terminal.json_documents import order_document, orders_csv, receipt_document
from vidgen_async.cli.terminal.order_views import order_facts, orders_table
from vidgen_async.types.orders import Order, OrderState


class NotDecidedError(click.ClickException):
    """The person who was asked said no."""

    exit_code = Exit.USAGE

    def __init__(self) -> None:
        super().__init__("not sent again")


@click.group(cls=InOrder, epilog=EXIT_CODES)
def orders() -> None:
    """Show and decide about the orders on record.

    Every create is an order, and is on record before it is sent. Where nobody knows whether the service took one, it is
    "uncertain" and is never sent again by itself: look at the account, then adopt, abandon or resend it.

    \b
      vidgen orders ls --state uncertain
      vidgen orders show order-1187
      vidgen orders adopt order-1187 task_9bb34ae375b1
      vidgen orders abandon order-1187 --reason "not in the account"
    """


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user id
        return ""


_order = click.argument("order_id", metavar="ORDER", shell_complete=order_ids)
_by = click.option("--by", metavar="NAME", default=_login_name, help="Who decides; it goes on record. Your login name.")
_needed_reason = click.option("--reason", metavar="TEXT", required=True, help="Why; it goes on record.")
_reason = click.option("--reason", metavar="TEXT", default="", help="Why; it goes on record.")
_with_request = click.option(
    "--with-request", is_flag=True, help="Also the key and the request, with its prompt and addresses, as on record."
)


@orders.command(epilog=EXIT_CODES)
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in OrderState]),
    multiple=True,
    help="Only orders in this state. May be repeated.",
)
@connected(orders=True)
def ls(settings: Settings, states: tuple[str, ...]) -> int:
    """List the orders on record, oldest first.

    With --json: an object on a line for each order.

    \b
      vidgen orders ls
      vidgen orders ls --state uncertain --state sending
    """

    async def work(errand: Errand) -> None:
        found = await errand.client.orders.list(states or None)
        errand.screen.show(orders_table(found, datetime.now(UTC), errand.journey.where), *map(order_document, found))

    return _on_record(settings, Journey(), work, only_prints=True)


@orders.command(epilog=EXIT_CODES)
@_order
@_with_request
@connected(orders=True)
def show(settings: Settings, order_id: str, with_request: bool) -> int:
    """Show all that is on record about ORDER.

    That is its attempts, what came of each, and who decided what.

    \b
      vidgen orders show order-1187
      vidgen orders show order-1187 --with-request --json
    """

    async def work(errand: Errand) -> None:
        order = await errand.known(order_id)
        errand.screen.show(
            order_facts(order, with_request=with_request), order_document(order, with_request=with_request)
        )

    return _on_record(settings, Journey(order_id=order_id), work, only_prints=True)


@orders.command(epilog=EXIT_CODES)
@_order
@no_validate_option
@connected(orders=True)
def resume(settings: Settings, order_id: str, validate: bool) -> int:
    """Go on with ORDER and print its task id.

    It is sent only if it is proven that the service has nothing of it: queued, not sent, or refused. An uncertain order
    is never sent again by this.

    \b
      vidgen orders resume order-1187
    """

    async def work(errand: Errand) -> None:
        receipt = await errand.resume_create(validate=validate)
        errand.screen.show(receipt.task_id, receipt_document(receipt))

    return _on_record(settings, Journey(order_id=order_id, options=settings.options), work)


@orders.command(epilog=EXIT_CODES)
@_order
@click.option(
    "--expect-attempt",
    type=click.IntRange(min=1),
    metavar="N",
    required=True,
    help="The number of the last attempt that you know of: of two people who decide the same, one sends.",
)
@_needed_reason
@_by
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@click.option(
    "--accept-duplicate-risk",
    is_flag=True,
    help="Also when the order is so old that the service may have forgotten its key.",
)
@connected(orders=True)
def resend(
    settings: Settings,
    order_id: str,
    expect_attempt: int,
    reason: str,
    by: str,
    is_sure: bool,
    accept_duplicate_risk: bool,
) -> int:
    """Send the uncertain ORDER once more, at the risk of paying twice.

    Its task id is printed. The same request goes out under the same Idempotency-Key. Whether the service makes a second
    task of it nobody knows: look at the account first. If the key first went out more than an hour ago, the service may
    have forgotten it, and --accept-duplicate-risk is needed.

    \b
      vidgen orders resend order-1187 --expect-attempt 1 --reason "no task yet"
    """

    def check(errand: Errand) -> Coroutine[Any, Any, None]:
        return errand.check_resendable(expect_attempt, may_be_old=accept_duplicate_risk)

    if not is_sure:
        code = _on_record(settings, Journey(order_id=order_id), check)
        if code:
            return code
        _ask(f"Order {order_id} may have been taken already: sent again, it may be charged twice. Send it again?")

    async def work(errand: Errand) -> None:
        await check(errand)
        receipt = await errand.resend(expect_attempt=expect_attempt, reason=reason, by=by)
        errand.screen.show(receipt.task_id, receipt_document(receipt))

    return _on_record(settings, Journey(order_id=order_id, options=settings.options), work)


@orders.command(epilog=EXIT_CODES)
@_order
@click.argument("task_id", metavar="TASK")
@_reason
@_by
@connected(orders=True)
def adopt(settings: Settings, order_id: str, task_id: str, reason: str, by: str) -> int:
    """Put on record that TASK is the task of ORDER.

    The service is asked whether there is such a task. This is final: look at its model, time and prompt first.

    \b
      vidgen orders adopt order-1187 task_9bb34ae375b1 --reason "same minute"
    """

    async def work(errand: Errand) -> None:
        await errand.known(order_id)
        receipt = await errand.client.orders.adopt(order_id, task_id, reason=reason, by=by)
        errand.screen.show(f"order {order_id}: task {receipt.task_id}", receipt_document(receipt))

    return _on_record(settings, Journey(order_id=order_id), work)


@orders.command(epilog=EXIT_CODES)
@_order
@_needed_reason
@_by
@connected(orders=True)
def abandon(settings: Settings, order_id: str, reason: str, by: str) -> int:
    """Give up the uncertain ORDER. A task may exist all the same, and be charged.

    \b
      vidgen orders abandon order-1187 --reason "nothing in the account"
    """
    return _closed(settings, order_id, lambda errand: errand.client.orders.abandon(order_id, reason, by=by))


@orders.command(epilog=EXIT_CODES)
@_order
@_reason
@_by
@connected(orders=True)
def withdraw(settings: Settings, order_id: str, reason: str, by: str) -> int:
    """Take back the queued ORDER.

    Nothing of it was sent, and nothing will be.

    \b
      vidgen orders withdraw order-1187
    """
    return _closed(settings, order_id, lambda errand: errand.client.orders.withdraw(order_id, reason, by=by))


@orders.command(epilog=EXIT_CODES)
@click.option("--format", "kind", type=click.Choice(["jsonl", "csv"]), default="jsonl", help="jsonl, or csv.")
@_with_request
@connected(orders=True)
def export(settings: Settings, kind: str, with_request: bool) -> int:
    """Print all orders on record.

    As JSON lines with all their attempts, or in short as CSV.

    \b
      vidgen orders export > orders.jsonl
      vidgen orders export --format csv > orders.csv
    """
    if kind == "csv" and (with_request or settings.is_json):
        message = "--format csv has neither the request nor JSON."
        raise click.UsageError(message)

    async def work(errand: Errand) -> None:
        found = await errand.client.orders.list()
        if kind == "csv":
            click.echo(orders_csv(found), nl=False)
        for order in found if kind == "jsonl" else ():
            click.echo(json.dumps(order_document(order, with_request=with_request)))

    return _on_record(settings, Journey(), work, only_prints=True)


def _on_record(
    settings: Settings,
    journey: Journey,
    do: Callable[[Errand], Coroutine[Any, Any, None]],
    *,
    only_prints: bool = False,
) -> int:
    async def work(errand: Errand) -> None:
        journey.stage = Stage.RECORD
        await do(errand)

    return start(settings, journey, work, orders=Access.EXISTING, only_prints=only_prints)


def _closed(settings: Settings, order_id: str, close: Callable[[Errand], Coroutine[Any, Any, Order]]) -> int:
    async def work(errand: Errand) -> None:
        await errand.known(order_id)
        order = await close(errand)
        errand.screen.show(f"order {order_id}: {order.state}", order_document(order))

    return _on_record(settings, Journey(order_id=order_id), work)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        message = f"{question} Nobody can be asked here: --yes says so."
        raise click.UsageError(message)
    if not click.confirm(question, err=True):
        raise NotDecidedError
