"""What creates count for in a budget, and the limit that a journal applies in the commit of an attempt."""

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import psycopg
import pytest
from attrs import evolve

from tests.journal.conftest import (
    ACCOUNT,
    DEADLINE,
    NOW,
    SERVICE,
    accepted,
    after,
    evidence,
    order_of,
    permission,
    ref_of,
    rejected,
    rows,
    uncertain,
)
from vidgen_async.errors import JournalError
from vidgen_async.journal import Journal, MemoryJournal, MustWait, OrderChanged
from vidgen_async.journal.base import OverBudget
from vidgen_async.journal.sqlite import schema
from vidgen_async.journal.sqlite.file_lock import transaction
from vidgen_async.types.limits import DAY, MINUTE, LimitState, Spending, SpendingLimit
from vidgen_async.types.orders import (
    Attempt,
    AttemptOutcome,
    Closing,
    Evidence,
    OrderState,
    OrderSummary,
    Permission,
    TaskResult,
)

ANY = frozenset(OrderState)
ALL_TIME = SpendingLimit(points=100, window=None, unknown=None)
ONE_DAY = SpendingLimit(points=100, window=float(DAY), unknown=None)


def asking(order_id: str = "o", *limits: SpendingLimit, reserved: int | None = 20, **more: object) -> Permission:
    return evolve(permission(order_id, limit=10**6, **more), reserved=reserved, limits=limits)


async def begin(journal: Journal, order_id: str = "o", *limits: SpendingLimit, **more: object) -> Attempt:
    await journal.intend(order_of(order_id))
    return await journal.begin(asking(order_id, *limits, **more))


async def adopt(journal: Journal, order_id: str, task_id: str, now: datetime = NOW, reserved: int = 20) -> None:
    task = Attempt(n=0, sent_at=now, deadline_at=now, kind="adopt", reserved=reserved, evidence=accepted(task_id, now))
    await journal.adopt(ref_of(order_id), task, ANY)


async def end(journal: Journal, task_id: str, points: int | None, *, status: str = "completed") -> None:
    await journal.record(SERVICE, [TaskResult(task_id=task_id, status=status, at=NOW, points=points)])


async def read(
    journal: Journal, limit: SpendingLimit = ALL_TIME, *, now: datetime = NOW, asked: int | None = 0
) -> LimitState:
    (state,) = await journal.spending(SERVICE, ACCOUNT, [limit], asked, now)
    return state


# -- what counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "spending"),
    [
        (None, Spending(reserved=20)),
        (uncertain(), Spending(reserved=20)),
        (accepted(), Spending(reserved=20)),
        (rejected(), Spending()),
        (evidence(AttemptOutcome.NOT_SENT), Spending()),
    ],
    ids=["sending", "uncertain", "accepted", "rejected", "not sent"],
)
async def test_an_attempt_counts_unless_it_certainly_cost_nothing(journal, found, spending):
    await begin(journal)
    if found is not None:
        await journal.settle(ref_of(), 1, found)
    assert (await read(journal)).spending == spending


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_the_points_of_a_task_replace_what_was_reserved(journal, status):
    await begin(journal)
    await journal.settle(ref_of(), 1, accepted())
    await end(journal, "task-1", None, status=status)
    assert (await read(journal)).spending == Spending(reserved=20)
    await begin(journal, "other")
    await journal.settle(ref_of("other"), 1, accepted("task-2"))
    await end(journal, "task-2", 15, status=status)
    assert (await read(journal)).spending == Spending(spent=15, reserved=20)


@pytest.mark.parametrize("points", [-5, 10**12 + 1, 2**62, 2**70])
async def test_points_that_no_task_can_cost_count_as_what_was_reserved(journal, points):
    await begin(journal)
    await journal.settle(ref_of(), 1, accepted())
    await end(journal, "task-1", points)
    assert (await read(journal)).spending == Spending(reserved=20)


async def test_an_attempt_without_an_estimate_counts_as_unknown_until_its_points_are_known(journal):
    await begin(journal, reserved=None)
    assert (await read(journal)).spending == Spending(unknown=1)
    await journal.settle(ref_of(), 1, accepted())
    await end(journal, "task-1", 0)
    assert (await read(journal)).spending == Spending()


