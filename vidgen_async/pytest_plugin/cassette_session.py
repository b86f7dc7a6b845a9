"""What becomes of the cassette of a test."""

from pathlib import Path

from attrs import mutable

from vidgen_async.cassette import load
from vidgen_async.errors import CassetteBusyError, CassetteError
from vidgen_async.pytest_plugin.cassette_handle import VidgenCassette
from vidgen_async.transports import ReplayTransport


@mutable(eq=False)
class Session:
    """A cassette while its test runs, and at its end."""

    cassette: VidgenCassette
    allow_unused: bool
    has_passed: bool = False
    is_busy: bool = False
    """Whether another recording of it is under way: the part file is then not ours."""
    recorded: int | None = None
    """How many interactions are on the cassette that was published."""

    @property
    def misses(self) -> list[CassetteError]:
        """What a replay was asked for and had not."""
        transport = self.cassette.transport
        return transport.misses if isinstance(transport, ReplayTransport) else []

    @property
    def part(self) -> Path | None:
        """The recording that is not published, if there is one."""
        transport = self.cassette.transport
        if isinstance(transport, ReplayTransport) or self.is_busy or self.recorded is not None:
            return None
        return transport.part if transport.part.exists() else None

    def saw(self, outcome: str, error: BaseException | None) -> None:
        """The test was run, and this came of it."""
        self.has_passed = outcome == "passed"
        self.is_busy = isinstance(error, CassetteBusyError)

    def end(self) -> None:
        """When all that the test had set up is torn down. If it has passed, a replay's misses and leftovers are raised
        and a recording is published; if not, a recording is left as it is, and so is the old cassette."""
        transport = self.cassette.transport
        if isinstance(transport, ReplayTransport):
            if self.has_passed:
                transport.check(allow_unused=self.allow_unused)
        elif not self.has_passed:
            transport.give_up()
        else:
            try:
                transport.publish()
            except BaseException:
                transport.give_up()
                raise
            self.recorded = len(load(self.cassette.path).interactions)
