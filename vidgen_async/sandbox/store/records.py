"""Tasks and assets as records that can be written down, and back. Their bytes lie apart, under their digests."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import asdict

from vidgen_async.sandbox.assets import Asset
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.media.video_content import Film, Picture
from vidgen_async.sandbox.store import record_schema
from vidgen_async.sandbox.tasks import Failure, SandboxTask

Record = dict[str, Any]
#: Puts bytes away and gives their digest; and the other way round.
PutBytes = Callable[[bytes], str]
GetBytes = Callable[[str], bytes]


def task_record(task: SandboxTask, put: PutBytes) -> Record:
    film = task.film
    pictures = [[shown.label, None if shown.content is None else put(shown.content)] for shown in film.pictures]
    return {
        "id": task.id,
        "account": task.account.name,
        "request": dict(task.request),
        "model": task.model,
        "points": task.points,
        "film": [film.prompt, film.seconds, film.width, film.height, pictures, list(film.notes)],
        "created_at": task.created_at,
        "queued_for": task.queued_for,
        "running_for": task.running_for,
        "failure": failure_record(task.failure),
    }


def task_of(record: Record, accounts: Mapping[str, Account], get: GetBytes) -> SandboxTask:
    """ValueError or LookupError for a damaged record, here and below."""
    fields = record_schema.read(record, record_schema.TASK)
    prompt, seconds, width, height, pictures, notes = fields["film"]
    shown = tuple(Picture(label, None if digest is None else get(digest)) for label, digest in pictures)
    return SandboxTask(
        **fields
        | {
            "account": accounts[fields["account"]],
            "film": Film(prompt, seconds, width, height, shown, tuple(notes)),
            "failure": failure_of(fields["failure"]),
        }
    )


def asset_record(asset: Asset, put: PutBytes) -> Record:
    return {
        "id": asset.id,
        "account": asset.account.name,
        "content": put(asset.content),
        "mime": asset.mime,
        "name": asset.name,
        "expires_at": asset.expires_at,
    }


def asset_of(record: Record, accounts: Mapping[str, Account], get: GetBytes) -> Asset:
    fields = record_schema.read(record, record_schema.ASSET)
    return Asset(**fields | {"account": accounts[fields["account"]], "content": get(fields["content"])})


def failure_record(failure: Failure | None) -> Record | None:
    return None if failure is None else asdict(failure)


def failure_of(record: Record | None) -> Failure | None:
    return None if record is None else Failure(**record_schema.read(record, record_schema.FAILURE))


def entry_of(record: Record) -> CatalogEntry:
    return CatalogEntry(**record_schema.read(record, record_schema.MODEL))
