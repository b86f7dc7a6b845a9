"""``vidgen models``, ``account`` and ``upload``: what there is to use."""

import json
from collections.abc import Sequence

import click

from vidgen_async.cli.command_setup import look, start
from vidgen_async.cli.operations import Errand
from vidgen_async.cli.options import Upload, connected
from vidgen_async.cli.run_state import Journey, Stage
from vidgen_async.cli.service_connection import Settings
from vidgen_async.cli.terminal.exit_reports import EXIT_CODES
from vidgen_async.cli.terminal.formatting import limit, span
from vidgen_async.cli.terminal.json_documents import account_document, asset_document, model_document
from vidgen_async.cli.terminal.result_output import Facts, Table, columns, facts_of
from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.validation import MIN_IMAGES, problem_of_model
from vidgen_async.types.resources import Catalog, CatalogModel


@click.command(epilog=EXIT_CODES)
@click.argument("model", required=False)
@click.option("--all", "with_all", is_flag=True, help="Also those that cannot be used now, and why not.")
@connected()
def models(settings: Settings, model: str | None, with_all: bool) -> int:
    """Show the models that your key can use, and your prices.

    Under images, audios and videos is how many a model takes as references: "none" for none, and a dash where the
    catalog does not say. The last columns are what else the catalog tells, prices among it, under the service's own
    names. With MODEL: everything about that one.

    \b
      vidgen models
      vidgen models vendorh3
      vidgen models --all --json
    """

    async def work(errand: Errand) -> None:
        catalog = await errand.client.models.list()
        if model is not None:
            shown = _named(catalog, model)
            errand.screen.show(model_facts(shown), model_document(shown))
            return
        chosen = catalog.usable if not with_all else tuple(sorted(catalog, key=lambda model: not model.is_usable))
        table = models_table(chosen, len(catalog) - len(chosen), with_all=with_all)
        errand.screen.show(table, {"models": [model_document(entry) for entry in chosen]})

    return look(settings, work)


@click.command(epilog=EXIT_CODES)
@connected()
def account(settings: Settings) -> int:
    """Show your balance, and what else is told about the account.

    \b
      vidgen account
    """

    async def work(errand: Errand) -> None:
        found = await errand.client.account.get()
        balance = "not told" if found.balance is None else f"{found.balance:g}"
        pairs = [("balance", balance), *((name, _value(value)) for name, value in found.extra.items())]
        facts = Facts(tuple(dict(pairs).items() if "balance" not in found.extra else pairs[1:]))
        errand.screen.show(facts, account_document(found))

    return look(settings, work)


@click.command(epilog=EXIT_CODES)
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=Upload())
@click.option("--url", "with_url", is_flag=True, help="Print also the address: whoever has it can see the picture.")
@connected()
def upload(settings: Settings, files: tuple[str, ...], with_url: bool) -> int:
    """Upload pictures and print the id of each.

    One id on a line, in the order given. An id is good for --image-id of create and generate for 72 hours. FILE may
    also be the service's own address of a picture that you uploaded before.

    \b
      vidgen upload hero.png
      vidgen create "…" --model vendorh3 --image-id $(vidgen upload hero.png)
    """

    async def work(errand: Errand) -> None:
        errand.journey.stage = Stage.UPLOAD
        for file in files:
            errand.screen.busy(f"uploading {file}")
            asset = await errand.client.files.upload(file)
            line = f"{asset.image_id}  {asset.url}" if with_url else asset.image_id
            errand.screen.show(line, asset_document(asset, file))

    return start(settings, Journey(), work, only_prints=True)


def models_table(models: Sequence[CatalogModel], left_out: int, *, with_all: bool) -> Table:
    """The models under the columns that all have, and those of the extra fields that any has."""
    extras = sorted({name for model in models for name in model.extra})
    usable = ("usable",) if with_all else ()
    names = ("model", "name", *usable, "seconds", "resolution", "images", "audios", "videos", *extras)
    rows = tuple(
        (
            model.code,
            model.name,
            *((usability(model),) if with_all else ()),
            span(model.durations) or "—",
            ", ".join(model.resolutions) or "—",
            limit(model.max_reference_images),
            limit(model.max_reference_audios),
            limit(model.max_reference_videos),
            *(_value(model.extra.get(name)) for name in extras),
        )
        for model in models
    )
    note = (f"{left_out} more cannot be used now; --all shows them too.",) if left_out else ()
    return Table(
        columns=columns(*names, numbers=("images", "audios", "videos", *extras), optional=("name",)),
        rows=rows,
        empty=f"no model can be used now; --all shows {left_out} that cannot" if left_out else "the catalog is empty",
        notes=note,
    )


def model_facts(model: CatalogModel) -> Facts:
    """Everything about one model."""
    least = MIN_IMAGES.get(model.code, 0)
    images = limit(model.max_reference_images) + (f", at least {least}" if least else "")
    return facts_of(
        (
            ("model", model.code),
            ("name", model.name),
            ("usable", usability(model)),
            ("seconds", ", ".join(map(str, model.durations)) or "—"),
            ("resolution", ", ".join(model.resolutions) or "—"),
            ("images", images),
            ("audios", limit(model.max_reference_audios)),
            ("videos", limit(model.max_reference_videos)),
            *((name, _value(value)) for name, value in model.extra.items()),
        )
    )


def usability(model: CatalogModel) -> str:
    """Whether it can be used now, else why not (section 3)."""
    if model.is_usable:
        return "yes"
    return "maintenance" if model.maintenance else "disabled"


def _named(catalog: Catalog, code: str) -> CatalogModel:
    if code in catalog:
        return catalog[code]
    problem = problem_of_model(code, catalog) or code
    raise InvalidRequestError(problem, problems=[problem])


def _value(value: object) -> str:
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
