"""What the options of a command say: the values of single ones, and the settings of the connection to the service."""

import json
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum, auto
from pathlib import Path
from zoneinfo import ZoneInfo

import click
from attrs import frozen

from vidgen_async.types import Budget

DEFAULT_ACCOUNT = "default"
#: Seconds to wait for tasks, by default.
ONE_DAY = 86_400.0
#: Seconds for which failing requests that cost nothing are retried: usually, and at a terminal.
USUAL_RETRY, TERMINAL_RETRY = 60.0, 5.0
#: Number of orders that a terminal shows.
PAGE = 50

_CREDENTIALS = re.compile(r"^(\w+://)?.*@")


class Access(Enum):
    """What a command does with the journal."""

    NONE = auto()
    TASKS = auto()
    """It reads orders that are named in place of their tasks, if there is a journal that can be read."""
    LOOKUP = auto()
    """It reads orders, if there is a journal."""
    EXISTING = auto()
    """It reads existing orders, or records decisions about them."""
    NEW = auto()
    """It may add an order."""


@frozen(kw_only=True)
class Settings:
    """How to reach the service and what to show. The key is not among them: it is read from VIDGEN_API_KEY only."""

    base_url: str | None = None
    proxy: str | None = None
    account: str = DEFAULT_ACCOUNT
    journal: str | None = None
    poll_interval: float | None = None
    timeout: float = ONE_DAY
    retry_for: float | None = None
    """As requested; None for the default."""
    max_points: int | None = None
    per: str | None = None
    price: str | None = None
    is_sandbox: bool = False
    is_debug: bool = False
    is_json: bool = False
    shows_warnings: bool = True
    """Warn about the base URL and the proxy."""

    @property
    def connection(self) -> tuple[str, ...]:
        """The options that later commands for the same orders have to repeat; no password is shown."""
        proxy = None if self.proxy is None else _CREDENTIALS.sub(r"\1USER:PASSWORD@", self.proxy)
        account = None if self.account == DEFAULT_ACCOUNT else self.account
        options = {"--base-url": self.base_url, "--proxy": proxy, "--account": account, "--journal": self.journal}
        return _as_words(options)

    @property
    def budget(self) -> Budget | None:
        """The budget of the options, or None; UsageError if it is not valid."""
        if self.max_points is None:
            if self.per is not None or self.price is not None:
                raise click.UsageError("--per and --price need --max-points.")
            return None
        price = self.price_name
        if not price:
            raise click.UsageError(
                "--max-points needs --price or VIDGEN_PRICE: the name of a model's price (vidgen models shows them)."
            )
        try:
            budget = Budget.parse(f"{self.max_points}{'' if self.per is None else f'/{self.per}'}", price=price)
        except ValueError as error:
            raise click.UsageError(f"--per is a duration such as 24h, 30m or 7d, not {self.per!r}.") from error
        if problem := budget.find_problem():
            raise click.UsageError(problem.replace("Budget.points", "--max-points").replace("Budget.window", "--per"))
        return budget

    @property
    def price_name(self) -> str | None:
        """The name of a model's price, if one is given."""
        return self.price or os.environ.get("VIDGEN_PRICE")

    @property
    def has_budget(self) -> bool:
        """Whether there is a budget, of the options or of the environment."""
        return self.max_points is not None or bool(os.environ.get("VIDGEN_BUDGET"))

    @property
    def budget_options(self) -> tuple[str, ...]:
        """The options of the budget, which later commands that send the same orders have to repeat."""
        return _as_words({"--max-points": self.max_points, "--per": self.per, "--price": self.price})

    @property
    def is_impatient(self) -> bool:
        """Whether a service that cannot be reached ends a wait: the user waits at a terminal, or has set a limit."""
        return self.retry_for is not None or sys.stderr.isatty()

    @property
    def read_retry(self) -> float:
        """Seconds for which a failing request that costs nothing is retried: for less where the user waits."""
        return self.retry_for if self.retry_for is not None else TERMINAL_RETRY if self.is_impatient else USUAL_RETRY

    @property
    def options(self) -> tuple[str, ...]:
        """The options that a resuming command has to repeat."""
        interval = () if self.poll_interval is None else ("--poll-interval", f"{self.poll_interval:g}")
        return (*self.connection, *interval)


