"""``vidgen cassette``: whether cassettes may be committed, and how to recover a recording. Nothing here connects to the
service."""

import functools
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from vidgen_async.cli.options import OrderedGroup, json_option, traceback_option
from vidgen_async.cli.process import drop_lost_output
from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.settings import read_age
from vidgen_async.cli.terminal.exit_reports import error_report
from vidgen_async.cli.terminal.formatting import Facts, Table, traceback_of
from vidgen_async.errors import CassetteError

if TYPE_CHECKING:
    from vidgen_async.cli.terminal.status_display import Screen

EXIT_CODES = (
    ("0", "done; check: no problem found; recover: written, with all interactions"),
    ("1", "check: problems found; recover: written, without unfinished or damaged interactions"),
    ("2", "error: wrong usage, no cassette, or a cassette that cannot be read"),
    ("130", "interrupted (Ctrl-C); 143 terminated (SIGTERM)"),
)


def _offline(command: Callable[..., int]) -> Callable[..., int]:
    """Run a command that connects to nothing. Every exception is an error, never a problem of a cassette."""

    @functools.wraps(command)
    def run(*, is_json: bool, is_debug: bool, **values: Any) -> int:
        from vidgen_async.cli.terminal.status_display import make_screen  # noqa: PLC0415 - help needs no screen

        screen = make_screen(is_debug=is_debug, is_json=is_json)
        try:
            return command(screen, **values)
        except BrokenPipeError:
            raise  # the reader closed the pipe: click exits silently
        except Exception as error:  # noqa: BLE001 - bugs are reported like any other error
            if is_debug:
                sys.stderr.write(traceback_of(error))
            if isinstance(error, OSError):
                error = CassetteError(f"{error.filename}: {error.strerror or error}")
            screen.show_error(error_report(error, RunState()), 2)
            return 2

    return run


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
@_offline
def check(screen: "Screen", paths: tuple[Path, ...], with_orphans: bool, max_age: timedelta | None) -> int:
    """Check whether cassettes may be committed.

    Each must be readable by this release, have all its blobs unchanged, and contain nothing that looks like a secret.
    A secret is reported by its place and kind, never by its value. PATH is a cassette, or a directory, which is
    searched recursively. Finding no cassette is an error.

    \b
      vidgen cassette check tests --orphans --max-age 90d
    """
    from vidgen_async import cassette  # noqa: PLC0415 - help needs no cassettes

    result = cassette.check(paths, max_age=max_age, with_orphans=with_orphans)
    if result.problems or not result.errors:
        count = len(result.cassettes)
        table = Table(
            names=("file", "problem", "where", "what"),
            optional=("where", "what"),
            rows=tuple((str(one.path), str(one.kind), one.where or "—", one.message) for one in result.problems),
            empty=f"{_counted(count, 'cassette')} checked, no problems found",
        )
        documents = (
            {"path": str(one.path), "problem": str(one.kind), "where": one.where, "message": one.message}
            for one in result.problems
        )
        screen.show(table, *documents)
    for error in result.errors:
        screen.show_error(error_report(error, RunState()), 2)
    return 2 if result.errors else 1 if result.problems else 0


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
@_offline
def recover(screen: "Screen", part: Path, output: Path | None, force: bool) -> int:
    """Create a cassette from an interrupted recording.

    PART is the file that the recording left; its name ends in .part, and it is not changed. Finished interactions are
    written to the cassette; unfinished requests are listed.

    \b
      vidgen cassette recover tests/cassettes/boat.json.part
      vidgen cassette recover boat.json.part -o boat.json
    """
    from vidgen_async import cassette  # noqa: PLC0415 - help needs no cassettes

    drop_lost_output()  # the result is the cassette
    recovered = cassette.recover(part)
    if output is not None:
        recovered = evolve(recovered, target=output)
    document, unfinished = recovered.document, recovered.unfinished
    finished = _counted(len(document.interactions), "interaction")
    damaged = _counted(recovered.damaged, "line") if recovered.damaged else None
    screen.show(Facts((("finished", finished), *(("not finished", one) for one in unfinished), ("damaged", damaged))))
    if not document.interactions:
        raise CassetteError(f"no interaction was finished in {part}; nothing was written")
    recovered.publish(replace=force)
    lost = [one for one in cassette.check([recovered.target]).problems if one.kind == "blob-missing"]
    for one in lost:
        screen.warn(f"{one.message}: a body cannot be replayed")
    written = {
        "path": str(recovered.target),
        "part": str(part),
        "interactions": len(document.interactions),
        "unfinished": list(unfinished),
        "damaged": recovered.damaged,
    }
    screen.show(f"written {recovered.target}", written)
    return 1 if unfinished or recovered.damaged or lost else 0


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
