"""``vidgen create`` and ``generate``: the commands that order a video."""

import uuid

import click
from click.core import ParameterSource

from vidgen_async.cli.commands.account import model_facts
from vidgen_async.cli.options import (
    OUTPUT_HELP,
    Run,
    connection_options,
    force_option,
    no_validate_option,
    order_ids,
    refuse_empty,
    request_arguments,
    sandbox_option,
)
from vidgen_async.cli.request_options import REQUEST_NAMES, RequestOptions, invalid
from vidgen_async.cli.settings import Access
from vidgen_async.cli.targets import Target
from vidgen_async.cli.terminal.formatting import Facts

order_id_option = click.option(
    "--order-id", metavar="ID", callback=refuse_empty, help="Your own permanent id for this order. Default: a new UUID."
)


@click.command()
@request_arguments
@order_id_option
@click.option("--check", "is_check", is_flag=True, help="Validate only and show the model's prices; order nothing.")
@no_validate_option
@connection_options(orders=True, budget=True)
async def create(
    run: Run, request_options: RequestOptions, order_id: str | None, is_check: bool, validate: bool
) -> None:
    """Order a video for PROMPT and print its task id.

    Use - as PROMPT to read it from stdin. Only the task id is printed to stdout; the order id is shown before, on
    stderr. Running it again with the same order id sends nothing and prints the same task id.

    \b
      vidgen create "A boat" --model gen-2.0 --duration 5
      vidgen create - --model gen-2.0 --order-id order-1187 \\
          < prompt.txt
      vidgen create "…" --model vendorh3 --image a.png --check
      vidgen wait "$(vidgen create "…" --model ID)" -o a.mp4
    """
    if is_check:
        await run.connect()
        await _check(run, request_options)
        return
    run.order_id, run.has_given_order_id = order_id or str(uuid.uuid4()), order_id is not None
    await run.connect(Access.NEW)
    receipt = await run.create(request_options, validate=validate)
    run.screen.show(receipt.task_id, receipt.to_dict())


async def _check(run: Run, request_options: RequestOptions) -> None:
    model = await run.get_model(request_options)
    result = await run.check(request_options, model)
    if result.catalog_error is not None:
        raise result.catalog_error
    facts = {"model": model} if result.model is None else model_facts(result.model)
    run.screen.show(Facts((("request", "valid" if result.is_ok else "invalid"), *facts.items())), result.to_dict())
    if result.problems:
        raise invalid("the request would be refused", result.problems)


@click.command()
@click.option("-o", "--output", metavar="FILE", required=True, help=OUTPUT_HELP)
@force_option
@request_arguments
@order_id_option
@click.option(
    "--resume",
    metavar="ORDER",
    callback=refuse_empty,
    shell_complete=order_ids,
    help="Resume this order of an interrupted run.",
)
@no_validate_option
@sandbox_option
@connection_options(orders=True, budget=True, polling=True)
async def generate(
    run: Run,
    request_options: RequestOptions | None,
    output: str,
    force: bool,
    order_id: str | None,
    resume: str | None,
    validate: bool,
) -> None:
    """Create a video for PROMPT and save it.

    Uploads the images, orders the video, waits for it and downloads it. Use - as PROMPT to read it from stdin. The
    order id and the task id are shown before the wait. After Ctrl-C it shows what is still running and charged, and
    how to resume.

    --resume continues an interrupted order. Its request is read from the journal, so do not repeat PROMPT and the
    request options. It never creates a second order.

    \b
      vidgen generate "…" --image a.png --sandbox -o a.mp4
      vidgen generate "…" --model vendorh3 --image a.png \\
          --duration 8 -o a.mp4
      vidgen generate --resume order-1187 -o hero.mp4
    """
    if request_options is None:
        _refuse_request_options()
    run.order_id = resume or order_id or str(uuid.uuid4())
    run.has_given_order_id, run.output = resume is not None or order_id is not None, output
    run.more_options += (*(("--force",) if force else ()), *(() if validate else ("--no-validate",)))
    client = await run.connect(Access.NEW if resume is None else Access.EXISTING)
    target = Target.named(output, may_replace=force)
    await target.check(client)
    if request_options is None:
        receipt = await run.resume(run.order_id, validate=validate)
        await run.check_reachable(receipt.task_id)
    else:
        receipt = await run.create(request_options, validate=validate)
    task = await run.wait(receipt)
    await run.save(task, target.of_task(client, task.id))


def _refuse_request_options() -> None:
    """Refuse the options of a new request with --resume, which uses the stored one."""
    context = click.get_current_context()
    given = [
        parameter.human_readable_name if isinstance(parameter, click.Argument) else parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in (*REQUEST_NAMES, "order_id", "is_sandbox")
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"--resume uses the stored request: leave out {', '.join(given)}.")
