"""``vidgen get``, ``wait``, ``watch`` and ``download``: existing tasks, at no cost."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import click
from attrs import evolve

from vidgen_async.cli.command_runner import run_query, run_with_client
from vidgen_async.cli.operations import CommandRun, Target, create_named_folder, task_lines
from vidgen_async.cli.option_values import problem_of_text
from vidgen_async.cli.run_state import RunState, Stage, WatchResult
from vidgen_async.cli.settings import Access, Settings
from vidgen_async.cli.terminal.exit_codes import Exit
from vidgen_async.cli.terminal.exit_reports import TasksFailedError, download_unverified, exit_code
from vidgen_async.cli.terminal.json_documents import task_document
from vidgen_async.cli.terminal.result_output import facts_of
from vidgen_async.cli.terminal.standard_streams import is_terminal
from vidgen_async.cli.watch.display import Updates
from vidgen_async.cli.watch.display import watch as watch_all
from vidgen_async.client.saving import file_name
from vidgen_async.errors import UnverifiedVideoError, VidgenError
from vidgen_async.types.orders import OrderState, Shard
from vidgen_async.types.serialization import kind_of
from vidgen_async.watcher import Outcome


def get(settings: Settings, task_id: str) -> int:

    async def work(run: CommandRun) -> None:
        found = await run.find_tasks(settings, [task_id])
        run.state.stage = Stage.QUERY
        task = await run.client.videos.get(*found)
        run.screen.show(facts_of(task_lines(task)), task_document(task))

    return run_query(settings, work)


def wait(settings: Settings, task_ids: tuple[str, ...], output: str | None, force: bool) -> int:
    options = ("--force",) if force else ()
    name, *others = task_ids = tuple(dict.fromkeys(task_ids))
    if others and output == "-":
        raise click.UsageError("-o - takes one task: the videos of several would follow each other.")
    if others:
        folder, run_state = None if output is None else Path(output), RunState(output=output, options=options)
        return run_with_client(
            settings, run_state, lambda run: _wait_for_all(run, settings, task_ids, folder, may_replace=force)
        )

    async def work(run: CommandRun) -> None:
        task_id = await run.find_task(settings, name)
        target = None if output is None else Target.named(output, may_replace=force).of_task(task_id)
        if target is not None and output is not None:
            create_named_folder(output)
            await target.check()
        run.state.stage = Stage.WAIT
        await run.check_reachable(task_id)
        await run.wait_and_save(task_id, target)

    return run_with_client(settings, RunState(output=output, options=options), work)


def watch(settings: Settings, task_ids: tuple[str, ...], shard: Shard | None) -> int:
    where = settings.journal
    if not task_ids and where is None:
        raise click.UsageError("Missing argument 'TASK': task ids, - to read them from stdin, or --journal.")
    if where and ":" not in where:
        allowed = "sqlite:///FILE, postgresql://USER@HOST/DATABASE or no value"
        raise click.UsageError(f"--journal takes {allowed}: put task ids before it ({where!r}).")
    if shard is not None and where is None:
        raise click.UsageError("--shard is a share of the tasks in the journal: add --journal.")
    named = [one for given in task_ids for one in (_read_names() if given == "-" else [given])]
    updates: Updates = asyncio.Queue()
    is_live = is_terminal(sys.stdout)

    async def work(run: CommandRun) -> None:
        tasks = await run.find_tasks(settings, named)
        if where is not None:
            tasks.update(await _unfinished_tasks(run, shard))
        if tasks:
            run.state.stage = Stage.WATCH
            await run.check_reachable(next(iter(tasks)))
            # A watch must not record results that another program waits for.
            with run.client.orders.results.hold(tasks):
                await watch_all(run, tasks, updates, is_live=is_live)
        elif where is None:
            run.screen.print_fact("tasks", "stdin has no task ids")
        else:
            run.screen.print_fact("orders", "the journal has no unfinished tasks")

    settings = evolve(settings, journal=where or None)
    run_state = RunState(
        options=(
            *(("--journal",) if where == "" else ()),
            *(() if shard is None else ("--shard", f"{shard[0]}/{shard[1]}")),
        )
    )
    access = Access.NONE if where is None else Access.EXISTING
    return run_with_client(settings, run_state, work, orders=access, on_update=updates.put_nowait, only_prints=True)


def download(settings: Settings, task_id: str, output: str, force: bool, accept_unverified: bool) -> int:
    run_state = RunState(output=output, options=("--force",) if force else ())

    async def work(run: CommandRun) -> None:
        found = await run.find_task(settings, task_id)
        target = Target.named(output, may_replace=force).of_task(found)
        create_named_folder(output)
        await target.check()
        run.state.stage = Stage.QUERY
        task = await run.client.videos.get(found)
        run_state.status = task.status
        if task.status == "failed":
            Outcome.of(task).unwrap()
        await run.save(task, target, accept_unverified=accept_unverified)

    return run_with_client(settings, run_state, work)


def _read_names() -> list[str]:
    text = sys.stdin.read()
    if problem := problem_of_text(text):
        raise click.UsageError(f"cannot read task ids from stdin: {problem}")
    return text.split()


async def _unfinished_tasks(run: CommandRun, shard: Shard | None) -> dict[str, str | None]:
    """Return the unfinished tasks in the journal with their order ids; report how many orders need an operator."""
    run.state.stage = Stage.JOURNAL
    running = run.client.orders.running(shard=shard)
    tasks: dict[str, str | None] = {task.task_id: task.order_id async for task in running}
    if unclear := await run.client.orders.list([OrderState.UNCERTAIN, OrderState.SENDING]):
        run.screen.print_fact("orders", f"{len(unclear)} uncertain or being sent; vidgen orders ls lists them")
    return tasks


async def _wait_for_all(
    run: CommandRun, settings: Settings, names: Sequence[str], folder: Path | None, *, may_replace: bool
) -> None:
    """Show each task when it finishes, and save its video if there is a directory; TasksFailedError if some failed."""
    targets: dict[str, Target] = {}
    task_ids = [*await run.find_tasks(settings, names)]
    unfinished = list(task_ids)
    run.state.watch_result = WatchResult(0, len(task_ids), unfinished, "wait")
    if run.state.output is not None:
        create_named_folder(run.state.output)
    for task_id in task_ids if folder is not None else ():
        targets[task_id] = Target(path=(folder or Path()) / f"{file_name(task_id)}.mp4", may_replace=may_replace)
        await targets[task_id].check()
    codes: list[Exit] = []
    run.state.stage = Stage.WATCH
    await run.check_reachable(task_ids[0])
    async with aclosing(run.client.videos.as_completed(task_ids, timeout=run.timeout)) as outcomes:
        async for outcome in outcomes:
            code = await _finish(run, outcome, targets.get(outcome.task_id))
            run.state.stage = Stage.WATCH
            codes += [] if code is Exit.OK else [code]
            unfinished.remove(outcome.task_id)
            run.state.watch_result = evolve(run.state.watch_result, finished=len(task_ids) - len(unfinished))
    if codes:
        message = f"{len(codes)} of {len(task_ids)} tasks did not complete"
        raise TasksFailedError(message, code=codes[0] if len(set(codes)) == 1 else Exit.FAILED)


async def _finish(run: CommandRun, outcome: Outcome, target: Target | None) -> Exit:
    """Show how one task finished, and save its video if there is a target."""
    stage = Stage.WAIT
    try:
        task = outcome.unwrap()
        if target is None:
            run.screen.show(f"{task.id}: {task.status}, {run.points(task)}", task_document(task))
        else:
            stage = Stage.DOWNLOAD
            await run.save(task, target)
    except VidgenError as error:
        message = error.summary
        if isinstance(error, UnverifiedVideoError) and target is not None:
            message += f" To save it anyway: {download_unverified(outcome.task_id, str(target.path), run.state)}"
        document = {"kind": kind_of(error), "message": message, "task_id": outcome.task_id}
        run.screen.show(f"{outcome.task_id}: {message}", {"task_id": outcome.task_id, "error": document})
        return exit_code(error, stage)
    return Exit.OK
