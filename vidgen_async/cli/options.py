"""The options that several commands share, and what they become: each is described in one place."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from vidgen_async.cli.request_options import Wanted, is_url, read_field
from vidgen_async.cli.service_connection import DEFAULT_ACCOUNT, Settings
from vidgen_async.client import ONE_DAY
from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.validation import RATIOS

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]

SECONDS = click.FloatRange(min=0, min_open=True)

#: What ``--json`` means, for the help of every command.
JSON_HELP = "Print JSON: results on stdout, and on stderr every error as an object."

_CONNECTION: Sequence[Option[Any]] = (
    click.option("--base-url", metavar="URL", help="Where the service is; else VIDGEN_BASE_URL."),
    click.option("--json", "is_json", is_flag=True, help=JSON_HELP),
    click.option("--debug", "is_debug", envvar="VIDGEN_DEBUG", is_flag=True, help="Show what goes on, and tracebacks."),
)
_ACCOUNT = click.option(
    "--account",
    metavar="NAME",
    default=DEFAULT_ACCOUNT,
    help="Your own name for the account whose orders these are.",
)
_ORDERS: Sequence[Option[Any]] = (
    click.option(
        "--journal",
        metavar="WHERE",
        help="The record of orders: sqlite:///FILE, or memory: for none. Else VIDGEN_JOURNAL, else a file of your own.",
    ),
    _ACCOUNT,
)
#: Where to name the record is to ask for what is on it, it need not be said where it is.
_ON_RECORD: Sequence[Option[Any]] = (
    click.option(
        "--journal",
        metavar="[WHERE]",
        is_flag=False,
        flag_value="",
        help="Watch every task on record that was not seen to end: in sqlite:///FILE, else in the usual journal.",
    ),
    _ACCOUNT,
)
_POLLING: Sequence[Option[Any]] = (
    click.option(
        "--poll-interval",
        type=SECONDS,
        metavar="S",
        help="Seconds between two looks at a task: 60, as the service recommends, or 1 on this machine.",
    ),
    click.option("--timeout", type=SECONDS, default=ONE_DAY, metavar="S", help="Seconds to wait at most: a day."),
)
_NAMES = ("base_url", "account", "journal", "poll_interval", "timeout", "is_sandbox", "is_debug", "is_json")

sandbox_option = click.option(
    "--sandbox", "is_sandbox", is_flag=True, help="Use a sandbox on this machine: no key, nothing is charged."
)
force_option = click.option("--force", is_flag=True, help="Replace FILE if it exists.")
no_validate_option = click.option(
    "--no-validate", "validate", flag_value=False, default=True, help="Leave all checks of the request to the service."
)


def connected(*, orders: bool = False, on_record: bool = False, polling: bool = False) -> Callable[[F], F]:
    """The options that say how to reach the service; the command takes them as one ``settings``. ``on_record``: the
    journal of the settings is None where the orders on record are not asked for, and empty for the usual one."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_settings(**given: Any) -> Any:
            known = {name: given.pop(name) for name in _NAMES if name in given}
            if known.get("is_sandbox") and known.get("base_url") is not None:
                message = "--sandbox and --base-url exclude each other."
                raise click.UsageError(message)
            return command(settings=Settings(**known), **given)

        of_orders = _ON_RECORD if on_record else _ORDERS if orders else ()
        options = (*(_POLLING if polling else ()), *of_orders, *_CONNECTION)
        return _with(options, cast("F", with_settings))

    return decorate


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty name: an unset variable of a script would else be taken for no name at all."""
    if value is not None and not value.strip():
        message = f"{param.opts[0]}: must not be empty"
        raise click.UsageError(message, ctx)
    return value


class InOrder(click.Group):
    """Lists its commands as they were added: the usual ones first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Picture(click.ParamType):  # type: ignore[type-arg] # older ones are not generic
    """A file to upload, which must exist, or a public URL."""

    name = "file or url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            is_usable = is_url(value) or Path(value).is_file()
        except OSError as error:  # above all a name that is too long
            self.fail(f"the file {value} cannot be read: {error.strerror or error}", param, ctx)
        if not is_usable:
            self.fail(f"there is no such file: {value}", param, ctx)
        return value