async def test_a_late_receipt_an_abandoned_order_and_an_adopted_task_count(journal):
    for name in ("late", "given up", "adopted"):
        await begin(journal, name)
        await journal.settle(ref_of(name), 1, uncertain())
    await journal.settle(ref_of("late"), 1, accepted("task-1", after(9)))
    closing = Closing(state=OrderState.ABANDONED, at=NOW, reason="given up")
    await journal.close_order(ref_of("given up"), closing, ANY)
    await adopt(journal, "adopted", "task-2")
    await end(journal, "task-1", 7)
    await end(journal, "task-2", 11)
    assert (await read(journal)).spending == Spending(spent=18, reserved=20)


@pytest.mark.parametrize("way", ["settle", "settle_mark", "confirm", "adopt"])
async def test_each_way_in_which_a_receipt_comes_later_leads_to_one_counted_task(journal, way):
    await begin(journal, mark="m")
    await journal.settle(ref_of(), 1, uncertain(candidates=("task-1",)))
    await journal.close_order(ref_of(), Closing(state=OrderState.ABANDONED, at=NOW, reason="given up"), ANY)
    assert (await read(journal)).spending == Spending(reserved=20)
    if way == "adopt":
        await adopt(journal, "o", "task-1")
    else:
        await getattr(journal, way)(ref_of(), "m" if way == "settle_mark" else 1, accepted())
    assert (await read(journal)).spending == Spending(reserved=20)
    await end(journal, "task-1", 15)
    assert (await read(journal)).spending == Spending(spent=15)
    assert [each.tasks async for each in journal.spend(SERVICE, ACCOUNT, None)] == [1]


@pytest.mark.parametrize("outcome", ["uncertain", "sending"])
async def test_an_adopted_task_is_that_of_the_latest_attempt_without_outcome(journal, outcome):
    await begin(journal, reserved=1)
    for n in (1, 2):
        await journal.settle(ref_of(), n, uncertain())
        await journal.begin(asking(expect_attempt=n, states=ANY, reserved=10**n))
    if outcome == "uncertain":
        await journal.settle(ref_of(), 3, uncertain())
    await adopt(journal, "o", "task-1", reserved=1000)
    assert (await read(journal)).spending == Spending(reserved=1011)
    rows = [(each.state, each.tasks, each.spending.reserved) async for each in journal.spend(SERVICE, ACCOUNT, None)]
    assert [row for row in rows if row[0] == "accepted"] == [("accepted", 1, 1000)]
    assert sum(reserved for state, _, reserved in rows if state == "uncertain") == 11
    await adopt(journal, "o", "task-2", reserved=1000)
    assert (await read(journal)).spending == Spending(reserved=2001)
    await journal.settle(ref_of(), 3, rejected())  # so those of the other two were adopted
    assert (await read(journal)).spending == Spending(reserved=2000)
    await journal.verify_spending(SERVICE, ACCOUNT)
    assert (await read(journal)).spending == Spending(reserved=2000)


@pytest.mark.parametrize("late", ["task-1", "task-2"])
async def test_a_late_receipt_is_that_of_an_adopted_task_or_of_another_one(journal, late):
    """What else counts is the other attempt, which may have made a task too, or the other task."""
    await begin(journal)
    await journal.settle(ref_of(), 1, uncertain())
    await journal.begin(asking(expect_attempt=1, states=ANY))
    await journal.settle(ref_of(), 2, uncertain())
    await adopt(journal, "o", "task-1")
    await end(journal, "task-1", 15)
    assert (await read(journal)).spending == Spending(spent=15, reserved=20)
    await journal.settle(ref_of(), 2, accepted(late))
    assert (await read(journal)).spending == Spending(spent=15, reserved=20)


async def test_a_resend_reserves_again_and_a_task_counts_once(journal):
    await begin(journal)
    await journal.settle(ref_of(), 1, uncertain())
    await journal.begin(asking(expect_attempt=1, states=ANY))
    assert (await read(journal)).spending == Spending(reserved=40)
    await journal.settle(ref_of(), 2, accepted())
    await journal.settle(ref_of(), 1, accepted())  # the service returns the task of the first send
    assert (await read(journal)).spending == Spending(reserved=20)
    await end(journal, "task-1", 15)
    assert (await read(journal)).spending == Spending(spent=15)


