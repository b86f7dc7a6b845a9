"""The cassette of a test, from its setup to its teardown."""

from pathlib import Path

from attrs import mutable

from vidgen_async.cassette import load
from vidgen_async.errors import CassetteBusyError, CassetteError
from vidgen_async.pytest_plugin.cassette_handle import VidgenCassette
from vidgen_async.transports import ReplayTransport


@mutable(eq=False)
class Session:
    """The cassette of a running test."""

    cassette: VidgenCassette
    allow_unused: bool
    has_passed: bool = False
    is_busy: bool = False
    """Whether another recording of it is in progress: the ``part`` file then belongs to that one."""
    recorded: int | None = None
    """The number of interactions on the published cassette."""

    @property
    def misses(self) -> list[CassetteError]:
        """The errors of requests that are not on a replayed cassette."""
        transport = self.cassette.transport
        return transport.misses if isinstance(transport, ReplayTransport) else []

    @property
    def part(self) -> Path | None:
        """The file of the unpublished recording, if there is one."""
        transport = self.cassette.transport
        if isinstance(transport, ReplayTransport) or self.is_busy or self.recorded is not None:
            return None
        return transport.part if transport.part.exists() else None

    def record_outcome(self, outcome: str, error: BaseException | None) -> None:
        """Called with the outcome of the test."""
        self.has_passed = outcome == "passed"
        self.is_busy = isinstance(error, CassetteBusyError)

    def end(self) -> None:
        """Called when all fixtures are torn down. If the test has passed, misses and unused interactions of a replay
        are raised, and a recording is published; otherwise it is not published, and the old cassette stays."""
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