class Upload(Picture):
    """A file to upload, which must exist, or the service's own address of one."""

    name = "file"


class Field(click.ParamType):  # type: ignore[type-arg] # older ones are not generic
    """A field of the request without an option of its own."""

    name = "field"

    def convert(
        self, value: str | tuple[str, object], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        if isinstance(value, tuple):
            return value
        try:
            return read_field(value)
        except InvalidRequestError as error:
            self.fail(error.message, param, ctx)


_REQUEST: Sequence[Option[Any]] = (
    click.argument("prompt", required=False),
    click.option("--prompt-file", metavar="FILE", help="Read the prompt from a file; as PROMPT, - reads stdin."),
    click.option(
        "--image",
        "pictures",
        type=Picture(),
        multiple=True,
        metavar="FILE|URL",
        help="A reference picture: a file, which is uploaded, or a public URL. May be repeated.",
    ),
    click.option(
        "--image-id",
        "image_ids",
        multiple=True,
        metavar="ID",
        help="A picture that was uploaded before (vidgen upload). May be repeated.",
    ),
    click.option(
        "--video-url",
        "video_urls",
        multiple=True,
        metavar="URL",
        help="A public video as a reference. May be repeated.",
    ),
    click.option(
        "--audio-url",
        "audio_urls",
        multiple=True,
        metavar="URL",
        help="A public sound as a reference. May be repeated.",
    ),
    click.option(
        "--model", metavar="ID", help="A model ID (vidgen models). Needed where several fit: their prices differ."
    ),
    click.option("--duration", type=click.IntRange(min=1), metavar="S", help="Seconds; vidgen models says which."),
    click.option("--ratio", type=click.Choice(RATIOS), help="Width to height."),
    click.option("--resolution", metavar="R", help="A resolution of the model, such as 720p."),
    click.option("--mode", metavar="M", help="A mode of the model; the service does not list them."),
    click.option(
        "--field",
        "fields",
        type=Field(),
        multiple=True,
        metavar="NAME=JSON",
        help="A field of the request without an option here. May be repeated.",
    ),
)
_REQUEST_NAMES = (
    "prompt",
    "prompt_file",
    "pictures",
    "image_ids",
    "video_urls",
    "audio_urls",
    "model",
    "duration",
    "ratio",
    "resolution",
    "mode",
    "fields",
)


def asks_for_a_video(function: F) -> F:
    """The options that make a request; the command takes them as one ``wanted``, which is None where an order is
    resumed: its request is on record."""

    @functools.wraps(function)
    def with_wanted(**given: Any) -> Any:
        asked = {name: given.pop(name) for name in _REQUEST_NAMES}
        is_resumed = given.get("resume") is not None
        return function(wanted=None if is_resumed else _wanted(**asked), **given)

    return _with(_REQUEST, cast("F", with_wanted))


def _wanted(prompt: str | None, prompt_file: str | None, fields: tuple[tuple[str, object], ...], **more: Any) -> Wanted:
    if prompt is not None and prompt_file is not None:
        message = "PROMPT and --prompt-file exclude each other."
        raise click.UsageError(message)
    if "-" in (prompt, prompt_file):
        prompt = sys.stdin.read()
    elif prompt_file is not None:
        prompt = _read(Path(prompt_file))
    if prompt is None:
        message = "Missing argument 'PROMPT': what the video is to show."
        raise click.UsageError(message)
    return Wanted(prompt=prompt.removesuffix("\n").removesuffix("\r"), fields=dict(fields), **more)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        message = f"the prompt cannot be read from {file}: {reason}"
        raise click.UsageError(message) from error


def _with(options: Sequence[Option[F]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function
