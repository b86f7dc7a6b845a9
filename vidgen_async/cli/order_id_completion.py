"""Shell completion of order ids, read from the journal without a request to the service."""

import asyncio
import os
import warnings
from datetime import UTC, datetime

import click

from vidgen_async.cli.service_connection import DEFAULT_ACCOUNT, Access, journal_file, parse_journal
from vidgen_async.client.settings import checked_base_url
from vidgen_async.errors import VidgenError
from vidgen_async.journal import Journal, SqliteJournal

#: Only the newest orders are offered.
MAX_OFFERED = 50


def order_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The newest orders in the journal whose id begins with ``incomplete``; none if it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            service = str(checked_base_url(ctx.params.get("base_url")).origin())
        journal = _existing_journal(ctx.params.get("journal"))
        if journal is None:
            return []
        return asyncio.run(_list_ids(journal, service, ctx.params.get("account") or DEFAULT_ACCOUNT, incomplete))
    except VidgenError:
        return []


def _existing_journal(given: str | None) -> Journal | None:
    """The journal, if it exists: a completion creates none."""
    text = given or os.environ.get("VIDGEN_JOURNAL")
    if text:
        return parse_journal(text, Access.EXISTING)[0]
    return SqliteJournal(journal_file()) if journal_file().exists() else None


async def _list_ids(journal: Journal, service: str, account: str, beginning: str) -> list[str]:
    try:
        orders = await journal.list(service, account, datetime.now(UTC))
    finally:
        await journal.aclose()
    return [order.order_id for order in reversed(orders) if order.order_id.startswith(beginning)][:MAX_OFFERED]