async def test_other_accounts_do_not_count(journal):
    await journal.intend(order_of(account="another"))
    await journal.begin(evolve(permission(account="another"), reserved=20))
    assert (await read(journal)).spending == Spending()


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_a_limit_is_applied_in_the_commit_of_the_attempt(journal):
    for number in range(5):
        await begin(journal, f"order-{number}", ALL_TIME)
    with pytest.raises(OverBudget) as answer:
        await begin(journal, "one too many", ALL_TIME)
    assert answer.value.state == LimitState(ALL_TIME, Spending(reserved=100), is_allowed=False)
    order = await journal.get(ref_of("one too many"), NOW)
    assert (order.state, order.attempts) == (OrderState.QUEUED, ())
    await journal.settle(ref_of("order-0"), 1, rejected())
    assert (await journal.begin(asking("one too many", ALL_TIME))).reserved == 20


async def test_each_of_several_limits_must_allow_the_attempt(journal):
    await begin(journal, "first", ONE_DAY)
    with pytest.raises(OverBudget) as answer:
        await begin(journal, "second", ONE_DAY, evolve(ONE_DAY, points=30))
    assert answer.value.state.limit.points == 30


@pytest.mark.parametrize(("unknown", "is_allowed"), [(None, False), (40, True), (81, False)])
async def test_unknown_creates_count_for_what_the_limit_states_or_must_not_be(journal, unknown, is_allowed):
    await begin(journal, reserved=None)
    assert (await read(journal, evolve(ALL_TIME, unknown=unknown), asked=20)).is_allowed is is_allowed
    assert (await read(journal, evolve(ALL_TIME, unknown=unknown), asked=None)).is_allowed is (unknown == 40)


async def test_room_comes_free_when_the_minute_of_an_attempt_has_left_the_window(journal):
    for seconds in (30, 90, 150):
        await begin(journal, f"at {seconds}", now=after(seconds), reserved=40)
    state = await read(journal, ONE_DAY, now=after(200), asked=60)
    assert state == LimitState(ONE_DAY, Spending(reserved=120), is_allowed=False, room_at=after(DAY + 2 * MINUTE))
    assert not (await read(journal, ONE_DAY, now=state.room_at - timedelta(seconds=1), asked=60)).is_allowed
    assert (await read(journal, ONE_DAY, now=state.room_at, asked=60)).is_allowed
    assert (await read(journal, ONE_DAY, now=after(200), asked=101)).room_at is None
    assert (await read(journal, ALL_TIME, now=after(200), asked=60)).room_at is None


async def test_an_attempt_in_the_future_counts_after_the_clock_was_set_back(journal):
    await begin(journal, now=after(3 * DAY))
    for window in (60.0, float(DAY), None):
        assert (await read(journal, evolve(ONE_DAY, window=window))).spending == Spending(reserved=20)


# -- the sums and the attempts -----------------------------------------------------------------------------------------


class History:
    """Random operations on several journals, the same on each."""

    def __init__(
        self,
        seed: int,
        *,
        orders: int = 12,
        tasks: int = 9,
        seconds: Sequence[int] = (-3600, 0, 1, 45, 3600, 40000),
        adopts: bool = False,
    ) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - a repeatable history
        self._orders, self._tasks, self._seconds = orders, tasks, seconds
        self._kinds = ["begin", "begin", "settle", "settle", "record", "get", *(["adopt"] * adopts)]
        self.now = NOW

    async def step(self, *journals: Journal, limits: Sequence[SpendingLimit] = ()) -> None:
        rng = self._rng
        self.now += timedelta(seconds=rng.choice(self._seconds))
        name, n = f"order-{rng.randrange(self._orders)}", rng.randint(1, 2)
        news = rng.choice(
            [uncertain(self.now), rejected(self.now), evidence(AttemptOutcome.NOT_SENT, self.now)]
            + [accepted(f"task-{rng.randrange(self._tasks)}", self.now)] * 3
        )
        result = TaskResult(
            task_id=f"task-{rng.randrange(self._tasks)}",
            status="completed",
            at=self.now,
            points=rng.choice([None, -1, 0, 5, 30]),
        )
        wish = asking(
            name,
            *limits,
            expect_attempt=rng.randrange(3),
            states=ANY,
            now=self.now,
            reserved=rng.choice([None, 0, 20]),
            reason=" ".join(str(limit.points) for limit in limits),
        )
        kind = rng.choice(self._kinds)
        for journal in journals:
            await journal.intend(order_of(name))
            with suppress(OrderChanged, MustWait, JournalError):  # such an attempt may not exist
                await self._do(journal, kind, name, n, news, result, wish)

    async def _do(
        self, journal: Journal, kind: str, name: str, n: int, news: Evidence, result: TaskResult, wish: Permission
    ) -> None:
        match kind:
            case "begin":
                await journal.begin(wish)
            case "settle":
                await journal.settle(ref_of(name), n, news)
            case "record":
                await journal.record(SERVICE, [result])
            case "adopt":
                await adopt(journal, name, result.task_id, self.now)
            case _:
                await journal.get(ref_of(name), self.now + DEADLINE * 2)


