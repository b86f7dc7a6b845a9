"""The options that several commands share, and the values they are parsed into."""

import functools
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, get_args

import click
from attrs import fields_dict

from vidgen_async.cli.request_options import REQUEST_NAMES, RequestOptions
from vidgen_async.cli.settings import (
    DEFAULT_ACCOUNT,
    ONE_DAY,
    Access,
    Number,
    Settings,
    WholeNumber,
    check_image,
    check_texts,
    problem_of_text,
    read_field,
)
from vidgen_async.errors import ConfigurationError, VidgenError
from vidgen_async.types import Ratio

if TYPE_CHECKING:
    from vidgen_async.cli import run

#: For the annotations of commands: help imports nothing of what runs them.
Run: TypeAlias = "run.Run"
F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]

SECONDS = Number(min=0, min_open=True)
#: The completion of order ids offers at most this many, of the newest ones.
MAX_OFFERED = 50
MAX_SEARCHED = 1000

OUTPUT_HELP = (
    "Where to save the video (MP4): a file, or a directory, which is created if FILE ends with /; - is stdout."
)
json_option = click.option(
    "--json", "is_json", is_flag=True, help="Print results as JSON on stdout, and errors as JSON objects on stderr."
)
#: For commands without log records of the SDK.
traceback_option = click.option("--debug", "is_debug", envvar="VIDGEN_DEBUG", is_flag=True, help="Show tracebacks.")


def refuse_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value, such as an unset variable of a script: it does not mean that the option is missing."""
    if value is not None and not value.strip():
        raise click.UsageError(f"{param.opts[0]}: must not be empty", ctx)
    return value


def check_journal(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a password, which other users could see. So no command that is proposed later contains one."""
    if value is None:
        return None
    has_one = bool(re.search(r"password\s*=", value))
    if value.startswith(("postgresql://", "postgres://")):
        try:
            from vidgen_async.journal import PostgresJournal  # noqa: PLC0415 - help needs no psycopg

            has_one = PostgresJournal(value).has_password
        except ConfigurationError as error:
            raise click.UsageError(f"--journal: {error.message}", ctx) from error
    if has_one:
        message = (
            "--journal: the password cannot be passed as an option, which other users could see: set VIDGEN_JOURNAL or "
            "PGPASSWORD, or use a password file"
        )
        raise click.UsageError(message, ctx)
    return value


_CONNECTION: Sequence[Option[Any]] = (
    click.option(
        "--base-url", metavar="URL", callback=refuse_empty, help="Base URL of the service.  [env var: VIDGEN_BASE_URL]"
    ),
    click.option(
        "--proxy",
        metavar="URL",
        callback=refuse_empty,
        help="Proxy for all requests. Default: HTTPS_PROXY and its like; NO_PROXY='*' ignores them.  "
        "[env var: VIDGEN_PROXY]",
    ),
    click.option(
        "--retry-for",
        type=Number(min=0),
        metavar="S",
        help="Seconds for which failing requests that cost nothing are retried. Default: 5 at a terminal, else 60.",
    ),
    json_option,
    click.option("--debug", "is_debug", envvar="VIDGEN_DEBUG", is_flag=True, help="Show log records and tracebacks."),
)
_ACCOUNT = click.option(
    "--account",
    metavar="NAME",
    default=DEFAULT_ACCOUNT,
    help="Your own name for the account that the orders belong to.",
)
_ORDERS: Sequence[Option[Any]] = (
    click.option(
        "--journal",
        metavar="WHERE",
        callback=check_journal,
        help="Journal of orders: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or memory: to store nothing. "
        "Default: VIDGEN_JOURNAL, else a file in your data directory.",
    ),
    _ACCOUNT,
)
#: For the command that reads task ids from the journal: the option alone means the default journal.
_STORED_TASKS: Sequence[Option[Any]] = (
    click.option(
        "--journal",
        metavar="[WHERE]",
        is_flag=False,
        flag_value="",
        callback=check_journal,
        help="Watch every unfinished task in the journal: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or the "
        "default journal.",
    ),
    _ACCOUNT,
)
_BUDGET: Sequence[Option[Any]] = (
    click.option(
        "--max-points",
        type=WholeNumber(min=0),
        metavar="N",
        help="The budget of the account, for all processes that use the journal: an order is sent only if all of them "
        "cost at most N points.  [env var: VIDGEN_BUDGET]",
    ),
    click.option(
        "--per",
        metavar="DURATION",
        callback=refuse_empty,
        help="Budget: count only orders that were sent in this time: 24h, 30m, 7d. Default: all in the journal.",
    ),
    click.option(
        "--price",
        metavar="NAME",
        callback=refuse_empty,
        help="Budget: the name of a model's price in points (vidgen models).  [env var: VIDGEN_PRICE]",
    ),
)
poll_interval_option = click.option(
    "--poll-interval",
    type=SECONDS,
    metavar="S",
    help="Seconds between two polls of a task. Default: 60, as the service recommends; 1 for a service on this "
    "machine.",
)
_POLLING: Sequence[Option[Any]] = (
    poll_interval_option,
    click.option(
        "--timeout", type=SECONDS, default=ONE_DAY, metavar="S", help="Maximum seconds to wait. Default: one day."
    ),
)
sandbox_option = click.option(
    "--sandbox", "is_sandbox", is_flag=True, help="Use a sandbox on this machine: no key, nothing is charged."
)
force_option = click.option("--force", is_flag=True, help="Replace FILE if it exists; write a video to a terminal.")
no_validate_option = click.option(
    "--no-validate", "validate", flag_value=False, default=True, help="Send the request without validating it first."
)