def _as_words(options: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(word for name, value in options.items() if value is not None for word in (name, str(value)))


#: Documented fields that have an option of their own, by the name of the field (2.4).
OPTION_OF = {
    "model": "--model",
    "prompt": "PROMPT",
    "duration": "--duration",
    "seconds": "--duration",
    "aspect_ratio": "--ratio",
    "ratio": "--ratio",
    "resolution": "--resolution",
    "mode": "--mode",
    "image_urls": "--image",
    "image_ids": "--image-id",
    "video_urls": "--video-url",
    "audio_urls": "--audio-url",
}

#: The variables that name the locale; the first that is set counts.
LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
#: Options whose values are paths, or may be: their bytes are used as they are, in any encoding.
PATHS = ("output", "prompt_file", "journal", "jobs", "report")

_AGE = re.compile(r"(\d{1,5})(s|min|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class WholeNumber(click.IntRange):
    """A whole number in a range, named so in messages."""

    name = "whole number"


class Number(click.FloatRange):
    """A number in a range, named so in messages."""

    name = "number"


def is_url(image: str) -> bool:
    """Whether the image goes into image_urls; everything else is a file to upload."""
    return image.lower().startswith(("http://", "https://"))


def problem_of_text(text: str) -> str | None:
    """Why this is no text in the encoding of the locale, of which Python then keeps the bytes; None if it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        found = next((f"{name}={os.environ[name]}" for name in LOCALE if os.environ.get(name)), "no LANG is set")
        encoding = sys.getfilesystemencoding().upper()
        advice = "set LC_ALL to the locale of the text, such as C.UTF-8"
        return f"it is not {encoding} text, which the locale ({found}) requires; {advice}"
    return None


def check_texts(ctx: click.Context) -> None:
    """Refuse values that are not in the encoding of the locale, except paths."""
    for param in ctx.command.params:
        value = ctx.params.get(str(param.name))
        if param.type is not click.STRING or param.name in PATHS or not value:
            continue
        if problem := problem_of_text(value if isinstance(value, str) else " ".join(value)):
            raise click.BadParameter(problem, ctx, param)


def read_field(text: str) -> tuple[str, object]:
    """Parse ``NAME=JSON``, a field of the request that has no option of its own."""
    name, has_value, value = text.partition("=")
    if problem := problem_of_text(text):
        raise click.BadParameter(problem)
    if not has_value or not name.isidentifier():
        raise click.BadParameter("a field has the form NAME=JSON, such as seed=7 or style='\"flat\"'")
    if name in OPTION_OF:
        raise click.BadParameter(f"the field {name} has its own option: {OPTION_OF[name]}")
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise click.BadParameter(
            f"the value of field {name} is not valid JSON. Quote a string twice: --field '{name}=\"text\"'"
        ) from error


def read_shard(text: str) -> tuple[int, int]:
    """Parse ``I/N``, a share of all tasks."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if found is None or int(found[1]) >= int(found[2]):
        raise click.BadParameter(f"a share has the form I/N with I from 0 to N-1, such as 0/3 ({text!r})")
    return int(found[1]), int(found[2])


def check_image(text: str) -> str:
    """Refuse an image that is neither a URL nor an existing file."""
    try:
        is_usable = is_url(text) or Path(text).is_file()
    except OSError as error:  # usually a name that is too long
        raise click.BadParameter(f"cannot read the file {text}: {error.strerror or error}") from error
    if is_url(text) and (problem := problem_of_text(text)):
        raise click.BadParameter(problem)
    if not is_usable:
        raise click.BadParameter(f"there is no such file: {text}")
    return text


def read_age(text: str) -> timedelta:
    """Parse a duration: a number and its unit."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is not a number followed by s, m, h, d or w, such as 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def read_zone(text: str) -> tzinfo:
    """Parse the name of a time zone."""
    try:
        return ZoneInfo(text)
    except (ValueError, KeyError, OSError) as error:  # an OSError: the name of a directory of the database
        raise click.BadParameter(f"{text!r} is not the name of a time zone, such as Europe/Berlin") from error


def read_since(text: str) -> datetime:
    """Parse a moment: a duration ago, or an ISO date or time, which is local unless it names its offset from UTC."""
    try:
        if _AGE.fullmatch(text.strip()):
            return datetime.now(UTC) - read_age(text)
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is neither a duration, such as 5m, 2h or 7d (units: s, m, h, d, w), "
            "nor a date or time, such as 2026-11-29T08:00"
        ) from error
