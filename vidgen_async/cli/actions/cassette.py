"""``vidgen cassette``: whether cassettes may be committed, and how to recover a recording. Nothing here connects to the
service."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from itertools import chain
from pathlib import Path

from attrs import evolve

from vidgen_async.cassette import Document, Interaction, RecoveredRecording, load
from vidgen_async.cassette import recover as read_part
from vidgen_async.cassette.body_decoding import BLOBS
from vidgen_async.cassette.body_encoding import Blob
from vidgen_async.cassette.checks import (
    Problem,
    blob_names,
    cassettes_below,
    check_cassette,
    folders_below,
    is_cassette,
    orphans,
)
from vidgen_async.cassette.secret_scan import refuse_secrets
from vidgen_async.cassette.storage import store
from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.terminal.exit_reports import error_report
from vidgen_async.cli.terminal.formatting import seconds, traceback_of
from vidgen_async.cli.terminal.json_documents import pick
from vidgen_async.cli.terminal.result_output import Table, facts_of
from vidgen_async.cli.terminal.standard_streams import drop_lost_output
from vidgen_async.cli.terminal.status_display import Screen, make_screen
from vidgen_async.errors import CassetteError, CassetteInvalidError, CassetteNotFoundError


class CassetteExit(IntEnum):
    """The exit codes, like those of grep(1)."""

    OK = 0
    PROBLEMS = 1
    ERROR = 2


def check(paths: tuple[Path, ...], with_orphans: bool, max_age: timedelta | None, is_json: bool, is_debug: bool) -> int:

    def work(screen: Screen) -> CassetteExit:
        found, errors = _find_cassettes(paths)
        now = datetime.now(UTC)
        problems = [problem for path in found for problem in check_cassette(path, now=now, max_age=max_age)]
        if with_orphans:
            folders = [folders_below(path) if path.is_dir() else [path.parent] for path in paths if path.exists()]
            problems += orphans(chain(*folders))
        if problems or not errors:
            documents = (
                {"path": str(one.path), "problem": str(one.kind), **pick(one, "where message")} for one in problems
            )
            screen.show(_problems_table(problems, len(found)), *documents)
        return _show_errors(screen, errors) or (CassetteExit.PROBLEMS if problems else CassetteExit.OK)

    return _run(work, is_json=is_json, is_debug=is_debug)


def _find_cassettes(paths: Iterable[Path]) -> tuple[list[Path], list[Exception]]:
    """Return the cassettes at the paths, each once, and an error for each path without one."""
    found: dict[Path, None] = {}
    errors: list[Exception] = []
    for path in paths:
        try:
            found.update(dict.fromkeys(_cassettes_at(path)))
        except (CassetteError, OSError) as error:
            errors.append(error)
    return list(found), errors


def _cassettes_at(path: Path) -> list[Path]:
    if path.is_dir():
        below = cassettes_below(path)
        if not below:
            raise CassetteNotFoundError(f"there is no cassette in the directory {path}", path=str(path))
        return below
    if not path.is_file() or not is_cassette(path):
        load(path)  # raises the error that describes the file
    return [path]


def _problems_table(problems: Sequence[Problem], count: int) -> Table:
    """A row for each problem; ``count`` cassettes were checked."""
    return Table(
        names=("file", "problem", "where", "what"),
        long=("file", "where", "what"),
        rows=tuple((str(one.path), str(one.kind), one.where or "—", one.message) for one in problems),
        empty=f"{_counted(count, 'cassette')} checked, no problems found",
    )


def recover(part: Path, output: Path | None, force: bool, is_json: bool, is_debug: bool) -> int:

    def work(screen: Screen) -> CassetteExit:
        drop_lost_output()  # the result is the cassette
        recovered = read_part(part)
        if output is not None:
            recovered = evolve(recovered, target=output)
        if not is_json:
            screen.show(_interactions_table(recovered.document))
            finished = _counted(len(recovered.document.interactions), "interaction")
            damaged = _counted(recovered.damaged, "line") if recovered.damaged else None
            unfinished = (("not finished", line) for line in recovered.unfinished)
            screen.show(facts_of((("finished", finished), *unfinished, ("damaged", damaged))))
        if not recovered.document.interactions:
            raise CassetteError(f"no interaction was finished in {part}; nothing was written")
        if not force:
            _refuse_to_replace(recovered)
        lost = _publish(recovered, part)
        for name in lost:
            screen.warn(f"the blob {name} is lost: its body cannot be replayed")
        count = {"interactions": len(recovered.document.interactions)}
        written = {"path": str(recovered.target), "part": str(part), **count, **pick(recovered, "unfinished damaged")}
        screen.show(f"written {recovered.target}", written)
        return CassetteExit.PROBLEMS if recovered.unfinished or recovered.damaged or lost else CassetteExit.OK

    return _run(work, is_json=is_json, is_debug=is_debug)


def _refuse_to_replace(recovered: RecoveredRecording) -> None:
    """Raise CassetteError if an existing cassette has interactions that the recovered one does not have."""
    target = recovered.target
    try:
        old = load(target)
    except CassetteNotFoundError:
        return
    except CassetteInvalidError as error:
        raise CassetteError(f"{error.message.rstrip('.')}. Nothing was written; --force replaces it.") from error
    missing = Counter(map(_content, old.interactions)) - Counter(map(_content, recovered.document.interactions))
    if missing:
        message = f"{target} has interactions that were not recovered. Nothing was written; --force replaces it."
        raise CassetteError(message)


def _content(one: Interaction) -> str:
    """An interaction without its number and times, which differ between two recordings of the same requests."""
    return repr(evolve(one, n=0, started=0.0, answered=None, ended=None))


def _publish(recovered: RecoveredRecording, part: Path) -> list[str]:
    """Write the cassette and its missing blobs, and return the names of those that are lost. CassetteError means that
    nothing was written, usually because of a secret."""
    numbers = {one.n for one in recovered.document.interactions}
    if len(numbers) < len(recovered.document.interactions):
        raise CassetteError(f"{recovered.target} already has the interactions of {part}; nothing was written")
    refuse_secrets(recovered.document)
    source, target = part.parent / BLOBS, recovered.target.parent / BLOBS
    lost = []
    for name in sorted(blob_names(recovered.document)):
        if (target / name).exists():
            continue
        if (source / name).is_file():
            store(Blob(name, (source / name).read_bytes()), target)
        else:
            lost.append(name)
    recovered.publish()
    return lost


def _interactions_table(document: Document) -> Table:
    base_url = document.meta.base_url
    return Table(
        names=("n", "op", "method", "path", "outcome", "at"),
        numbers=("n", "at"),
        long=("path", "outcome"),
        optional=("op",),
        rows=tuple(
            (
                str(one.n),
                one.op,
                one.request.method,
                _short_url(one.request.url, base_url),
                _outcome(one),
                seconds(one.started),
            )
            for one in document.interactions
        ),
        empty="the cassette has no interactions",
    )


def _short_url(url: str, base_url: str | None) -> str:
    """The path and query of the service's own URLs; other URLs whole."""
    origin = "/".join((base_url or "").split("/")[:3])
    return url.removeprefix(origin) if origin and url.startswith(f"{origin}/") else url


def _outcome(one: Interaction) -> str:
    outcomes = [] if one.status is None else [str(one.status)]
    if one.failure is not None:
        outcomes.append(f"{one.failure.type} ({one.failure.delivery}, {one.failure.phase})")
    return ", then ".join(outcomes)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


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