async def join(journal: Journal, since: datetime | None) -> Spending:
    """What the attempts since then count for, from the orders themselves."""
    total, tasks = Spending(), set()
    receipts = []
    for order in await journal.list(SERVICE, ACCOUNT, NOW - timedelta(days=999)):
        for attempt in order.attempts:
            task_id = attempt.evidence.task_id if attempt.evidence is not None else None
            if task_id is not None:
                receipts.append((attempt, order, task_id))
            elif since is None or attempt.sent_at >= since:
                total += attempt.compute_cost(order.results) or Spending()
    for attempt, order, task_id in receipts:
        if task_id not in tasks and (since is None or attempt.sent_at >= since):
            total += attempt.compute_cost(order.results) or Spending()
        tasks.add(task_id)
    return total


@pytest.mark.parametrize("seed", range(4))
async def test_the_sums_of_a_random_history_are_those_of_the_attempts(open_journal, seed):
    history, journal, memory = History(seed, adopts=True), open_journal(), MemoryJournal()
    for _ in range(120):
        await history.step(journal, memory)
    for window in (None, 60.0, 5000.0, float(DAY), 3.3 * DAY, 30.0 * DAY):
        for now in (history.now, history.now - timedelta(days=1.7)):
            limit = evolve(ONE_DAY, window=window)
            found = (await read(journal, limit, now=now)).spending
            assert found == (await read(memory, limit, now=now)).spending
    await journal.verify_spending(SERVICE, ACCOUNT)
    assert (await read(journal)).spending == (await read(memory)).spending


@pytest.mark.parametrize("seed", range(3))
async def test_the_spend_and_the_summaries_of_a_random_history_are_those_of_the_orders(open_journal, monkeypatch, seed):
    monkeypatch.setattr("vidgen_async.journal.sql.journal.SPEND_PAGE", 5)
    monkeypatch.setattr("vidgen_async.journal.sql.journal.LIST_PAGE", 5)
    history, journal, memory = History(seed, adopts=True), open_journal(), MemoryJournal()
    for _ in range(120):
        await history.step(journal, memory)
    for since in (None, NOW + timedelta(days=2)):
        assert await spend(journal, since) == await spend(memory, since) != {}
    order_ids = [f"order-{number}" for number in range(14)]
    at = history.now + DEADLINE * 3
    for found in (
        await journal.summaries(SERVICE, ACCOUNT, order_ids, at),
        await journal.summaries(SERVICE, ACCOUNT, [], at),
    ):
        orders = [await journal.get(ref_of(summary.order_id), at) for summary in found]
        assert found == [OrderSummary.of(order) for order in orders]
    assert len(await memory.summaries(SERVICE, ACCOUNT, order_ids, at)) == 12


async def spend(journal: Journal, since: datetime | None) -> dict[object, Spending]:
    total: dict[object, Spending] = {}
    async for each in journal.spend(SERVICE, ACCOUNT, since):
        row = (each.model, each.state, each.start)
        for key, value in ((row, each.spending), (("counts", *row), Spending(each.attempts, each.tasks))):
            total[key] = total.get(key, Spending()) + value
    return total


@pytest.mark.parametrize("seed", range(3))
async def test_the_first_minute_of_a_window_counts_completely_and_no_earlier_one(open_journal, seed):
    history, journal = History(seed), open_journal()
    for number in range(40):
        history.now += timedelta(seconds=history._rng.choice([7, 100, 20000]))
        await begin(journal, f"order-{number}", now=history.now, reserved=number)
    for seconds in (60.0, 3000.0, float(DAY), 2.5 * DAY):
        now = history.now
        counted = (await read(journal, evolve(ONE_DAY, window=seconds), now=now)).spending.reserved
        least = (await join(journal, now - timedelta(seconds=seconds))).reserved
        most = (await join(journal, now - timedelta(seconds=seconds + MINUTE))).reserved
        assert least <= counted <= most
        for points in range(0, counted, 89):
            limit = evolve(ONE_DAY, window=seconds, points=points)
            room_at = (await read(journal, limit, now=now, asked=0)).room_at
            assert (await read(journal, limit, now=room_at, asked=0)).is_allowed
            assert not (await read(journal, limit, now=room_at - timedelta(seconds=1), asked=0)).is_allowed


