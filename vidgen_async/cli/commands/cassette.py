"""``vidgen cassette``: whether cassettes may be committed, and how to recover a recording. Nothing here connects to the
service."""

from pathlib import Path

import click

from vidgen_async.cli.commands import run_action
from vidgen_async.cli.option_values import read_age
from vidgen_async.cli.options import OrderedGroup, json_option, traceback_option

EXIT_CODES = (
    ("0", "done; check: no problem found; recover: written, with all interactions"),
    ("1", "check: problems found; recover: written, without unfinished or damaged interactions"),
    ("2", "error: wrong usage, no cassette, or a cassette that cannot be read"),
    ("130", "interrupted (Ctrl-C); 143 terminated (SIGTERM)"),
)


@click.group(cls=OrderedGroup, exit_codes=EXIT_CODES)
def cassette() -> None:
    """Check and recover cassettes.

    A cassette is a recording of requests and responses, which tests replay. These commands need neither a key nor a
    network connection; only recover writes files.

    \b
      vidgen cassette check tests --orphans --max-age 90d
      vidgen cassette recover tests/cassettes/boat.json.part
    """


_PATH = click.Path(path_type=Path)


@cassette.command()
@click.argument("paths", metavar="PATH…", type=_PATH, nargs=-1, required=True)
@click.option("--orphans", "with_orphans", is_flag=True, help="Also report unused blobs and unfinished recordings.")
@click.option(
    "--max-age", type=read_age, metavar="AGE", help="Report older recordings: 12h, 90d, 8w (units: s, m, h, d, w)."
)
@json_option
@traceback_option
@run_action("cassette")
def check() -> None:
    """Check whether cassettes may be committed.

    Each must be readable by this release, have all its blobs unchanged, and contain nothing that looks like a secret.
    A secret is reported by its place and kind, never by its value. PATH is a cassette, or a directory, which is
    searched recursively. Finding no cassette is an error.

    \b
      vidgen cassette check tests --orphans --max-age 90d
    """


@cassette.command()
@click.argument("part", metavar="PART", type=_PATH)
@click.option(
    "-o",
    "--output",
    type=_PATH,
    metavar="PATH",
    help="Where to write the cassette. Default: next to PART, without .part.",
)
@click.option("--force", is_flag=True, help="Replace a cassette that has other interactions.")
@json_option
@traceback_option
@run_action("cassette")
def recover() -> None:
    """Create a cassette from an interrupted recording.

    PART is the file that the recording left; its name ends in .part, and it is not changed. Finished interactions are
    written to the cassette; unfinished requests are listed.

    \b
      vidgen cassette recover tests/cassettes/boat.json.part
      vidgen cassette recover boat.json.part -o boat.json
    """
