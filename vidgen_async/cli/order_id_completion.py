"""Order ids for the shell's completion, read from the record without asking the service."""

import asyncio
import os
import warnings
from datetime import UTC, datetime

import click

from vidgen_async.cli.default_journal import journal_file
from vidgen_async.cli.service_connection import DEFAULT_ACCOUNT, Access, named_journal
from vidgen_async.client.settings import checked_base_url
from vidgen_async.errors import VidgenError
from vidgen_async.journal import Journal, SqliteJournal

#: The newest that are offered.
MOST_OFFERED = 50


def order_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The newest orders on record whose id begins so; none where the record cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            service = str(checked_base_url(ctx.params.get("base_url")).origin())
        journal = _existing(ctx.params.get("journal"))
        if journal is None:
            return []
        return asyncio.run(_listed(journal, service, ctx.params.get("account") or DEFAULT_ACCOUNT, incomplete))
    except VidgenError:
        return []


def _existing(given: str | None) -> Journal | None:
    """The record, if there is one: a completion makes none."""
    text = given or os.environ.get("VIDGEN_JOURNAL")
    if text:
        return named_journal(text, Access.EXISTING)[0]
    return SqliteJournal(journal_file()) if journal_file().exists() else None


async def _listed(journal: Journal, service: str, account: str, beginning: str) -> list[str]:
    try:
        orders = await journal.list(service, account, datetime.now(UTC))
    finally:
        await journal.aclose()
    return [order.order_id for order in reversed(orders) if order.order_id.startswith(beginning)][:MOST_OFFERED]
