"""``vidgen cassette``: what cassettes contain, whether they may be committed, and how to recover a recording.
Nothing here connects to the service."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from itertools import chain
from pathlib import Path

import click
from attrs import evolve

from vidgen_async.cassette import Interaction, load
from vidgen_async.cassette import recover as read_part
from vidgen_async.cassette.checks import cassettes_here, check_cassette, folders_below, orphans
from vidgen_async.cli.cassette_files import find_cassettes, publish, refuse_to_replace
from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.terminal.cassette_views import (
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
from vidgen_async.cli.terminal.formatting import clean_lines, traceback_of
from vidgen_async.cli.terminal.standard_streams import drop_lost_output
from vidgen_async.cli.terminal.status_display import Screen, make_screen
from vidgen_async.errors import CassetteError


class CassetteExit(IntEnum):
    """The exit codes, like those of grep(1)."""

    OK = 0
    PROBLEMS = 1
    ERROR = 2


def ls(paths: tuple[Path, ...], is_json: bool, is_debug: bool) -> int:

    def work(screen: Screen) -> CassetteExit:
        found, errors = find_cassettes(paths) if paths else (cassettes_here(Path()), [])
        listed = []
        for path in found:
            try:
                listed.append(cassette_document(path, load(path)))
            except CassetteError as error:
                errors.append(error)
        if listed or not errors:
            screen.show(cassettes_table(listed), *listed)
        return _show_errors(screen, errors) or CassetteExit.OK

    return _run(work, is_json=is_json, is_debug=is_debug)


def show(path: Path, n: int | None, with_bodies: bool, is_json: bool, is_debug: bool) -> int:

    def work(screen: Screen) -> CassetteExit:
        document = load(path)
        chosen = [one for one in document.interactions if n in (None, one.n)]
        if n is not None and not chosen:
            count = len(document.interactions)
            raise CassetteError(f"there is no interaction {n} in {path}, which has {count}")
        if is_json:
            screen.show("", *(interaction_document(path, one, with_bodies=with_bodies) for one in chosen))
        elif n is None and not with_bodies:
            screen.show(interactions_table(document))
        else:
            for at, one in enumerate(chosen):
                if at:
                    click.echo()
                screen.show(interaction_facts(document, one))
                if with_bodies:
                    _show_bodies(screen, one)
        return CassetteExit.OK

    return _run(work, is_json=is_json, is_debug=is_debug)


def check(paths: tuple[Path, ...], with_orphans: bool, max_age: timedelta | None, is_json: bool, is_debug: bool) -> int:

    def work(screen: Screen) -> CassetteExit:
        found, errors = find_cassettes(paths)
        now = datetime.now(UTC)
        problems = [problem for path in found for problem in check_cassette(path, now=now, max_age=max_age)]
        if with_orphans:
            folders = [folders_below(path) if path.is_dir() else [path.parent] for path in paths if path.exists()]
            problems += orphans(chain(*folders))
        if problems or not errors:
            screen.show(problems_table(problems, len(found)), *map(problem_document, problems))
        return _show_errors(screen, errors) or (CassetteExit.PROBLEMS if problems else CassetteExit.OK)

    return _run(work, is_json=is_json, is_debug=is_debug)


def recover(part: Path, output: Path | None, force: bool, is_json: bool, is_debug: bool) -> int:

    def work(screen: Screen) -> CassetteExit:
        drop_lost_output()  # the result is the cassette
        recovered = read_part(part)
        if output is not None:
            recovered = evolve(recovered, target=output)
        if not is_json:
            screen.show(interactions_table(recovered.document))
            screen.show(recovered_facts(recovered))
        if not recovered.document.interactions:
            raise CassetteError(f"no interaction was finished in {part}; nothing was written")
        if not force:
            refuse_to_replace(recovered)
        lost = publish(recovered, part)
        for name in lost:
            screen.warn(f"the blob {name} is lost: its body cannot be replayed")
        screen.show(f"written {recovered.target}", recovered_document(recovered, part))
        return CassetteExit.PROBLEMS if recovered.unfinished or recovered.damaged or lost else CassetteExit.OK

    return _run(work, is_json=is_json, is_debug=is_debug)


def _show_bodies(screen: Screen, one: Interaction) -> None:
    for name, text in body_texts(one):
        screen.show(f"{name}:")
        for line in clean_lines(text).splitlines():
            click.echo(f"  {line}")


def _run(work: Callable[[Screen], CassetteExit], *, is_json: bool, is_debug: bool) -> int:
    """Run the work and return the exit code. Every exception is an error, never a problem of a cassette."""
    screen = make_screen(is_debug=is_debug, is_json=is_json)
    try:
        return work(screen)
    except BrokenPipeError:
        raise  # the reader closed the pipe: click exits silently
    except Exception as error:  # noqa: BLE001 - bugs are reported like any other error
        if is_debug:
            sys.stderr.write(traceback_of(error))
        return _show_errors(screen, [error])
    finally:
        screen.close()


def _show_errors(screen: Screen, errors: Sequence[Exception]) -> CassetteExit:
    """Show the errors, and return the exit code."""
    for error in errors:
        if isinstance(error, OSError):
            error = CassetteError(f"{error.filename}: {error.strerror or error}")  # noqa: PLW2901 - as a sentence
        screen.show_error(error_report(error, RunState()), CassetteExit.ERROR)
    return CassetteExit.ERROR if errors else CassetteExit.OK
