"""``vidgen models``, ``account``, ``spend`` and ``upload``."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import get_args

import click
from attrs import fields

from vidgen_async.cli.options import Run, connection_options
from vidgen_async.cli.request_options import invalid
from vidgen_async.cli.run_state import Stage
from vidgen_async.cli.settings import Access, check_image, is_url, read_since, read_zone
from vidgen_async.cli.terminal.formatting import Facts, Table, limit, moment, show_value, span
from vidgen_async.cli.terminal.order_views import as_csv, budget_text, spend_table, sum_of
from vidgen_async.types import Account, CatalogModel, ReferenceAsset, SpendKey, SpendRow, VideoRequest

#: Other names for fields of the account: "account" is that of --account, and "balance" the field that is read as one.
_LABELS = {"account": "account at the service", "balance": "balance at the service"}


@click.command()
@click.argument("model", required=False)
@click.option("--all", "with_all", is_flag=True, help="List unavailable models too, with the reason.")
@connection_options()
async def models(run: Run, model: str | None, with_all: bool) -> None:
    """List the models that your key can use, with your prices.

    The columns images, audios and videos show the maximum number of references: "none" if the model accepts none, a
    dash if the catalog does not state it. The last columns are all other fields of the catalog, including prices, under
    the service's own names. With MODEL: everything about that model.

    \b
      vidgen models
      vidgen models vendorh3
      vidgen models --all --json
    """
    run.stage = Stage.QUERY
    client = await run.connect(only_prints=True)
    catalog = await client.models.list()
    if model is not None:
        shown = catalog.find(model)
        if shown is None:
            check = await client.videos.check(VideoRequest(model=model, prompt="-"))
            raise invalid("unknown model", check.problems)
        run.screen.show(Facts(model_facts(shown).items()), shown.to_dict())
        return
    chosen = catalog.usable if not with_all else tuple(sorted(catalog, key=lambda model: not model.is_usable))
    table = models_table(chosen, len(catalog) - len(chosen), with_all=with_all)
    run.screen.show(table, {"models": [entry.to_dict() for entry in chosen]})


@click.command()
@connection_options(orders=True, budget=True)
async def account(run: Run) -> None:
    """Show your balance, and the other fields of the account; your budget if there is one.

    \b
      vidgen account
    """
    run.stage = Stage.QUERY
    client = await run.connect(Access.LOOKUP if run.settings.has_budget else Access.NONE, only_prints=True)
    found = await client.account.get()
    budget = await client.orders.budget()
    fields = {_LABELS.get(name, name): show_value(value) for name, value in found.extra.items()}
    shown_as = [name for name, value in found.extra.items() if Account(extra={name: value}).balance == found.balance]
    is_known = found.balance is not None
    balance = fields.pop(_LABELS.get(shown_as[0], shown_as[0])) if is_known else "unknown"
    if budget is not None:
        fields["budget"] = str(budget_text(budget))
    document = {**found.to_dict(), "budget": None if budget is None else budget.to_dict()}
    run.screen.show(Facts((("balance", balance), *fields.items())), document)


@click.command()
@click.option("--by", type=click.Choice(get_args(SpendKey)), default="day", help="The rows.", show_default=True)
@click.option(
    "--since",
    type=read_since,
    metavar="WHEN",
    help="Only what was sent then or later: 2h, 7d (ago; units: s, m, h, d, w), 2026-11-29 or 2026-11-29T08:00 (local "
    "time).",
)
@click.option("--tz", "zone", type=read_zone, metavar="NAME", help="Time zone of days: Europe/Berlin. Default: UTC.")
@click.option("--csv", "is_csv", is_flag=True, help="Print CSV, without the sum.")
@connection_options(orders=True)
async def spend(run: Run, by: SpendKey, since: datetime | None, zone: tzinfo | None, is_csv: bool) -> None:
    """Show what the orders in the journal have cost.

    Points are "stated" by the service, or "estimated" by a budget as long as they are not. "uncertain" are creates of
    which it is unknown whether they are charged. A sum that misses something begins with ≥. Refunds of failed tasks are
    in the credit ledger of the service only.

    \b
      vidgen spend --since 7d
      vidgen spend --by model --csv > spend.csv
    """
    if is_csv and run.settings.is_json:
        raise click.UsageError("--csv cannot be combined with --json.")
    run.stage = Stage.JOURNAL
    client = await run.connect(Access.EXISTING, only_prints=True, needs_key=False)
    rows = await client.orders.spend(by, since=since, tz=zone or UTC)
    total = sum_of(rows)
    if is_csv:
        click.echo(as_csv([one.name for one in fields(SpendRow)], (row.to_dict() for row in rows)), nl=False)
        return
    empty = f"no orders were sent {run.journal_place}"
    document = {"by": by, "rows": [row.to_dict() for row in rows], "sum": total.to_dict()}
    run.screen.show(spend_table([*rows, total] if rows else [], by, empty), document)


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=check_image)
@click.option("--url", "with_url", is_flag=True, help="Print the URL too. It gives access to the image without a key.")
@connection_options()
async def upload(run: Run, files: tuple[str, ...], with_url: bool) -> None:
    """Upload images and print the id of each.

    One id per line, in the order given; stderr shows until when the service stores each, which is 72 hours. An id is
    the value of --image-id of create and generate. FILE may also be the service's own URL of an image that you uploaded
    before.

    \b
      vidgen upload hero.png
      vidgen create "…" --model vendorh3 \\
          --image-id "$(vidgen upload hero.png)"
    """
    run.stage = Stage.UPLOAD
    client = await run.connect(only_prints=True)
    for file in files:
        shown = file.partition("?")[0] if is_url(file) else file  # the query of a URL gives access to the image
        run.screen.start_step(f"uploading {shown}")
        asset = await client.files.upload(file)
        run.screen.print_fact("uploaded", f"{shown}: {_storage(asset)}")
        line = f"{asset.image_id}  {asset.url}" if with_url else asset.image_id
        run.screen.show(line, {"file": file, **asset.to_dict()})


def _storage(asset: ReferenceAsset) -> str:
    """When it was uploaded, and until when the service stores it (section 8)."""
    if asset.uploaded_at is None or asset.expires_at is None:
        return "uploaded before; until when the service stores it is unknown"
    return f"{moment(asset.uploaded_at)}, stored until {moment(asset.expires_at)}"


def models_table(models: Sequence[CatalogModel], hidden: int, *, with_all: bool) -> Table:
    """A row for each model, with the extra fields of all of them as columns."""
    extras = sorted({name for model in models for name in model.extra})
    usable = ("usable",) if with_all else ()
    names = ("model", "name", *usable, "seconds", "resolution", "images", "audios", "videos", *extras)
    cells = [_cells(model) for model in models]
    return Table(
        names=names,
        numbers=("images", "audios", "videos", *extras),
        optional=("name", *extras),
        rows=tuple(tuple(row.get(name, "—") for name in names) for row in cells),
        empty=f"no model is available; --all lists {hidden} unavailable ones" if hidden else "the catalog is empty",
        notes=(f"{hidden} more are unavailable; --all lists them too.",) if hidden else (),
    )


def model_facts(model: CatalogModel) -> dict[str, str]:
    """Everything about one model."""
    cells = _cells(model)
    if model.min_reference_images:
        cells["images"] += f", at least {model.min_reference_images}"
    return cells


def _cells(model: CatalogModel) -> dict[str, str]:
    known = {
        "model": model.code,
        "name": model.name,
        "usable": _usability(model),
        "seconds": span(model.durations) or "—",
        "resolution": ", ".join(model.resolutions) or "—",
        "images": limit(model.max_reference_images),
        "audios": limit(model.max_reference_audios),
        "videos": limit(model.max_reference_videos),
    }
    return known | {name: show_value(value) for name, value in model.extra.items() if name not in known}


def _usability(model: CatalogModel) -> str:
    """Whether the model is available now, else why not (section 3)."""
    if model.is_usable:
        return "yes"
    if model.maintenance:
        return "maintenance"
    return "unknown" if model.enabled is None else "disabled"
