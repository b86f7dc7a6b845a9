"""Shell completion of order ids, read from the journal without a request to the service."""

import asyncio
import warnings
from datetime import UTC, datetime

import click

from vidgen_async.cli.service_connection import DEFAULT_ACCOUNT, Access, open_journal
from vidgen_async.client.settings import checked_base_url
from vidgen_async.errors import VidgenError
from vidgen_async.journal import Journal

#: Only the newest orders are offered.
MAX_OFFERED = 50


def order_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The newest orders in the journal whose id begins with ``incomplete``; none if it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            service = str(checked_base_url(ctx.params.get("base_url")).origin())
        journal, _ = open_journal(ctx.params.get("journal"), Access.EXISTING)
        return asyncio.run(_list_ids(journal, service, ctx.params.get("account") or DEFAULT_ACCOUNT, incomplete))
    except VidgenError:
        return []


async def _list_ids(journal: Journal, service: str, account: str, beginning: str) -> list[str]:
    try:
        orders = await journal.list(service, account, datetime.now(UTC))
    finally:
        await journal.aclose()
    return [order.order_id for order in reversed(orders) if order.order_id.startswith(beginning)][:MAX_OFFERED]
