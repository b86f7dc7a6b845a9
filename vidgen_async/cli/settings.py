"""What the options of a command say about the connection to the service, and what it does with the journal."""

import os
import re
import sys
from collections.abc import Mapping
from enum import Enum, auto

import click
from attrs import frozen

from vidgen_async.types import Budget

DEFAULT_ACCOUNT = "default"
#: Seconds to wait for tasks, by default.
ONE_DAY = 86_400.0
#: Number of orders that a terminal shows.
PAGE = 50

_CREDENTIALS = re.compile(r"^(\w+://)?.*@")


class Access(Enum):
    """What a command does with the journal."""

    NONE = auto()
    LOOKUP = auto()
    """It reads orders that are named in place of their tasks, if there is a journal."""
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
        options = {
            "--base-url": self.base_url,
            "--proxy": proxy,
            "--account": account,
            "--journal": self.journal,
        }
        return _as_words(options)

    @property
    def budget(self) -> Budget | None:
        """The budget of the options; without one, the client has that of the environment.

        Raises:
            UsageError: It is not valid.
        """
        if self.max_points is None:
            if self.per is not None or self.price is not None:
                raise click.UsageError("--per and --price need --max-points.")
            return None
        price = self.price or os.environ.get("VIDGEN_PRICE")
        if not price:
            message = (
                "--max-points needs --price or VIDGEN_PRICE: the name of a model's price (vidgen models shows them)."
            )
            raise click.UsageError(message)
        try:
            budget = Budget.parse(f"{self.max_points}{'' if self.per is None else f'/{self.per}'}", price=price)
        except ValueError as error:
            raise click.UsageError(f"--per is a duration such as 24h, 30m or 7d, not {self.per!r}.") from error
        if problem := budget.find_problem():
            raise click.UsageError(problem.replace("Budget.points", "--max-points").replace("Budget.window", "--per"))
        return budget

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
    def options(self) -> tuple[str, ...]:
        """The options that a resuming command has to repeat."""
        interval = () if self.poll_interval is None else ("--poll-interval", f"{self.poll_interval:g}")
        return (*self.connection, *interval)


def _as_words(options: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(word for name, value in options.items() if value is not None for word in (name, str(value)))
