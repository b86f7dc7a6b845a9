"""``vidgen get``, ``wait``, ``watch`` and ``download``: existing tasks, at no cost."""

import click

from vidgen_async.cli.commands import run_action
from vidgen_async.cli.option_values import read_shard
from vidgen_async.cli.options import OUTPUT_HELP, connection_options, force_option, order_ids


@click.command()
@click.argument("task_id", metavar="TASK", shell_complete=order_ids)
@connection_options(orders=True)
@run_action("tasks")
def get() -> None:
    """Show the current state of TASK, which may also be the id of its order in the journal.

    The last line is the current URL of its video. It is signed: it gives access to the video without a key.

    \b
      vidgen get task_9bb34ae375b1
      vidgen get task_9bb34ae375b1 --json | jq -r .status
    """


@click.command()
@click.argument("task_ids", metavar="TASK…", nargs=-1, required=True, shell_complete=order_ids)
@click.option(
    "-o", "--output", metavar="FILE", help="Save the video as FILE (- is stdout), or as TASK.mp4 in the directory FILE."
)
@force_option
@connection_options(orders=True, polling=True)
@run_action("tasks")
def wait() -> None:
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


@click.command()
@click.argument("task_ids", metavar="[TASK]…", nargs=-1, shell_complete=order_ids)
@click.option("--shard", type=read_shard, metavar="I/N", help="Only share I, from 0, of N shares of the --journal.")
@connection_options(stored_tasks=True, polling=True)
@run_action("tasks")
def watch() -> None:
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


@click.command()
@click.argument("task_id", metavar="TASK", shell_complete=order_ids)
@click.option("-o", "--output", metavar="FILE", required=True, help=OUTPUT_HELP)
@force_option
@click.option(
    "--accept-unverified", is_flag=True, help="Save a video also if nothing shows whether its end is missing."
)
@connection_options(orders=True)
@run_action("tasks")
def download() -> None:
    """Save the video of the completed task TASK, without waiting.

    TASK is a task id, or the id of an order in the journal. FILE is replaced atomically by a complete video. An
    interrupted transfer is resumed if the service supports it. stdout gets only a complete video too; the exit code is
    7 if it could not take all of it.

    \b
      vidgen download task_9bb34ae375b1 -o hero.mp4
      vidgen download task_9bb34ae375b1 -o - | ffprobe -
    """
