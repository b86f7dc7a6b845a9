"""``vidgen create`` and ``generate``: the commands that order a video."""

import uuid

import click
from click.core import ParameterSource

from vidgen_async.cli.actions.account import model_facts
from vidgen_async.cli.command_runner import run_with_client
from vidgen_async.cli.operations import CommandRun, Target, create_named_folder
from vidgen_async.cli.request_options import REQUEST_NAMES, RequestOptions
from vidgen_async.cli.run_state import RunState
from vidgen_async.cli.settings import Access, Settings
from vidgen_async.cli.terminal.result_output import Facts
from vidgen_async.errors import InvalidRequestError


def create(
    settings: Settings, request_options: RequestOptions, order_id: str | None, is_check: bool, validate: bool
) -> int:
    run_state = RunState(order_id=order_id or str(uuid.uuid4()), has_given_order_id=order_id is not None)

    async def work(run: CommandRun) -> None:
        receipt = await run.create(request_options, validate=validate)
        run.screen.show(receipt.task_id, receipt.to_dict())

    if is_check:
        return run_with_client(settings, RunState(), lambda run: _check(run, request_options))
    return run_with_client(settings, run_state, work, orders=Access.NEW)


def generate(
    settings: Settings,
    request_options: RequestOptions | None,
    output: str,
    force: bool,
    order_id: str | None,
    resume: str | None,
    validate: bool,
) -> int:
    target = Target.named(output, may_replace=force)
    run_state = RunState(
        order_id=resume or order_id or str(uuid.uuid4()),
        has_given_order_id=resume is not None or order_id is not None,
        output=output,
        options=(*(("--force",) if force else ()), *(() if validate else ("--no-validate",))),
        is_sandbox=settings.is_sandbox,
    )
    if request_options is None:
        _refuse_request_options()

    async def work(run: CommandRun) -> None:
        create_named_folder(output)
        await target.check()
        if request_options is None:
            receipt = await run.resume_create(validate=validate)
            await run.check_reachable(receipt.task_id)
        else:
            receipt = await run.create(request_options, validate=validate)
        await run.wait_and_save(receipt, target)

    return run_with_client(settings, run_state, work, orders=Access.NEW if resume is None else Access.EXISTING)


async def _check(run: CommandRun, request_options: RequestOptions) -> None:
    model = await run.get_model(request_options)
    result = await run.check(request_options, model)
    if result.catalog_error is not None:
        raise result.catalog_error
    pairs = (("model", model),) if result.model is None else model_facts(result.model).pairs
    facts = Facts((("request", "valid" if result.is_ok else "invalid"), *pairs))
    run.screen.show(facts, result.to_dict())
    if result.problems:
        raise InvalidRequestError(
            f"the request would be refused: {'; '.join(result.problems)}", problems=result.problems
        )


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
