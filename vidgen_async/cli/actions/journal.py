"""``vidgen journal``: what an administrator of a journal needs."""

import click

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.postgres.schema import VERSION, script


def schema(name: str, user: str | None, version: int) -> int:
    if version > VERSION:
        raise click.UsageError(f"--from-version: this release has schema version {VERSION}.")
    try:
        click.echo(script(name, user=user or "", version=version), nl=False)
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    if version == VERSION:
        click.echo(f"warning: this release has schema version {VERSION} too: there is nothing to upgrade", err=True)
    return 0
