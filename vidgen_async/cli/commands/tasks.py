"""``vidgen get``, ``wait``, ``watch`` and ``download``: existing tasks, at no cost."""

import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import click
from attrs import evolve

from vidgen_async.cli.options import OUTPUT_HELP, Run, connection_options, force_option, order_ids
from vidgen_async.cli.run_state import Exit, Stage, exit_code, refuse_failed
from vidgen_async.cli.settings import Access, problem_of_text, read_shard
from vidgen_async.cli.targets import Target
from vidgen_async.cli.terminal.exit_reports import download_unverified, watch_report
from vidgen_async.cli.terminal.formatting import Facts
from vidgen_async.cli.terminal.order_views import task_document
from vidgen_async.errors import UnverifiedVideoError, VidgenError
from vidgen_async.types import Shard, VideoTask, failure_text, kind_of

if TYPE_CHECKING:
    from vidgen_async import Outcome


@click.command()
@click.argument("task_id", metavar="TASK", shell_complete=order_ids)
@connection_options(orders=True)
async def get(run: Run, task_id: str) -> None:
    """Show the current state of TASK, which may also be the id of its order in the journal.

    The last line is the current URL of its video. It is signed: it gives access to the video without a key.

    \b
      vidgen get task_9bb34ae375b1
      vidgen get task_9bb34ae375b1 --json | jq -r .status
    """
    client = await run.connect(Access.TASKS, only_prints=True)
    (found,) = await run.find_tasks([task_id])
    run.stage = Stage.QUERY
    task = await client.videos.get(found)
    run.screen.show(Facts(_facts(task)), task_document(task))


def _facts(task: VideoTask) -> list[tuple[str, object]]:
    """What is known of the task. The video URL is complete: without its signature it is useless."""
    return [
        ("task", task.id),
        ("state", task.status),
        ("model", task.model),
        ("points", task.points),
        ("created", task.created_at and task.created_at.isoformat()),
        ("updated", task.updated_at and task.updated_at.isoformat()),
        ("failure", failure_text(task.failure_reason) if task.status == "failed" else task.failure_reason),
        ("video", task.video_url),
    ]


@click.command()
@click.argument("task_ids", metavar="TASK…", nargs=-1, required=True, shell_complete=order_ids)
@click.option(
    "-o", "--output", metavar="FILE", help="Save the video as FILE (- is stdout), or as TASK.mp4 in the directory FILE."
)
@force_option
@connection_options(orders=True, polling=True)
async def wait(run: Run, task_ids: tuple[str, ...], output: str | None, force: bool) -> None:
    """Wait until TASK is completed, and save its video.

    TASK is a task id, or the id of an order in the journal. Nothing is ordered, so nothing is charged again; without -o
    nothing is saved. With several tasks, each is shown when it finishes (with --json: one object per line) and saved as
    TASK.mp4 in the directory FILE, which is created if its name ends with a slash; the exit code is that of the failed
    ones if it is the same for all, else 1.

    \b
      vidgen wait task_9bb34ae375b1 -o hero.mp4
      vidgen wait order-1187 -o hero.mp4
      vidgen wait task_9bb34ae375b1 task_52f06a8e77c0 -o out/
    """
    run.output = output
    run.more_options += ("--force",) if force else ()
    name, *others = task_ids = tuple(dict.fromkeys(task_ids))
    if others and output == "-":
        raise click.UsageError("-o - takes one task: the videos of several would follow each other.")
    client = await run.connect(Access.TASKS)
    if others:
        await _wait_for_all(run, task_ids, output, may_replace=force)
        return
    task_id = await run.find_task(name)
    target = None if output is None else Target.named(output, may_replace=force).of_task(client, task_id)
    if target is not None:
        await target.check(client)
    run.stage = Stage.WAIT
    await run.check_reachable(task_id)
    task = await run.wait(task_id)
    if target is None:
        run.screen.show(f"{task.id}: {task.status}, {run.points(task)}", run.document(task))
    else:
        await run.save(task, target)


async def _wait_for_all(run: Run, names: Sequence[str], output: str | None, *, may_replace: bool) -> None:
    """Show each task when it finishes, and save its video if there is a directory; TasksFailedError if some failed."""
    client, targets = run.client, {}
    task_ids = [*await run.find_tasks(names)]
    unfinished = list(task_ids)
    run.explain = lambda _: watch_report(run, "wait", len(unfinished), len(task_ids), unfinished)
    if output is not None:
        folder = evolve(Target.named(output, may_replace=may_replace), is_folder=True)
        targets = {task_id: folder.of_task(client, task_id) for task_id in task_ids}
    for target in targets.values():
        await target.check(client)
    codes: list[Exit] = []
    run.stage = Stage.WATCH
    await run.check_reachable(task_ids[0])
    async with aclosing(client.videos.as_completed(task_ids, timeout=run.settings.timeout)) as outcomes:
        async for outcome in outcomes:
            code = await _finish(run, outcome, targets.get(outcome.task_id))
            run.stage = Stage.WATCH
            codes += [] if code is Exit.OK else [code]
            unfinished.remove(outcome.task_id)
    refuse_failed(len(codes), len(task_ids), codes)