def execute(command: Callable[..., Coroutine[Any, Any, Any]], settings: Settings, **values: Any) -> int:
    """Run a command with the values of its options. Help and completion import nothing of what runs it."""
    from vidgen_async.cli.command_runner import run_command  # noqa: PLC0415 - as above
    from vidgen_async.cli.run import Run  # noqa: PLC0415 - as above

    return run_command(functools.partial(command, **values), Run(settings=settings))


def connection_options(
    *, orders: bool = False, budget: bool = False, stored_tasks: bool = False, polling: bool = False
) -> Callable[[F], F]:
    """Add options to a coroutine function of a :class:`Run`, or a function of the settings that returns a code."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_settings(**values: Any) -> Any:
            check_texts(click.get_current_context())
            settings = Settings(**{name: values.pop(name) for name in fields_dict(Settings) if name in values})
            if settings.is_sandbox:  # which has all of these itself
                for option in {"--base-url", "--account", "--journal"}.intersection(settings.connection[::2]):
                    raise click.UsageError(f"--sandbox and {option} cannot be combined.")
            return execute(command, settings, **values) if iscoroutinefunction(command) else command(settings, **values)

        journal = _STORED_TASKS if stored_tasks else _ORDERS if orders else ()
        options = (*(_BUDGET if budget else ()), *(_POLLING if polling else ()), *journal, *_CONNECTION)
        return _decorate(options, cast("F", with_settings))

    return decorate


def order_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The newest orders in the journal that begin so, with ids that a shell neither expands nor takes for options."""
    import asyncio  # noqa: PLC0415 - as below

    from vidgen_async.cli.service_connection import open_client  # noqa: PLC0415 - help needs no client

    async def find() -> list[str]:
        named = {name: ctx.params[name] for name in ("base_url", "journal", "account") if ctx.params.get(name)}
        opening = open_client(Settings(**named), Access.EXISTING, lambda _: None, needs_key=False)
        async with opening as (client, *_):
            orders = await client.orders.list(limit=MAX_SEARCHED, newest_first=True)
        return [order.order_id for order in orders if order.order_id.startswith(incomplete)]

    try:
        ids = asyncio.run(find())
    except VidgenError:
        return []
    return [one for one in ids if re.fullmatch(r"[\w%+./:@][\w%+./:=@-]*", one)][:MAX_OFFERED]


