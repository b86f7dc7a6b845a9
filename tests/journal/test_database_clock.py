"""The difference between the clock of a database and that of this machine, in virtual time."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from attrs import Factory, define

from vidgen_async.journal.postgres import database_clock
from vidgen_async.journal.postgres.database_clock import DatabaseClock

START = 1_900_000_000.0


@define
class Host:
    """A machine, and a database whose clock is right."""

    ahead: float = 0.0
    """Seconds by which the clock of the machine is wrong."""
    now: float = START
    asleep: float = 0.0
    """Seconds for which the monotonic clock stood still."""
    delays: list[float] = Factory(list)
    """How long the responses to the next queries take; the others take a millisecond."""
    queries: int = 0

    def wall(self) -> float:
        return self.now + self.ahead

    def monotonic(self) -> float:
        return self.now - self.asleep

    def suspend(self, seconds: float) -> None:
        self.now += seconds
        self.asleep += seconds

    def execute(self, statement: str) -> "Host":
        self.queries += 1
        return self

    def fetchone(self) -> dict[str, int]:
        row = {"micros": round(self.now * 1e6)}
        self.now += self.delays.pop(0) if self.delays else 0.001
        return row


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setattr(database_clock, "time", SimpleNamespace(monotonic=host.monotonic))
    return host


@pytest.fixture
def clock(host: Host) -> DatabaseClock:
    return DatabaseClock(host.wall)


def seconds(shift: timedelta) -> float:
    return shift.total_seconds()


@pytest.mark.parametrize("ahead", [0.0, 0.02, -0.02])
def test_clocks_that_hardly_differ_are_the_same(host, clock, ahead):
    host.ahead = ahead
    assert clock.read_shift(host) == timedelta(0)


def test_the_difference_is_measured_again_after_ten_seconds_and_stays_exactly_the_same(host, clock):
    host.ahead = 400.0
    first = clock.read_shift(host)
    assert seconds(first) == pytest.approx(-400.0, abs=0.001)
    for _ in range(4):
        host.now += 3.0
        host.ahead += 0.001
        assert clock.read_shift(host) == first
    assert host.queries == 2


@pytest.mark.parametrize("delays", [[3.0], [3.0, 8.0], [0.06]])
def test_a_slow_response_is_not_used(host, clock, delays):
    host.ahead, host.delays = -1.4, delays
    queries = len(delays) + 1
    assert seconds(clock.read_shift(host)) == pytest.approx(1.4, abs=0.001)
    assert host.queries == queries


def test_if_all_responses_are_slow_the_most_exact_measurement_is_used(host, clock):
    host.ahead, host.delays = -1.4, [0.5, 0.3, 0.4]
    assert seconds(clock.read_shift(host)) == pytest.approx(1.4, abs=0.15)
    assert host.queries == 3


def test_a_slow_network_proves_no_difference_between_clocks_that_are_the_same(host, clock):
    host.delays = [0.5, 0.3, 0.4]
    assert clock.read_shift(host) == timedelta(0)


def test_what_is_known_is_used_until_slow_responses_disprove_it(host, clock):
    host.ahead = -1.4
    known = clock.read_shift(host)
    host.now, host.delays = host.now + 11.0, [4.0, 4.0, 4.0]
    assert clock.read_shift(host) == known
    host.ahead, host.delays = -400.0, [4.0, 4.0, 4.0]
    assert seconds(clock.read_shift(host)) == pytest.approx(400.0, abs=2.0)


def test_the_difference_is_measured_again_after_a_suspension(host, clock):
    clock.read_shift(host)
    host.suspend(600.0)
    host.ahead = -400.0  # of a machine whose clock stood still for some of the time
    assert seconds(clock.read_shift(host)) == pytest.approx(400.0, abs=0.001)


def test_a_suspension_during_the_query_is_noticed(host, clock):
    class Suspended:
        def execute(self, statement: str) -> Host:
            if host.queries == 0:
                host.suspend(600.0)
            return host.execute(statement)

    assert clock.read_shift(Suspended()) == timedelta(0)
    assert host.queries == 2


@pytest.mark.parametrize("by", [-400.0, -0.05, 0.05, 400.0])
def test_the_difference_is_measured_again_after_the_clock_of_the_machine_was_set(host, clock, by):
    assert clock.read_shift(host) == timedelta(0)
    host.ahead = by
    assert seconds(clock.read_shift(host)) == pytest.approx(-by, abs=0.001)


def test_a_better_measurement_of_another_thread_is_not_replaced(host, clock):
    host.ahead = -1.4

    class OtherThread:
        """Measures between the queries of the first thread, which are slow."""

        def execute(self, statement: str) -> Host:
            clock.read_shift(host)
            host.delays = [0.4]
            return host.execute(statement)

    assert seconds(clock.read_shift(OtherThread())) == pytest.approx(1.4, abs=0.001)
    queries = host.queries
    assert seconds(clock.read_shift(host)) == pytest.approx(1.4, abs=0.001)
    assert host.queries == queries
    assert clock._latest.error < 0.001