async def _finish(run: Run, outcome: "Outcome", target: Target | None) -> Exit:
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
            message += f" To save it anyway: {download_unverified(outcome.task_id, str(target.path), run)}"
        document = {"kind": kind_of(error), "message": message, "task_id": outcome.task_id}
        run.screen.show(f"{outcome.task_id}: {message}", {"task_id": outcome.task_id, "error": document})
        return exit_code(error, stage)
    return Exit.OK


def _read_names(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    """The ids, with those on stdin in place of a dash; None if none and no dash are given."""
    names: list[str] = []
    if ctx.resilient_parsing:  # completion
        return given
    for one in given:
        text = sys.stdin.read() if one == "-" else ""
        if problem := problem_of_text(text):
            raise click.UsageError(f"cannot read task ids from stdin: {problem}")
        names += text.split() if one == "-" else [one]
    return tuple(names) if given else None


@click.command()
@click.argument("task_ids", metavar="[TASK]…", nargs=-1, callback=_read_names, shell_complete=order_ids)
@click.option("--shard", type=read_shard, metavar="I/N", help="Only share I, from 0, of N shares of the --journal.")
@connection_options(stored_tasks=True, polling=True)
async def watch(run: Run, task_ids: tuple[str, ...] | None, shard: Shard | None) -> None:
    """Watch many tasks until all are completed or failed.

    TASK is a task id, or the id of an order in the journal; TASK - reads ids from stdin, separated by white space. A
    terminal shows a live view, then a summary with the reasons of failures; other output is one line per change. No
    video is saved and the journal is not changed: --journal lists a task again until another command or program has
    waited for it.

    \b
      vidgen watch task_9bb34ae375b1 task_52f06a8e77c0
      vidgen watch - < tasks.txt
      vidgen watch --journal
      vidgen watch --journal sqlite:///orders.db --json
      vidgen watch --journal --shard 0/3
    """
    where = run.settings.journal
    if task_ids is None and where is None:
        raise click.UsageError("Missing argument 'TASK': task ids, - to read them from stdin, or --journal.")
    if where and ":" not in where:
        allowed = "sqlite:///FILE, postgresql://USER@HOST/DATABASE or no value"
        raise click.UsageError(f"--journal takes {allowed}: put task ids before it ({where!r}).")
    if shard is not None and where is None:
        raise click.UsageError("--shard is a share of the tasks in the journal: add --journal.")
    from vidgen_async.cli.watch import watch_tasks  # noqa: PLC0415 - help needs no live view

    run.settings = evolve(run.settings, journal=where or None)
    run.more_options += ("--journal",) if where == "" else ()
    run.more_options += () if shard is None else ("--shard", f"{shard[0]}/{shard[1]}")
    await watch_tasks(run, task_ids or (), shard, is_in_journal=where is not None)


@click.command()
@click.argument("task_id", metavar="TASK", shell_complete=order_ids)
@click.option("-o", "--output", metavar="FILE", required=True, help=OUTPUT_HELP)
@force_option
@click.option(
    "--accept-unverified", is_flag=True, help="Save a video also if nothing shows whether its end is missing."
)
@connection_options(orders=True)
async def download(run: Run, task_id: str, output: str, force: bool, accept_unverified: bool) -> None:
    """Save the video of the completed task TASK, without waiting.

    TASK is a task id, or the id of an order in the journal. FILE is replaced atomically by a complete video. An
    interrupted transfer is resumed if the service supports it. stdout gets only a complete video too; the exit code is
    7 if it could not take all of it.

    \b
      vidgen download task_9bb34ae375b1 -o hero.mp4
      vidgen download task_9bb34ae375b1 -o - | ffprobe -
    """
    run.output = output
    run.more_options += ("--force",) if force else ()
    client = await run.connect(Access.TASKS)
    found = await run.find_task(task_id)
    target = Target.named(output, may_replace=force).of_task(client, found)
    await target.check(client)
    run.stage = Stage.QUERY
    task = await client.videos.get(found)
    run.status = task.status
    client.orders.results.record_end(found, task)
    await run.save(task, target, accept_unverified=accept_unverified)
