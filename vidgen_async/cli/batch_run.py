"""A run of ``vidgen batch``: its check, its live view, and its end."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

from attrs import define, field
from rich.console import Group
from rich.live import Live

from vidgen_async import Budget, Client, Pacing, VideoRequest, errors
from vidgen_async.batch.outcomes import earlier_text
from vidgen_async.cli.process import is_terminal
from vidgen_async.cli.run import Run
from vidgen_async.cli.run_state import Exit, Stage, TasksFailedError
from vidgen_async.cli.settings import Access
from vidgen_async.cli.terminal.exit_reports import batch_report, budget_advice
from vidgen_async.cli.terminal.formatting import Facts, seconds
from vidgen_async.cli.terminal.order_views import budget_text
from vidgen_async.cli.watch import suspendable
from vidgen_async.cli.watch_progress import one_line, progress_line
from vidgen_async.clock import LoopClock
from vidgen_async.types import Batch, BatchCheck, BatchOutcome, BudgetState

#: The exit code of each state of a row, the gravest first.
EXIT_CODES = {
    "uncertain": Exit.UNCERTAIN,
    "abandoned": Exit.FAILED,
    "failed": Exit.FAILED,
    "rejected": Exit.REFUSED,
    "not_saved": Exit.DOWNLOAD,
    "running": Exit.TIMEOUT,
    "withdrawn": Exit.NOT_SENT,
    "not_sent": Exit.NOT_SENT,
    "saved": Exit.OK,
}
#: The states in which the same command does nothing for a row.
_FINAL = ("saved", "failed", "uncertain", "abandoned", "withdrawn")
#: Numbers of problems and of uncertain orders that are shown, and of commands of --on-saved that run at once.
MAX_PROBLEMS = 20
MAX_UNCERTAIN = 5
MAX_COMMANDS = 4
#: Seconds between two refreshes of the live view.
REFRESH_INTERVAL = 1.0
#: The submission limit, as the client has it.
_PACING = Pacing()


@define(eq=False)
class BatchProgress:
    """What became of the rows until now."""

    total: int
    started_at: float
    states: Counter[str] = field(factory=Counter)
    first: dict[str, BatchOutcome] = field(factory=dict)
    """The first row in each state."""
    uncertain: list[str] = field(factory=list)
    """The first of the uncertain orders."""
    worked: int = 0
    """The number of rows for which this run did something."""
    task_seconds: float | None = None
    """How long a task takes, if that is known."""
    ordered_at: float = 0.0
    """When rows still waited to be ordered."""
    budget: BudgetState | None = None
    over_budget: errors.BudgetExceededError | None = None
    bad_requests: int = 0
    """The number of rows that were rejected with 400."""
    command_failures: list[str] = field(factory=list)
    """Of --on-saved."""

    def record(self, outcome: BatchOutcome) -> None:
        self.states[outcome.state] += 1
        self.first.setdefault(outcome.state, outcome)
        self.worked += bool(outcome.reason)
        if isinstance(outcome.error, errors.BudgetExceededError):
            self.over_budget = self.over_budget or outcome.error
        is_bad = not outcome.reason or isinstance(outcome.error, errors.RejectedBadRequestError)
        self.bad_requests += outcome.state == "rejected" and is_bad
        if outcome.state == "uncertain" and len(self.uncertain) < MAX_UNCERTAIN:
            self.uncertain.append(outcome.ordered_as)

    @property
    def code(self) -> Exit:
        """The exit code: that of the gravest state."""
        code = next((code for state, code in EXIT_CODES.items() if self.states[state]), Exit.OK)
        return code or (Exit.FAILED if self.command_failures else Exit.OK)

    def hint(self, points: int | None) -> str:
        """What to do for the rows without a video; a budget of so many points allows all."""
        over = self.states["not_sent"] if self.over_budget else 0
        stays = over + self.bad_requests + sum(self.states[state] for state in _FINAL)
        facts = (
            (over, f"over the budget. {budget_advice(self.over_budget, points)}" if self.over_budget else ""),
            (self.states["failed"], "failed: add --retry-failed."),
            (self.bad_requests, "rejected with 400: a corrected row needs a new order_id, --retry-failed repeats it."),
            (self.states["uncertain"], "uncertain: decide first."),
        )
        again = ["The same command again continues, and orders nothing twice."] if stays < self.total else []
        return " ".join([*again, *(f"{count:,} {text}" for count, text in facts if count)])

    def view(self, running: int, now: float) -> Group:
        """What a terminal shows while ``running`` tasks run."""
        done = self.states.total()
        counts = [("saved", self.states["saved"]), ("running", running)]
        counts += [(state, self.states[state]) for state in EXIT_CODES if state not in ("saved", "running")]
        lines = [" · ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in counts if count)]
        if left := self._time_left(running, now):
            rate = 60 * self.worked / (now - self.started_at)
            lines.append(f"{rate:,.3g} rows/min · about {seconds(left)} left")
        lines += [] if self.budget is None else [f"budget: {budget_text(self.budget)}"]
        return Group(progress_line("rows", done, self.total), *(one_line(text, "dim") for text in lines))

    def _time_left(self, running: int, now: float) -> float:
        """By the submission limit and the time of a task; or else by the rate of this run. 0 if it is unknown."""
        left, duration, by_tasks = self.total - self.states.total(), now - self.started_at, 0.0
        if left > running or not self.ordered_at:
            self.ordered_at = now
        if self.task_seconds is not None and left and duration > 0:
            waiting = (left - running) * _PACING.window / _PACING.limit
            by_tasks = waiting + self.task_seconds + self.ordered_at - now
        return max(by_tasks, 0.0) or left * duration / (self.worked or inf)


async def check_batch(run: Run, price: str | None, jobs: str, output: str, **options: Any) -> None:
    """Show what the rows are, and what the new ones cost if the name of a price is given."""
    client = await run.connect(Access.LOOKUP, only_prints=True)
    async with client.videos.batch(jobs, to=output, **options) as batch:
        check = await _check(run, batch)
        points = await _read_prices(client, check, price) if price else {}
        budget = await client.orders.budget()
    known = [each for each in points.values() if each is not None]
    is_complete = len(known) == len(points)
    cost = f"{'' if is_complete else '≥ '}{sum(known):,} points" if points else None
    cost = f"{cost}, without the faulty rows" if cost and check.faulty else cost
    lacking = 0 if budget is None else sum(known) - (budget.free or 0)
    limit = f"{budget_text(budget)}: {lacking:,} too few" if lacking > 0 else budget_text(budget)
    states = {**check.states, "faulty": check.faulty}
    rows = [(state, f"{count:,}") for state, count in states.items() if count]
    models = [
        (f"to order, {model}", f"{count:,}{_points_text(points, model)}") for model, count in check.new_by_model.items()
    ]
    facts = Facts((("rows", f"{check.rows:,}"), *rows, *models, ("price", cost), ("budget", limit)))
    document = {"points_by_model": points, "points": sum(known) if points and is_complete else None}
    document["budget"] = None if budget is None else budget.to_dict()
    run.screen.show(facts, {**check.to_dict(), **document})
    _refuse_problems(run, check)


def _points_text(points: Mapping[str, int | None], model: str) -> str:
    each = points.get(model)
    return "" if model not in points else ", price unknown" if each is None else f", {each:,} points"


async def _read_prices(client: Client, check: BatchCheck, name: str) -> dict[str, int | None]:
    """The points of the rows to order by model, by the number with this name in the catalog; None if the entry of the
    model has none. InvalidRequestError if no entry has one."""
    catalog, budget = await client.models.list(), Budget(points=0, price=name)
    numbers = {field for model in catalog for field, value in model.extra.items() if type(value) in (int, float)}
    if name not in numbers:
        known = ", ".join(sorted(numbers)) or "none"
        raise errors.InvalidRequestError(f"--price: no model has a price {name!r}; the numbers of the models: {known}")
    points: dict[str, int | None] = {}
    for model, count in check.new_by_model.items():
        entry = catalog.find(model)
        each = None if entry is None else budget.estimate(entry, VideoRequest(model=model, prompt="-"))
        points[model] = None if each is None else count * each
    return points


async def run_batch(run: Run, on_saved: Sequence[str], jobs: str, output: str, **options: Any) -> None:
    """Run it; TasksFailedError with the gravest exit code if a video is missing."""
    client = await run.connect(Access.NEW)
    async with client.videos.batch(jobs, to=output, **options) as batch:
        check = await _check(run, batch)
        _refuse_problems(run, check)
        needed = await _read_needed(run, check)
        run.stage, run.stop = Stage.BATCH, batch.stop
        progress = BatchProgress(check.rows, LoopClock().now(), task_seconds=check.task_seconds)
        run.explain = lambda text: batch_report(text, run, progress.uncertain, progress.hint(needed))
        if check.new_by_model and not run.settings.has_budget and not run.settings.is_sandbox:
            run.screen.print_fact("budget", "none in this run: --max-points sets one")
        try:
            await _consume(run, batch, progress, on_saved)
        finally:
            run.screen.close()
            await _read_budget(client, progress)
            _show_end(run, progress)
    missing = progress.total - progress.states["saved"]
    if missing:
        raise TasksFailedError(f"{missing:,} of {progress.total:,} videos were not saved", code=progress.code)
    if progress.code:
        failed = f"all videos were saved, but --on-saved failed for {len(progress.command_failures):,}"
        raise TasksFailedError(failed, code=progress.code)


async def _check(run: Run, batch: Batch) -> BatchCheck:
    run.stage = Stage.CATALOG
    run.screen.start_step("checking the rows")
    try:
        return await batch.check()
    except errors.InvalidRequestError:
        run.stage = Stage.CHECK
        raise


def _refuse_problems(run: Run, check: BatchCheck) -> None:
    if not check.problems:
        return
    run.stage, count = Stage.CHECK, len(check.problems)
    shown = check.problems if run.settings.is_json else check.problems[:MAX_PROBLEMS]
    for problem in shown:
        run.screen.print_fact("problem", problem)
    more = f"; {MAX_PROBLEMS} are shown, --json shows all" if len(shown) < count else ""
    message = f"nothing was sent: {count:,} {'problem' if count == 1 else 'problems'} in {check.rows:,} rows{more}"
    raise errors.InvalidRequestError(message, problems=check.problems)


async def _consume(run: Run, batch: Batch, progress: BatchProgress, on_saved: Sequence[str]) -> None:
    """Show each outcome, and run ``on_saved`` for each video that this run has saved."""
    clock, slots = LoopClock(), asyncio.Semaphore(MAX_COMMANDS)
    live = None
    run.screen.close()  # a progress line stands for sys.stdout while it is shown
    if is_terminal(sys.stdout):
        live = run.screen.live(lambda *_: progress.view(run.client.watcher.stats.tasks, clock.now()))
    try:
        async with asyncio.TaskGroup() as group:
            refresher = group.create_task(_refresh(run.client, live, progress)) if live is not None else None
            async for outcome in batch:
                progress.record(outcome)
                if live is None:
                    run.screen.show(_line_of(outcome), outcome.to_dict())
                if on_saved and outcome.state == "saved" and outcome.reason and outcome.path is not None:
                    await slots.acquire()
                    group.create_task(_call(on_saved, outcome.path, progress, slots))
            if refresher is not None:
                refresher.cancel()
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None  # only the batch raises any


async def _refresh(client: Client, live: Live, progress: BatchProgress) -> None:
    clock = LoopClock()
    with suspendable(live), live:
        while True:
            await _read_budget(client, progress)
            live.refresh()
            await clock.sleep(REFRESH_INTERVAL)


async def _read_budget(client: Client, progress: BatchProgress) -> None:
    with suppress(errors.VidgenError):  # the run itself reports that the journal cannot be read
        progress.budget = await client.orders.budget()


async def _read_needed(run: Run, check: BatchCheck) -> int | None:
    """The points of a budget that allows all rows; None if they are unknown, or there is no budget."""
    budget, price = await run.client.orders.budget(), run.settings.price_name
    if budget is None or not price or not check.new_by_model:
        return None
    with suppress(errors.ServiceError, errors.TransportError):
        points = (await _read_prices(run.client, check, price)).values()
        return None if None in points else budget.spent + budget.reserved + sum(filter(None, points))
    return None


async def _call(command: Sequence[str], path: Path, progress: BatchProgress, slots: asyncio.Semaphore) -> None:
    """Run the command for a saved video. It is in a session of its own, so that Ctrl-C does not end it."""
    env = {name: value for name, value in os.environ.items() if name != "VIDGEN_API_KEY"}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, str(path), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=env, start_new_session=True
        )
        output, _ = await process.communicate()
        last = output.decode(errors="replace").strip().splitlines()[-1:]
        if process.returncode:
            progress.command_failures.append(": ".join([str(path), f"exit code {process.returncode}", *last]))
    except OSError as error:
        progress.command_failures.append(f"{path}: {error.strerror or error}")
    finally:
        slots.release()


def _line_of(outcome: BatchOutcome) -> str:
    points = "" if outcome.points is None else f"({outcome.points:,} points)"
    about = outcome.path or outcome.failure
    facts = (outcome.order_id, outcome.state, about, points, earlier_text(outcome))
    return " ".join(str(fact) for fact in facts if fact)


def _show_end(run: Run, progress: BatchProgress) -> None:
    """Show the number of rows in each state, and what failed besides."""
    for state in reversed(EXIT_CODES):
        if count := progress.states[state]:
            first = progress.first[state]
            example = f", such as {first.order_id}: {first.failure}" if first.failure else ""
            run.screen.print_fact(state, f"{count:,} of {progress.total:,}{example}", count)
    if (budget := budget_text(progress.budget)) is not None:
        run.screen.print_fact("budget", budget)
    for failure in islice(progress.command_failures, MAX_PROBLEMS):
        run.screen.print_fact("on-saved", failure)
