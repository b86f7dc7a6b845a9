"""``vidgen orders``: the orders in the journal, and the operator's decisions about uncertain ones."""

import json
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import click
from attrs import evolve

from vidgen_async.cli.command_runner import Work, run_with_client
from vidgen_async.cli.operations import CommandRun
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.settings import PAGE, Access, Settings
from vidgen_async.cli.terminal.exit_reports import command_line
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.cli.terminal.json_documents import order_document, orders_csv
from vidgen_async.cli.terminal.order_views import order_facts, orders_table
from vidgen_async.cli.terminal.standard_streams import is_terminal
from vidgen_async.types.orders import Order, OrderStateName


def ls(
    settings: Settings,
    states: tuple[OrderStateName, ...],
    since: datetime | None,
    limit: int | None,
    before: str | None,
) -> int:
    is_page = limit is None and is_terminal(sys.stdout) and not settings.is_json
    size = PAGE if is_page else limit

    async def work(run: CommandRun) -> None:
        if before is not None:
            await run.get_order(before)
        found = await run.client.orders.list(
            states or None,
            since=since,
            after=before,
            limit=None if size is None else size + 1,
            newest_first=True,
        )
        page = found[:size][::-1]
        older = ""
        if len(found) > len(page):
            filters = [word for state in states for word in ("--state", state)]
            filters += [] if since is None else ["--since", since.isoformat(timespec="seconds")]
            filters += [] if limit is None else ["--limit", str(limit)]
            options = (f"--before={page[0].order_id}", *filters, *settings.connection)
            older = command_line("orders", "ls", options=options)
        is_filtered = bool(states) or since is not None or before is not None
        others = "" if page else await run.describe_other_accounts(settings.account)
        place = run.state.journal_place
        table = orders_table(page, datetime.now(UTC), place, older, is_filtered=is_filtered, others=others)
        run.screen.show(table, *map(order_document, page))

    return _run(settings, work, only_prints=True, needs_key=False)


def show(settings: Settings, order_id: str, with_request: bool) -> int:

    async def work(run: CommandRun) -> None:
        order = await run.get_order(order_id)
        run.screen.show(order_facts(order, with_request=with_request), order_document(order, with_request=with_request))

    return _run(settings, work, order_id, only_prints=True, needs_key=False)


def resume(settings: Settings, order_id: str, validate: bool) -> int:

    async def work(run: CommandRun) -> None:
        receipt = await run.resume_create(validate=validate)
        run.screen.show(receipt.task_id, receipt.to_dict())

    return _run(settings, work, order_id)


def resend(settings: Settings, order_id: str, by: str, is_sure: bool, **decision: Any) -> int:

    async def work(run: CommandRun) -> None:
        receipt = await run.resend(by=by, **decision)
        run.screen.show(receipt.task_id, receipt.to_dict())

    if not is_sure:
        code = _run(settings, lambda run: run.check_resendable(**decision), order_id)
        if code:
            return code
        _ask(f"The service may have accepted order {order_id} already: a resend may be charged twice. Resend it?")
        settings = evolve(settings, shows_warnings=False)  # it was shown before the question
    return _run(settings, work, order_id)


def adopt(settings: Settings, order_id: str, task_id: str, reason: str, by: str) -> int:

    async def work(run: CommandRun) -> None:
        await run.get_order(order_id)
        receipt = await run.client.orders.adopt(order_id, task_id, reason=reason, by=by)
        run.screen.show(f"order {order_id}: task {receipt.task_id}", receipt.to_dict())

    return _run(settings, work, order_id)


def abandon(settings: Settings, order_id: str, reason: str, by: str) -> int:
    return _close_order(settings, order_id, lambda run: run.client.orders.abandon(order_id, reason, by=by))


def withdraw(settings: Settings, order_id: str, reason: str, by: str) -> int:
    return _close_order(settings, order_id, lambda run: run.client.orders.withdraw(order_id, reason, by=by))


def export(settings: Settings, kind: str, with_request: bool) -> int:
    if kind == "csv" and (with_request or settings.is_json):
        raise click.UsageError("--format csv cannot be combined with --with-request or --json.")

    async def work(run: CommandRun) -> None:
        found = await run.client.orders.list()
        if kind == "csv":
            click.echo(orders_csv(found), nl=False)
        for order in found if kind == "jsonl" else ():
            click.echo(json.dumps(order_document(order, with_request=with_request)))

    return _run(settings, work, only_prints=True, needs_key=False)


def _run(
    settings: Settings,
    work: Work,
    order_id: str | None = None,
    *,
    only_prints: bool = False,
    needs_key: bool = True,
) -> int:
    run_state = RunState(stage=Stage.JOURNAL, order_id=order_id)
    return run_with_client(
        settings, run_state, work, orders=Access.EXISTING, only_prints=only_prints, needs_key=needs_key
    )


def _close_order(settings: Settings, order_id: str, close: Callable[[CommandRun], Coroutine[Any, Any, Order]]) -> int:
    async def work(run: CommandRun) -> None:
        await run.get_order(order_id)
        order = await close(run)
        run.screen.show(f"order {order_id}: {order.state}", order_document(order))

    return _run(settings, work, order_id, needs_key=False)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} stdin is not a terminal: confirm with --yes.")
    if not click.confirm(clean(question), err=True):
        raise click.UsageError("the order was not resent")
