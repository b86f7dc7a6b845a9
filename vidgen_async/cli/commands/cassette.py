"""``vidgen cassette``: what cassettes contain, whether they may be committed, and how to recover a killed recording.
Nothing here connects to the service."""

import re
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import click
from attrs import evolve

from vidgen_async.cassette import Document, Interaction, load
from vidgen_async.cassette import recover as read_part
from vidgen_async.cassette.checks import cassettes_here, check_cassette, orphans
from vidgen_async.cli.cassette_files import find, folders_of, interaction, publish, refuse_to_replace
from vidgen_async.cli.options import JSON_HELP, InOrder
from vidgen_async.cli.run_state import Journey
from vidgen_async.cli.terminal.cassette_views import (
    Listed,
    body_texts,
    cassette_document,
    cassettes_table,
    interaction_document,
    interaction_facts,
    interactions_table,
    problem_document,
    problems_table,
    recovered_document,
    recovered_facts,
)
from vidgen_async.cli.terminal.exit_reports import error_report
from vidgen_async.cli.terminal.formatting import clean
from vidgen_async.cli.terminal.standard_streams import drop_lost_output
from vidgen_async.cli.terminal.status_display import Screen, make_screen
from vidgen_async.errors import CassetteError

F = TypeVar("F", bound=Callable[..., Any])


class Ending(IntEnum):
    """The exit codes, like those of grep(1)."""

    WELL = 0
    FOUND = 1
    TROUBLE = 2


EXIT_CODES = """\b
Exit codes:
  0    done; check: no problem found;
       recover: written, with all interactions
  1    check: problems found;
       recover: written, without unfinished or damaged interactions
  2    error: wrong usage, no cassette, or a cassette that cannot be read
  130  interrupted (Ctrl-C); 143 terminated (SIGTERM)"""


class Age(click.ParamType):  # type: ignore[type-arg] # older ones are not generic
    """A length of time: a number and its unit."""

    name = "age"
    _UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}  # noqa: RUF012 - never changed

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,5})(min|h|d|w)", value.strip())
        if match is None:
            self.fail(f"{value!r} is not a number with min, h, d or w, such as 90d", param, ctx)
        return timedelta(**{self._UNITS[match[2]]: int(match[1])})


@click.group(cls=InOrder, epilog=EXIT_CODES)
def cassette() -> None:
    """Show, check and recover cassettes.

    A cassette is a recording of requests and responses, which tests replay. These commands need neither a key nor a
    network connection; only recover writes files.

    \b
      vidgen cassette ls
      vidgen cassette show tests/cassettes/boat.json --n 3
      vidgen cassette check tests --orphans --max-age 90d
      vidgen cassette recover tests/cassettes/boat.json.part
    """


def _common(command: F) -> F:
    command = click.option("--debug", "is_debug", envvar="VIDGEN_DEBUG", is_flag=True, help="Show tracebacks.")(command)
    return click.option("--json", "is_json", is_flag=True, help=JSON_HELP)(command)


_PATH = click.Path(path_type=Path)
_file = click.argument("path", metavar="PATH", type=_PATH)


@cassette.command(epilog=EXIT_CODES)
@click.argument("paths", metavar="[PATH]…", type=_PATH, nargs=-1)
@_common
def ls(paths: tuple[Path, ...], is_json: bool, is_debug: bool) -> int:
    """List cassettes.

    PATH is a cassette, or a directory, in which they are looked for at any depth. Without one, they are looked for in
    the current directory and below all directories named cassettes; JSON files of others are passed over.

    With --json: an object on a line for each cassette.

    \b
      vidgen cassette ls
      vidgen cassette ls tests/cassettes --json
    """

    def work(screen: Screen) -> Ending:
        found, errors = find(paths) if paths else (cassettes_here(Path()), [])
        listed: list[Listed] = []
        for path in found:
            try:
                listed.append(Listed(path, load(path)))
            except CassetteError as error:
                errors.append(error)
        if listed or not errors:
            table = cassettes_table(listed, "in this directory, or below one named cassettes")
            screen.show(table, *map(cassette_document, listed))
        return _told(screen, errors) or Ending.WELL

    return _run(work, is_json=is_json, is_debug=is_debug)


@cassette.command(epilog=EXIT_CODES)
@_file
@click.option("--n", "n", type=click.IntRange(min=1), metavar="N", help="Show everything about this interaction.")
@click.option("--with-bodies", is_flag=True, help="Show bodies too; they may contain prompts.")
@_common
def show(path: Path, n: int | None, with_bodies: bool, is_json: bool, is_debug: bool) -> int:
    """Show the interactions on a cassette.

    Each line shows the request, its outcome, and its time since the recording began. --n shows one interaction with its
    headers. Bodies are shown only with --with-bodies: they may contain prompts, but no secrets, as recorded.

    With --json: an object on a line for each interaction.

    \b
      vidgen cassette show tests/cassettes/boat.json
      vidgen cassette show tests/cassettes/boat.json --n 3 --with-bodies
    """

    def work(screen: Screen) -> Ending:
        document = load(path)
        chosen = document.interactions if n is None else (interaction(path, document, n),)
        if is_json:
            screen.show("", *(interaction_document(path, one, with_bodies=with_bodies) for one in chosen))
        elif n is None and not with_bodies:
            screen.show(interactions_table(document))
        else:
            for at, one in enumerate(chosen):
                _show_whole(screen, document, one, with_bodies=with_bodies, is_first=at == 0)
        return Ending.WELL

    return _run(work, is_json=is_json, is_debug=is_debug)