class OrderedGroup(click.Group):
    """Lists its commands in the order in which they were added, frequent ones first, and the exit codes below them."""

    def __init__(self, *args: Any, exit_codes: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self._exit_codes = exit_codes

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``help COMMAND`` is ``COMMAND --help``; no arguments are too, for which newer releases of click raise."""
        words = {"help": "--help"} | ({} if ctx.parent else {"version": "--version"})
        args = args or ["help"]
        while args[0] in words:
            args = [*args[1:], words[args[0]]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their complete first sentences, where click would shorten them."""
        with formatter.section("Commands"):
            longest = 200
            formatter.write_dl([(name, self.commands[name].get_short_help_str(longest)) for name in self.commands])
        if self._exit_codes:
            with formatter.section("Exit codes"):
                formatter.write_dl(self._exit_codes)


def repeatable_option(*names: str, help: str, **more: Any) -> Option[Any]:  # noqa: A002 - as click names it
    """An option that may be given several times."""
    return click.option(*names, multiple=True, help=f"{help} May be repeated.", **more)


_REQUEST: Sequence[Option[Any]] = (
    click.argument("prompt", required=False),
    click.option(
        "--prompt-file",
        metavar="FILE",
        callback=refuse_empty,
        help="Read the prompt from FILE; - reads stdin, also as PROMPT.",
    ),
    repeatable_option(
        "--image", "images", type=check_image, metavar="FILE|URL", help="A reference image to upload, or a public URL."
    ),
    repeatable_option("--image-id", "image_ids", metavar="ID", help="The id of an uploaded image (vidgen upload)."),
    repeatable_option("--video-url", "video_urls", metavar="URL", help="A public URL of a reference video."),
    repeatable_option("--audio-url", "audio_urls", metavar="URL", help="A public URL of reference audio."),
    click.option(
        "--model", metavar="ID", help="A model ID (vidgen models). Required if several models fit the request."
    ),
    click.option(
        "--duration", type=WholeNumber(min=1), metavar="S", help="Seconds; vidgen models lists the allowed ones."
    ),
    click.option("--ratio", type=click.Choice(get_args(Ratio)), help="Aspect ratio, width to height."),
    click.option("--resolution", metavar="R", help="A resolution of the model, such as 720p."),
    click.option("--mode", metavar="M", help="A mode of the model; the service does not document the names."),
    repeatable_option(
        "--field", "fields", type=read_field, metavar="NAME=JSON", help="A request field that has no option."
    ),
)


def request_arguments(function: F) -> F:
    """Add the options of a video, as one ``request_options``: None where a stored order is resumed."""

    @functools.wraps(function)
    def with_request_options(**values: Any) -> Any:
        fields = {name: values.pop(name) for name in REQUEST_NAMES}
        is_resumed = values.get("resume") is not None
        return function(request_options=None if is_resumed else _request_options(**fields), **values)

    return _decorate(_REQUEST, cast("F", with_request_options))


def _request_options(
    prompt: str | None, prompt_file: str | None, fields: tuple[tuple[str, object], ...], **more: Any
) -> RequestOptions:
    if prompt is not None and prompt_file is not None:
        raise click.UsageError("PROMPT and --prompt-file cannot be combined.")
    source = "-" if prompt == "-" else prompt_file
    if source is not None:
        prompt = _read(source)
    if prompt is None:
        raise click.UsageError("Missing argument 'PROMPT': a description of the video, or - to read it from stdin.")
    return RequestOptions(prompt=prompt.removesuffix("\n").removesuffix("\r"), fields=dict(fields), **more)


def _read(source: str) -> str:
    """The text of a file, or of stdin for ``-``."""
    place = "stdin" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
        problem = problem_of_text(text)
        if problem is None:
            return text
    except UnicodeDecodeError as error:
        problem = f"it is not {error.encoding.upper()} text"
    except (OSError, ValueError) as error:  # a ValueError: a name with a null character
        problem = getattr(error, "strerror", None) or str(error)
    raise click.UsageError(f"cannot read the prompt from {place}: {problem}")


def _decorate(options: Sequence[Option[F]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function
