"""``vidgen get``, ``wait``, ``watch`` and ``download``: tasks that were ordered already, at no cost."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

import click
from attrs import evolve

from vidgen_async.cli.command_setup import look, start
from vidgen_async.cli.operations import Errand, Target, task_lines
from vidgen_async.cli.options import connected, force_option
from vidgen_async.cli.run_state import Fate, Journey, Stage
from vidgen_async.cli.service_connection import Access, Settings
from vidgen_async.cli.terminal.detection import stdout_is_terminal
from vidgen_async.cli.terminal.exit_reports import EXIT_CODES, Exit, TasksFailedError, exit_code
from vidgen_async.cli.terminal.json_documents import kind_of, task_document
from vidgen_async.cli.terminal.result_output import facts_of
from vidgen_async.cli.watch.display import Updates
from vidgen_async.cli.watch.display import watch as watch_all
from vidgen_async.errors import VidgenError
from vidgen_async.service.endpoints import checked_task_id
from vidgen_async.types.orders import OrderState
from vidgen_async.watcher import Outcome


@click.command(epilog=EXIT_CODES)
@click.argument("task_id", metavar="TASK")
@connected()
def get(settings: Settings, task_id: str) -> int:
    """Show the task TASK as it is now.

    The last line is the latest address of its video, with its signature: whoever has it can see the video.

    \b
      vidgen get task_9bb34ae375b1
      vidgen get task_9bb34ae375b1 --json | jq -r .status
    """

    async def work(errand: Errand) -> None:
        task = await errand.client.videos.get(task_id)
        errand.screen.show(facts_of(task_lines(task)), task_document(task))

    return look(settings, work)


@click.command(epilog=EXIT_CODES)
@click.argument("task_ids", metavar="TASK…", nargs=-1, required=True)
@click.option(
    "-o", "--output", metavar="FILE", help="Save the video there; with several tasks a folder, for TASK.mp4 each."
)
@force_option
@connected(polling=True)
def wait(settings: Settings, task_ids: tuple[str, ...], output: str | None, force: bool) -> int:
    """Wait until TASK is completed, and save its video.

    Nothing is ordered, so nothing can be charged again; without -o nothing is saved. With several tasks each is shown
    (with --json: an object on a line) as it ends, and the exit code is that of those that did not end well, if they
    agree, else 1.

    \b
      vidgen wait task_9bb34ae375b1 -o hero.mp4
      vidgen wait task_9bb34ae375b1 task_52f06a8e77c0 -o films/
    """
    options = (*settings.options, *(("--force",) if force else ()))
    if len(set(task_ids)) > 1:
        folder = None if output is None else Path(output)
        journey = Journey(options=options)
        return start(settings, journey, lambda errand: _wait_for_all(errand, task_ids, folder, force))
    target = None if output is None else Target(path=Path(output), may_replace=force)

    async def work(errand: Errand) -> None:
        if target is not None:
            await target.check()
        await errand.follow(task_ids[0], target)

    journey = Journey(fate=Fate.TASK, task_id=task_ids[0], output=output, options=options)
    return start(settings, journey, work)


@click.command(epilog=EXIT_CODES)
@click.argument("task_ids", metavar="TASK…", nargs=-1)
@connected(on_record=True, polling=True)
def watch(settings: Settings, task_ids: tuple[str, ...]) -> int:
    """Watch many tasks until all are completed or failed.

    On a terminal it is a table that is kept up to date, and at the end how many ended in which way, and why those that
    failed did; else a line for each change. A TASK of - reads ids from stdin, one on a line. No video is saved, and
    nothing is noted on record: --journal shows an order again until a program has seen its task end.

    \b
      vidgen watch task_9bb34ae375b1 task_52f06a8e77c0
      vidgen watch - < tasks.txt
      vidgen watch --journal
      vidgen watch --journal sqlite:///orders.db --json
    """
    where = settings.journal
    if not task_ids and where is None:
        message = "Give the ids of tasks, - to read them from stdin, or --journal."
        raise click.UsageError(message)
    if where and ":" not in where:
        message = f"--journal takes sqlite:///FILE, or nothing: give the ids of tasks before it ({where!r})."
        raise click.UsageError(message)
    named = _ids(task_ids)
    updates: Updates = asyncio.Queue()
    is_live = stdout_is_terminal()

    async def work(errand: Errand) -> None:
        tasks: dict[str, str | None] = {checked_task_id(task_id): None for task_id in named}
        if where is not None:
            tasks.update(await _on_record(errand))
        if tasks:
            with errand.client.orders.results.held(tasks):  # to look on takes nothing from who goes on with them
                await watch_all(errand, tasks, updates, is_live=is_live)
        elif where is None:
            errand.screen.say("tasks", "no ids were read from stdin")
        else:
            errand.screen.say("orders", "no order on record is left whose task was not seen to end")

    settings = evolve(settings, journal=where or None)
    journey = Journey(options=(*settings.options, *(("--journal",) if where == "" else ())))
    access = Access.NONE if where is None else Access.EXISTING
    return start(settings, journey, work, orders=access, on_update=updates.put_nowait, only_prints=True)


@click.command(epilog=EXIT_CODES)
@click.argument("task_id", metavar="TASK")
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to save the video (MP4).")
@force_option
@connected()
def download(settings: Settings, task_id: str, output: str, force: bool) -> int:
    """Save the video of the completed task TASK, without waiting.

    FILE is a complete video, or what was there before. A transfer that breaks is gone on with where the service
    supports it.

    \b
      vidgen download task_9bb34ae375b1 -o hero.mp4
    """
    target = Target(path=Path(output), may_replace=force)
    options = (*settings.options, *(("--force",) if force else ()))
    journey = Journey(fate=Fate.TASK, task_id=task_id, output=output, options=options)

    async def work(errand: Errand) -> None:
        await target.check()
        errand.journey.stage = Stage.LOOK
        task = await errand.client.videos.get(task_id)
        journey.saw(task)
        await errand.save(task, target)

    return start(settings, journey, work)


async def _on_record(errand: Errand) -> dict[str, str | None]:
    """The orders of all tasks on record that were not seen to end. Says how many orders a person should look at."""
    errand.journey.stage = Stage.RECORD
    tasks: dict[str, str | None] = {task.task_id: task.order_id async for task in errand.client.orders.running()}
    if unclear := await errand.client.orders.list([OrderState.UNCERTAIN, OrderState.SENDING]):
        errand.screen.say("orders", f"{len(unclear)} are uncertain or being sent: vidgen orders ls shows them")
    return tasks


async def _wait_for_all(errand: Errand, task_ids: tuple[str, ...], folder: Path | None, force: bool) -> None:
    """Each as it ends. TasksFailedError when some did not end well; the others are saved all the same."""
    distinct = tuple(dict.fromkeys(task_ids))
    targets: dict[str, Target] = {}
    for task_id in distinct if folder is not None else ():
        targets[task_id] = Target(path=(folder or Path()) / f"{file_name(task_id)}.mp4", may_replace=force)
        await targets[task_id].check()
    errand.journey.stage = Stage.WATCH
    codes: list[Exit] = []
    async with aclosing(errand.client.videos.as_completed(distinct, timeout=errand.timeout)) as outcomes:
        async for outcome in outcomes:
            code = await _take(errand, outcome, targets.get(outcome.task_id))
            errand.journey.stage = Stage.WATCH
            codes += [] if code is Exit.OK else [code]
    if codes:
        message = f"{len(codes)} of {len(distinct)} tasks did not end well"
        raise TasksFailedError(message, code=codes[0] if len(set(codes)) == 1 else Exit.FAILED)


async def _take(errand: Errand, outcome: Outcome, target: Target | None) -> Exit:
    """Show how one task ended, and save its video if there is a target."""
    stage = Stage.WAIT
    try:
        task = outcome.unwrap()
        if target is None:
            errand.screen.show(f"{task.id}: {task.status}, {errand.points(task)}", task_document(task))
        else:
            stage = Stage.DOWNLOAD
            await errand.save(task, target)
    except VidgenError as error:
        document = {"kind": kind_of(error), "message": error.summary, "task_id": outcome.task_id}
        errand.screen.show(f"{outcome.task_id}: {error.summary}", {"task_id": outcome.task_id, "error": document})
        return exit_code(error, stage)
    return Exit.OK


def _ids(given: tuple[str, ...]) -> list[str]:
    """The ids, those on stdin in the place of a dash."""
    ids: list[str] = []
    for task_id in given:
        ids += sys.stdin.read().split() if task_id == "-" else [task_id]
    return ids


def file_name(task_id: str) -> str:
    """The id as the name of a file: it may not lead out of the folder."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in task_id).lstrip(".") or "_"
