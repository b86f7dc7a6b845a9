"""``vidgen create`` and ``generate``: what costs money."""

import uuid
from pathlib import Path

import click
from click.core import ParameterSource

from vidgen_async.cli.command_setup import start
from vidgen_async.cli.commands.account import model_facts
from vidgen_async.cli.operations import Errand, Target
from vidgen_async.cli.options import (
    asks_for_a_video,
    connected,
    force_option,
    no_validate_option,
    not_empty,
    sandbox_option,
)
from vidgen_async.cli.order_id_completion import order_ids
from vidgen_async.cli.request_options import Wanted
from vidgen_async.cli.run_state import Journey
from vidgen_async.cli.service_connection import Access, Settings
from vidgen_async.cli.terminal.exit_reports import EXIT_CODES
from vidgen_async.cli.terminal.json_documents import model_document, receipt_document
from vidgen_async.cli.terminal.result_output import Facts
from vidgen_async.errors import InvalidRequestError

order_id_option = click.option(
    "--order-id",
    metavar="ID",
    callback=not_empty,
    help="Your own lasting name for this video; a new one is made if you give none.",
)


@click.command(epilog=EXIT_CODES)
@asks_for_a_video
@order_id_option
@click.option("--check", "is_check", is_flag=True, help="Only say what speaks against it, and show the model's prices.")
@no_validate_option
@connected(orders=True)
def create(settings: Settings, wanted: Wanted, order_id: str | None, is_check: bool, validate: bool) -> int:
    """Order a video from PROMPT, and print its task id.

    Only the task id goes to stdout; the order id is shown before. The same order id again is the same order: nothing is
    sent twice, and the same task id is printed. With --check nothing is uploaded or ordered.

    \b
      vidgen create "A paper boat sails at dawn" --model gen-2.0 --duration 5
      vidgen create - --model gen-2.0 --order-id order-1187 < prompt.txt
      vidgen create "…" --model vendorh3 --image hero.png --check
      vidgen wait "$(vidgen create "…" --model gen-2.0)" -o boat.mp4
    """
    journey = Journey(order_id=_named(order_id), is_named=order_id is not None, options=settings.options)

    async def work(errand: Errand) -> None:
        receipt = await errand.create(wanted, validate=validate)
        errand.screen.show(receipt.task_id, receipt_document(receipt))

    if is_check:
        return start(settings, Journey(), lambda errand: _check(errand, wanted))
    return start(settings, journey, work, orders=Access.NEW)


@click.command(epilog=EXIT_CODES)
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to save the video (MP4).")
@force_option
@asks_for_a_video
@order_id_option
@click.option(
    "--resume",
    metavar="ORDER",
    callback=not_empty,
    shell_complete=order_ids,
    help="Go on with this order where an earlier run was interrupted.",
)
@no_validate_option
@sandbox_option
@connected(orders=True, polling=True)
def generate(
    settings: Settings,
    wanted: Wanted | None,
    output: str,
    force: bool,
    order_id: str | None,
    resume: str | None,
    validate: bool,
) -> int:
    """Make a video from PROMPT and save it.

    Pictures are uploaded, the video is ordered, waited for and downloaded. The order id and the task id are shown
    before the wait. Ctrl-C at any time: it says what still runs and is charged, and how to go on.

    --resume does what is left of an order: its request is on record, so PROMPT and the options of the request are not
    given again. It never makes a second order.

    \b
      vidgen generate "A paper boat" --image boat.png --sandbox -o boat.mp4
      vidgen generate "…" --model vendorh3 --image a.png --duration 8 -o a.mp4
      vidgen generate --resume order-1187 -o hero.mp4
    """
    target = Target(path=Path(output), may_replace=force)
    journey = Journey(
        order_id=_named(order_id if resume is None else resume),
        is_named=resume is not None or order_id is not None,
        output=output,
        options=(
            *settings.options,
            *(("--force",) if force else ()),
            *(() if validate else ("--no-validate",)),
        ),
        is_sandbox=settings.is_sandbox,
    )
    if wanted is None:
        _refuse_a_request()

    async def work(errand: Errand) -> None:
        if wanted is None:
            await errand.resume(target, validate=validate)
        else:
            await errand.generate(wanted, target, validate=validate)

    return start(settings, journey, work, orders=Access.NEW if resume is None else Access.EXISTING)


def _named(order_id: str | None) -> str:
    return str(uuid.uuid4()) if order_id is None else order_id


async def _check(errand: Errand, wanted: Wanted) -> None:
    found = await errand.check(wanted)
    if found.catalog_error is not None:
        raise found.catalog_error
    facts = Facts(()) if found.model is None else model_facts(found.model)
    answer = Facts((("answer", "fine" if found.is_ok else "refused"), *facts.pairs))
    document = {
        "is_ok": found.is_ok,
        "problems": list(found.problems),
        "model": None if found.model is None else model_document(found.model),
    }
    errand.screen.show(answer, document)
    if found.problems:
        raise InvalidRequestError(f"the request would be refused: {'; '.join(found.problems)}", problems=found.problems)


def _refuse_a_request() -> None:
    """With --resume, whatever would be part of a new request is a mistake: the order's own is on record."""
    context = click.get_current_context()
    resuming = {"output", "force", "resume", "base_url", "journal", "account", "poll_interval", "timeout"}
    resuming |= {"is_json", "is_debug", "validate"}
    given = [
        parameter.human_readable_name if isinstance(parameter, click.Argument) else parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in resuming
        and parameter.name is not None
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        message = f"--resume takes the request from the record: leave out {', '.join(given)}."
        raise click.UsageError(message)