async def test_what_was_written_without_triggers_is_corrected(open_file, path):
    journal = open_file()
    for name in ("settled", "rejected"):
        await begin(journal, name)
    await journal.settle(ref_of("settled"), 1, accepted())

    def write(db) -> None:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        with transaction(db, "IMMEDIATE"):
            for row in triggers:
                db.execute(f"DROP TRIGGER {row['name']}")
            db.execute("INSERT INTO results SELECT :s, 'task-1', 'completed', 0, 15, NULL", {"s": SERVICE})
            db.execute("UPDATE spending SET estimated = 3, unknown = 4")
            db.execute("DELETE FROM spending WHERE seconds = 60")
            for row in triggers:
                db.execute(row["sql"])

    await journal._run(write)
    assert (await read(journal)).spending == Spending(reserved=3, unknown=4)
    await journal.verify_spending(SERVICE, ACCOUNT)
    for limit in (ALL_TIME, ONE_DAY):
        assert (await read(journal, limit)).spending == Spending(spent=15, reserved=20)
    changes = await journal._run(lambda db: db.total_changes)
    await journal.verify_spending(SERVICE, ACCOUNT)
    assert await journal._run(lambda db: db.total_changes) == changes


async def test_a_replica_role_writes_without_triggers_which_is_corrected(open_database, postgres):
    journal = open_database()
    await begin(journal)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET search_path = tests")
        connection.execute("UPDATE attempts SET estimated = 1")
    assert (await read(journal)).spending == Spending(reserved=20)
    await journal.verify_spending(SERVICE, ACCOUNT)
    assert (await read(journal)).spending == Spending(reserved=20)
    assert await costs(postgres) == {"estimated": 20, "spent": 0, "unknown": 0}


async def costs(postgres: str) -> Mapping[str, int]:
    with psycopg.connect(postgres) as connection:
        names = ("estimated", "spent", "unknown")
        row = connection.execute(f"SELECT {', '.join(names)} FROM tests.attempts").fetchone()  # noqa: S608
    return dict(zip(names, row, strict=True))


#: An accepted order, in the columns of an earlier release.
WRITTEN_BY_OLD_PROCESS = (
    """
    INSERT INTO orders (service, account, order_id, idempotency_key, body, created_at)
    VALUES (:s, :a, :o, 'k', x'7b7d', 0)
    """,
    """
    INSERT INTO attempts (service, account, order_id, n, sent_at, deadline_at, kind, "by", reason)
    VALUES (:s, :a, :o, 1, 1893456000000000, 1893456000000000, 'create', '', '')
    """,
    """
    INSERT INTO evidence (service, account, order_id, n, outcome, at, task_id, cause, body, extra, answered)
    VALUES (:s, :a, :o, 1, 'accepted', 1893456000000000, :o, '', x'', '{}', 1)
    """,
)


async def test_the_orders_of_an_earlier_release_count_as_unknown(open_file, path, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:7])
        older.setattr(schema, "VERSION", 7)
        old = open_file()
        await old.namespace("word")
        await old.aclose()

    def write(name: str):
        def operation(db) -> None:
            with transaction(db, "IMMEDIATE"):
                for statement in WRITTEN_BY_OLD_PROCESS:
                    db.execute(statement, {"s": SERVICE, "a": ACCOUNT, "o": name})

        return operation

    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:7])
        older.setattr(schema, "VERSION", 7)
        old = open_file()
        await old._run(write("before"))
        await old.aclose()
    journal = open_file()
    assert (await read(journal)).spending == Spending(unknown=1)
    await journal._run(write("after the upgrade"))  # as a process that had opened the file before
    assert (await read(journal)).spending == Spending(unknown=2)
    await end(journal, "before", 15)
    assert (await read(journal)).spending == Spending(spent=15, unknown=1)
    assert rows(path, "SELECT count(*) FROM spending") == [(2,)]


async def test_a_task_that_an_earlier_release_adopted_counts_once_after_the_upgrade(open_file, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:8])
        older.setattr(schema, "VERSION", 8)
        old = open_file()
        await begin(old)
        await old.settle(ref_of(), 1, uncertain())
        await adopt(old, "o", "task-1")
        await end(old, "task-1", 15)
        await old._run(lambda db: db.execute("UPDATE attempts SET estimated = 20 WHERE n = 1"))  # as it counted then
        await old.aclose()
    assert (await read(open_file())).spending == Spending(spent=15)