@cassette.command(epilog=EXIT_CODES)
@click.argument("paths", metavar="PATH…", type=_PATH, nargs=-1, required=True)
@click.option("--orphans", "with_orphans", is_flag=True, help="Also blobs of no cassette, and unfinished recordings.")
@click.option("--max-age", type=Age(), metavar="AGE", help="Find what was recorded longer ago: 12h, 90d, 8w.")
@_common
def check(paths: tuple[Path, ...], with_orphans: bool, max_age: timedelta | None, is_json: bool, is_debug: bool) -> int:
    """Check whether cassettes may be committed.

    Each must be one that this release reads, have all its blobs, unchanged, and hold nothing that looks like a secret;
    of what is found, only the place and the kind are told. PATH is a cassette, or a directory, in which they are looked
    for at any depth; where there is none, that is trouble: what checks nothing must not pass.

    With --json: an object on a line for each problem.

    \b
      vidgen cassette check tests --orphans --max-age 90d
    """

    def work(screen: Screen) -> Ending:
        found, errors = find(paths)
        now = datetime.now(UTC)
        problems = [problem for path in found for problem in check_cassette(path, now=now, max_age=max_age)]
        if with_orphans:
            problems += orphans(folder for path in paths if path.exists() for folder in folders_of(path))
        if problems or not errors:
            screen.show(problems_table(problems, len(found)), *map(problem_document, problems))
        return _told(screen, errors) or (Ending.FOUND if problems else Ending.WELL)

    return _run(work, is_json=is_json, is_debug=is_debug)


@cassette.command(epilog=EXIT_CODES)
@click.argument("part", metavar="PART", type=_PATH)
@click.option("-o", "--output", type=_PATH, metavar="PATH", help="Where to write the cassette; else where it belongs.")
@click.option("--force", is_flag=True, help="Replace a cassette that is not an older state of it.")
@_common
def recover(part: Path, output: Path | None, force: bool, is_json: bool, is_debug: bool) -> int:
    """Make a cassette of what a killed recording had finished.

    PART is the file that the recording has left, which ends in .part, and stays as it is. Shown is what was finished,
    and which requests were not: those are not on the cassette.

    \b
      vidgen cassette recover tests/cassettes/boat.json.part
      vidgen cassette recover tests/cassettes/boat.json.part -o boat.json
    """

    def work(screen: Screen) -> Ending:
        drop_lost_output()  # the result is the cassette
        recovered = read_part(part)
        if output is not None:
            recovered = evolve(recovered, target=output)
        if not is_json:
            screen.show(interactions_table(recovered.document))
            screen.show(recovered_facts(recovered))
        if not recovered.document.interactions:
            message = f"no interaction was finished in {part}; nothing was written"
            raise CassetteError(message)
        if not force:
            refuse_to_replace(recovered)
        lost = publish(recovered, part)
        for name in lost:
            screen.warn(f"the blob {name} is lost: what it held cannot be played")
        screen.show(f"written {recovered.target}", recovered_document(recovered, part))
        return Ending.FOUND if recovered.unfinished or recovered.damaged or lost else Ending.WELL

    return _run(work, is_json=is_json, is_debug=is_debug)


def _show_whole(screen: Screen, document: Document, one: Interaction, *, with_bodies: bool, is_first: bool) -> None:
    """Show one interaction, after an empty line unless it is the first."""
    if not is_first:
        click.echo()
    screen.show(interaction_facts(document, one))
    for name, text in body_texts(one) if with_bodies else ():
        screen.show(f"{name}:")
        for line in text.splitlines():
            click.echo(f"  {' ' * (len(line) - len(line.lstrip(' ')))}{clean(line)}")


def _run(work: Callable[[Screen], Ending], *, is_json: bool, is_debug: bool) -> int:
    """Do the work and return the exit code. Whatever goes wrong is trouble, and never taken for a difference."""
    screen = make_screen(is_debug=is_debug, is_json=is_json)
    try:
        return work(screen)
    except BrokenPipeError:
        raise  # nobody reads on: click ends the process quietly
    except Exception as error:  # noqa: BLE001 - a fault of our own is told like any other
        if is_debug:
            sys.stderr.write("".join(traceback.format_exception(error)))
        return _told(screen, [error])
    finally:
        screen.close()


def _told(screen: Screen, errors: Sequence[Exception]) -> Ending:
    """Tell about them; whether there was trouble."""
    for error in errors:
        if isinstance(error, OSError):
            error = CassetteError(f"{error.filename}: {error.strerror or error}")  # noqa: PLW2901 - in words
        screen.trouble(error_report(error, Journey()), Ending.TROUBLE)
    return Ending.TROUBLE if errors else Ending.WELL
