"""What the options of a command say about the connection to the service, and what it does with the journal."""

import re
import sys
from enum import Enum, auto

from attrs import frozen

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
        return tuple(word for name, value in options.items() if value is not None for word in (name, value))

    @property
    def is_impatient(self) -> bool:
        """Whether a service that cannot be reached ends a wait: the user waits at a terminal, or has set a limit."""
        return self.retry_for is not None or sys.stderr.isatty()

    @property
    def options(self) -> tuple[str, ...]:
        """The options that a resuming command has to repeat."""
        interval = () if self.poll_interval is None else ("--poll-interval", f"{self.poll_interval:g}")
        return (*self.connection, *interval)
