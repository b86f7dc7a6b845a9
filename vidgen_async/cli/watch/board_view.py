"""How the board of ``vidgen watch`` looks: as lines that fit any terminal, and as what stays when it is over."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from attrs import frozen
from rich.cells import cell_len
from rich.text import Text

from vidgen_async.cli.terminal.formatting import age, clean, seconds
from vidgen_async.cli.terminal.result_output import Shown, Table, columns, style_of
from vidgen_async.cli.watch.board import NOT_SEEN, Board, Row
from vidgen_async.cli.watch.statistics import Vitals

#: So many tasks that failed are told at the end.
MOST_TOLD = 20
#: A reason has this much room at least.
_LEAST_REASON = 20
#: From this height on a line is left free.
_AIRY = 20
_GAP = "  "
_THICK, _THIN = "━", "─"
_COLUMNS = ("task", "order", "state", "last change", "")
#: What is left out where the terminal is too narrow: the first that leaves enough room for the reason.
_LEFT_OUT = ((), ("last change",), ("order",), ("order", "last change"))


def board_lines(board: Board, vitals: Vitals, width: int, height: int, now: datetime) -> list[Text]:
    """The whole picture, at most ``height`` lines: how far it is, how it goes, what failed, what goes on."""
    head = [_progress(board, width), _counts(board), *_vital_lines(vitals, now)]
    head += [Text()] if height >= _AIRY else []
    picked = _pick(board, height - len(head) - 1)
    return [*head, *_table(picked, width, now)][:height]


def _progress(board: Board, width: int) -> Text:
    total = len(board.rows)
    left, share = f"{board.over:,} of {total:,} over ", f" {100 * board.over // max(total, 1):>3}%"
    room = max(width - len(left) - len(share), 0)
    over, bad = (room * count // max(total, 1) for count in (board.over, len(board.failed)))
    bad = max(bad, 1) if board.failed and over else bad
    return Text.assemble(
        (left, "bold"),
        (_THICK * (over - bad), "green"),
        (_THICK * bad, "red"),
        (_THIN * (room - over), "dim"),
        share,
        no_wrap=True,
    )


def _counts(board: Board) -> Text:
    parts = [
        Text(f"{number:,} {state}", style="red" if state in board.bad_states else _style(state))
        for state, number in board.counts()
    ]
    return _line(Text(" · ").join(parts))


def _vital_lines(vitals: Vitals, now: datetime) -> Iterator[Text]:
    yield _line(Text(" · ".join(_rates(vitals)), style="dim"))
    if vitals.paused is not None:
        until = (now + timedelta(seconds=vitals.paused)).astimezone()
        text = f"paused until {until:%H:%M:%S}, for {seconds(vitals.paused)}: the service answered 429"
        yield _line(Text(text, style="yellow"))
    if vitals.late is not None:
        meant = _interval(vitals.usual_interval)
        yield _line(
            Text(f"polls are {seconds(vitals.late)} late; each task is meant to be every {meant}", style="yellow")
        )
    if vitals.errors:
        kinds = sorted(vitals.errors.items(), key=lambda kind: -kind[1])
        text = ", ".join(f"{clean(name).removesuffix('Error')} {count:,}" for name, count in kinds)
        lately = f"{vitals.errors_lately:,} in the last minute; " if vitals.errors_lately else ""
        yield _line(Text(f"looks that failed: {lately}{text}", style="yellow" if lately else "dim"))


def _rates(vitals: Vitals) -> Iterator[str]:
    yield f"{vitals.polls_per_second:,.1f} polls/s"
    yield f"each task every {_interval(vitals.interval)}"
    if vitals.ended_per_minute is not None:
        yield f"{vitals.ended_per_minute:,.0f} ended/min"
    if vitals.left is not None:
        yield f"about {_about(vitals.left)} left"


@frozen
class _Picked:
    """The rows to show; how many that failed, and how many others, found no room."""

    failed: Sequence[Row]
    others: Sequence[Row]
    more_failed: int
    more_others: int


def _pick(board: Board, room: int) -> _Picked:
    """What fits into ``room`` lines, a line for what does not fit included: of those that failed the latest, in half of
    the room at least; of the others all as they were given, or those that changed last."""
    room = max(room, 0)
    for_others = min(len(board.others), room // 2)
    failed = _latest(board.failed, room - for_others)
    more_failed = len(board.failed) - len(failed)
    room -= len(failed) + bool(more_failed)
    if len(board.others) <= room:
        return _Picked(failed, list(board.others.values()), more_failed, 0)
    shown = list(islice(reversed(board.changed.values()), max(room - 1, 0)))
    if len(shown) < room - 1:  # those that were not seen yet have the rest of the room
        unseen = (row for row in board.others.values() if row.changed_at is None)
        shown += islice(unseen, room - 1 - len(shown))
    return _Picked(failed, shown, more_failed, len(board.others) - len(shown))


def _latest(rows: dict[str, Row], room: int) -> list[Row]:
    """All, the latest first, or as many as leave a line free."""
    return list(islice(reversed(rows.values()), room if len(rows) <= room else max(room - 1, 0)))


def _table(picked: _Picked, width: int, now: datetime) -> Iterator[Text]:
    rows = [*picked.failed, *picked.others]
    if not rows:
        return
    cells = [_cells(row, now) for row in rows]
    widths = {name: max(map(cell_len, (name, *column))) for name, *column in zip(_COLUMNS, *cells, strict=True)}
    widths["state"] = max(widths["state"], len("completed"))  # else all would move when the first task is
    names = _fitting(widths, width, has_orders=any(row.order_id for row in rows))
    colours = ["red" if row.has_failed else _style(row.state) for row in rows]
    made = [_row(line, widths, names, colour) for line, colour in zip(cells, colours, strict=True)]
    failed = len(picked.failed)
    head = _row(_COLUMNS, widths, names, "")
    head.style = "bold"
    yield head
    yield from made[:failed]
    if picked.more_failed:
        yield _line(Text(f"… and {picked.more_failed:,} more that failed before", style="red"))
    yield from made[failed:]
    if picked.more_others:
        yield _line(Text(f"… and {picked.more_others:,} others", style="dim"))


def _cells(row: Row, now: datetime) -> tuple[str, ...]:
    changed_at = row.changed_at
    detail = row.detail if row.is_over or changed_at is None else f"for {age(changed_at, now)}"
    at = "" if changed_at is None else _local(changed_at, now)
    return (clean(row.task_id), clean(row.order_id or ""), row.state, at, detail)


def _fitting(widths: dict[str, int], width: int, *, has_orders: bool) -> list[str]:
    """The columns that leave enough room for the reason."""
    for left_out in _LEFT_OUT:
        names = [name for name in _COLUMNS if name not in left_out and (has_orders or name != "order")]
        used = sum(widths[name] + len(_GAP) for name in names if name)
        if used + min(widths[""], _LEAST_REASON) <= width:
            break
    return names


def _row(cells: Sequence[str], widths: dict[str, int], names: Sequence[str], colour: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for name, cell in zip(_COLUMNS, cells, strict=True):
        if name in names:
            space = " " * (widths[name] - cell_len(cell))
            line.append(cell + space + _GAP, style=colour if name == "state" else "")
    line.rstrip()
    return line


def told(board: Board, took: float) -> Shown:
    """What stays when the watch is over: how the tasks ended, and of those that failed each with its whole reason."""
    count = f"{board.count()}; watched for {seconds(took)}"
    if not board.failed:
        return count
    has_orders = any(row.order_id for row in board.failed.values())
    rows = tuple(
        (row.task_id, *((row.order_id or "",) if has_orders else ()), row.state, row.detail)
        for row in islice(board.failed.values(), MOST_TOLD)
    )
    more = len(board.failed) - len(rows)
    notes = (f"… and {more:,} more that failed: the same command with --json tells them all",) if more else ()
    names = ("task", *(("order",) if has_orders else ()), "state", "why")
    return Table(columns=columns(*names, long=("why",)), rows=rows, notes=(*notes, count))


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _style(state: str) -> str:
    return "dim" if state == NOT_SEEN else style_of(state)


def _interval(count: float) -> str:
    return f"{count:,.0f} s" if count >= 10 else f"{count:.2g} s"


def _about(count: float) -> str:
    if count < 90:
        return f"{max(round(count / 10), 1) * 10} s"
    minutes = round(count / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _local(when: datetime, now: datetime) -> str:
    """The time of day here, or the day where that is another."""
    when, now = when.astimezone(), now.astimezone()
    return f"{when:%H:%M:%S}" if when.date() == now.date() else f"{when:%Y-%m-%d}"
