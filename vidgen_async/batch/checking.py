"""The check of all rows before the first byte is sent: by themselves, against the catalog and against the journal."""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from itertools import islice
from statistics import median
from typing import IO, Any, TypeAlias

from attrs import define, field

from vidgen_async.batch.manifest import ManifestRow, read_manifest
from vidgen_async.batch.outcomes import BatchCheck
from vidgen_async.batch.plan import find_current, is_bad_request, plan
from vidgen_async.batch.rows import Row, RowReader
from vidgen_async.batch.run import BatchOptions
from vidgen_async.clock import Clock, hold_of
from vidgen_async.orders import Orders
from vidgen_async.service.endpoints import changed_fields, read_request
from vidgen_async.types.orders import OrderState
from vidgen_async.types.resources import VideoRequest

BatchRow: TypeAlias = Mapping[str, Any] | tuple[str, VideoRequest | Mapping[str, Any]]
"""A row of a batch: the fields of a create with ``order_id``, and perhaps ``output`` and ``local_images``; or a pair of
an order id and a request."""
BatchRows: TypeAlias = str | os.PathLike[str] | Iterable[BatchRow] | AsyncIterable[BatchRow]
"""The rows of a batch; a text or a path is that of a manifest."""

#: The number of rows that are read from the manifest, and looked up in the journal, at once.
CHUNK = 200
#: The number of finished orders by which the time of a task is estimated.
_FINISHED = 200


@define
class RowCheck:
    """The check of all rows. Those without problems are written to ``spool``."""

    _reader: RowReader
    _orders: Orders
    _options: BatchOptions
    _clock: Clock
    _spool: IO[bytes]
    _faulty: int = 0
    _problems: list[str] = field(factory=list)
    _states: Counter[str] = field(factory=Counter)
    _new_by_model: Counter[str] = field(factory=Counter)
    _kinds: set[tuple[str, int | None]] = field(factory=set)
    """The models and durations."""

    async def run(self, rows: BatchRows) -> BatchCheck:
        """Read and check them."""
        count = 0
        chunk: list[Row] = []
        async with aclosing(_read_rows(rows, self._clock)) as each_row:
            async for each in each_row:
                count += 1
                row, problems = await self._reader.read(each)
                self._add(each.line, problems)
                chunk += [] if row is None else [row]
                if count % CHUNK == 0:
                    await self._compare(chunk)
                    chunk = []
        await self._compare(chunk)
        return BatchCheck(
            rows=count,
            problems=tuple(self._problems),
            states=dict(self._states),
            faulty=self._faulty,
            new_by_model=dict(+self._new_by_model),
            task_seconds=await self._estimate_seconds(),
        )

    def _add(self, line: int, problems: list[str]) -> None:
        self._faulty += bool(problems)
        self._problems += [f"line {line}: {problem}" for problem in problems]

    async def _estimate_seconds(self) -> float | None:
        seconds = defaultdict(list)
        finished = await self._orders.list(OrderState.ACCEPTED, is_terminal=True, limit=_FINISHED, newest_first=True)
        for order in finished:
            request, result = read_request(order.body), order.results[-1]
            if order.receipt is not None and result.status == "completed":
                taken = result.at - order.receipt.accepted_at
                seconds[request.model, request.duration].append(taken.total_seconds())
        return max((median(seconds[kind]) for kind in self._kinds & seconds.keys()), default=None)

    async def _compare(self, rows: list[Row]) -> None:
        """Compare rows with their orders in the journal."""
        known = await self._orders.states(row.order_id for row in rows)
        for row in rows:
            self._kinds.add((row.request.model, row.request.duration))
            order, _, _ = await find_current(self._orders, row.order_id, known.get(row.order_id))
            problem = self._problem_of_file(row) if order is None else await self._problem_of_order(row)
            if problem:
                self._add(row.line, [problem])
                continue
            is_accepted = order is not None and order.state is OrderState.ACCEPTED
            state = (order.task_status or "running" if is_accepted else str(order.state)) if order else "new"
            self._states[state] += 1
            is_bad = await is_bad_request(self._orders, order)
            step = plan(order, None, is_bad_request=is_bad, retry_failed=self._options.retry_failed)
            self._new_by_model[row.request.model] += step.do == "create"
            self._spool.write(row.write())
        await self._clock.sleep(0)

    def _problem_of_file(self, row: Row) -> str:
        """Why a new order must not be made: its file would be replaced, and another journal may have the order."""
        if not os.path.lexists(self._options.directory / row.output):
            return ""
        return f"output: {row.output!r} exists, but the journal has no order {row.order_id!r}: is it another journal?"

    async def _problem_of_order(self, row: Row) -> str:
        order = await self._orders.find(row.order_id)
        changed = [] if order is None else changed_fields(order, row.content)
        return f"order_id: {row.order_id!r} was ordered before; changed: {', '.join(changed)}" if changed else ""


async def read_spool(spool: IO[bytes], clock: Clock) -> AsyncIterator[list[Row]]:
    """Yield the rows that were checked, some at a time."""
    spool.seek(0)
    while lines := list(islice(spool, CHUNK)):
        yield [Row.read(line) for line in lines]
        await clock.sleep(0)


async def _read_rows(rows: BatchRows, clock: Clock) -> AsyncGenerator[ManifestRow, None]:
    number = 0
    if isinstance(rows, str | os.PathLike):
        with closing(read_manifest(rows)) as manifest:
            while chunk := await _take(clock, manifest):
                for each in chunk:
                    yield each
    elif isinstance(rows, AsyncIterable):
        async for given in rows:
            number += 1
            yield _make_row(number, given)
    else:
        for number, given in enumerate(rows, 1):
            yield _make_row(number, given)


async def _take(clock: Clock, manifest: Iterator[ManifestRow]) -> list[ManifestRow]:
    with hold_of(clock)():
        return await asyncio.to_thread(lambda: list(islice(manifest, CHUNK)))


def _make_row(number: int, given: object) -> ManifestRow:
    match given:
        case Mapping():
            return ManifestRow(number, given)
        case (str() as order_id, VideoRequest() as request):
            names = (*VideoRequest.field_names(), "extra")
            return ManifestRow(number, {"order_id": order_id, **{name: getattr(request, name) for name in names}})
        case (str() as order_id, Mapping() as fields):
            return ManifestRow(number, {**fields, "order_id": order_id})
    return ManifestRow(number, problem="must be a mapping, or a pair of an order id and a request")
