"""``vidgen models``, ``account`` and ``upload``."""

from collections.abc import Sequence

from vidgen_async.cli.command_runner import run_query, run_with_client
from vidgen_async.cli.operations import CommandRun
from vidgen_async.cli.run_state import RunState, Stage
from vidgen_async.cli.settings import Settings
from vidgen_async.cli.terminal.formatting import limit, moment, show_value, span
from vidgen_async.cli.terminal.json_documents import asset_document
from vidgen_async.cli.terminal.result_output import Facts, Table, facts_of
from vidgen_async.errors import InvalidRequestError
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.service.validation import MIN_IMAGES, problem_of_model
from vidgen_async.types.resources import BALANCE_NAMES, Account, Catalog, CatalogModel, ReferenceAsset

#: Other names for fields of the account: "account" is that of --account, and "balance" the field that is read as one.
_LABELS = {"account": "account at the service", "balance": "balance at the service"}


def models(settings: Settings, model: str | None, with_all: bool) -> int:

    async def work(run: CommandRun) -> None:
        catalog = await run.client.models.list()
        if model is not None:
            shown = _named(catalog, model)
            run.screen.show(model_facts(shown), shown.to_dict())
            return
        chosen = catalog.usable if not with_all else tuple(sorted(catalog, key=lambda model: not model.is_usable))
        table = models_table(chosen, len(catalog) - len(chosen), with_all=with_all)
        run.screen.show(table, {"models": [entry.to_dict() for entry in chosen]})

    return run_query(settings, work)


def account(settings: Settings) -> int:

    async def work(run: CommandRun) -> None:
        found = await run.client.account.get()
        fields = {_LABELS.get(name, name): show_value(value) for name, value in found.extra.items()}
        shown_as = [name for name in BALANCE_NAMES if Account(extra={name: found.extra.get(name)}).balance is not None]
        balance = fields.pop(_LABELS.get(shown_as[0], shown_as[0])) if shown_as else "unknown"
        run.screen.show(Facts((("balance", balance), *fields.items())), found.to_dict())

    return run_query(settings, work)


def upload(settings: Settings, files: tuple[str, ...], with_url: bool) -> int:

    async def work(run: CommandRun) -> None:
        for file in files:
            shown = hide_secrets(file)
            run.screen.start_step(f"uploading {shown}")
            asset = await run.client.files.upload(file)
            run.screen.print_fact("uploaded", _storage(asset, shown))
            line = f"{asset.image_id}  {asset.url}" if with_url else asset.image_id
            run.screen.show(line, asset_document(asset, file))

    return run_with_client(settings, RunState(stage=Stage.UPLOAD), work, only_prints=True)


def _storage(asset: ReferenceAsset, file: str) -> str:
    """When it was uploaded, and until when the service stores it (section 8)."""
    if asset.uploaded_at is None or asset.expires_at is None:
        return f"{file}: uploaded before; until when the service stores it is unknown"
    return f"{file}: {moment(asset.uploaded_at)}, stored until {moment(asset.expires_at)}"


def models_table(models: Sequence[CatalogModel], hidden: int, *, with_all: bool) -> Table:
    """A row for each model, with the extra fields of all of them as columns."""
    extras = sorted({name for model in models for name in model.extra})
    usable = ("usable",) if with_all else ()
    names = ("model", "name", *usable, "seconds", "resolution", "images", "audios", "videos", *extras)
    cells = [_cells(model) for model in models]
    return Table(
        names=names,
        numbers=("images", "audios", "videos", *extras),
        optional=("name",),
        rows=tuple(tuple(row.get(name, "—") for name in names) for row in cells),
        empty=f"no model is available; --all lists {hidden} unavailable ones" if hidden else "the catalog is empty",
        notes=(f"{hidden} more are unavailable; --all lists them too.",) if hidden else (),
    )


def model_facts(model: CatalogModel) -> Facts:
    """Everything about one model."""
    cells = _cells(model)
    if least := MIN_IMAGES.get(model.code, 0):
        cells["images"] += f", at least {least}"
    return facts_of(cells.items())


def _cells(model: CatalogModel) -> dict[str, str]:
    known = {
        "model": model.code,
        "name": model.name,
        "usable": usability(model),
        "seconds": span(model.durations) or "—",
        "resolution": ", ".join(model.resolutions) or "—",
        "images": limit(model.max_reference_images),
        "audios": limit(model.max_reference_audios),
        "videos": limit(model.max_reference_videos),
    }
    return known | {name: show_value(value) for name, value in model.extra.items() if name not in known}


def usability(model: CatalogModel) -> str:
    """Whether the model is available now, else why not (section 3)."""
    if model.is_usable:
        return "yes"
    if model.maintenance:
        return "maintenance"
    return "unknown" if model.enabled is None else "disabled"


def _named(catalog: Catalog, code: str) -> CatalogModel:
    if code in catalog:
        return catalog[code]
    problem = problem_of_model(code, catalog) or code
    raise InvalidRequestError(problem, problems=[problem])
