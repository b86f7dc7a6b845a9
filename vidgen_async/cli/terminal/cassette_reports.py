"""What was found about cassettes, as people read it and as JSON: differences, problems, what a recording has left."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vidgen_async.cassette import Document, RecoveredRecording
from vidgen_async.cassette.checks import Problem
from vidgen_async.cassette.diff import MISSING, Change, Difference, Kind, Part, moved
from vidgen_async.cli.prompt_masking import Curtain
from vidgen_async.cli.terminal.cassette_views import outcome
from vidgen_async.cli.terminal.result_output import Document as JsonDocument
from vidgen_async.cli.terminal.result_output import Facts, Table, columns, facts_of

#: A value in a table of differences is cut after so many characters.
LONGEST_SHOWN = 60

# -- diff ------------------------------------------------------------------------------------------------------------


def differences_table(found: Sequence[Difference], documents: tuple[Document, Document], curtain: Curtain) -> Table:
    """A line for each interaction that only one has, and for each value that differs."""
    rows: list[tuple[str, ...]] = []
    change = moved(*documents)
    if change is not None:
        rows.append(("—", str(Kind.CHANGED), "—", "—", *_change(change, curtain)))
    for one in found:
        a, b = (None if side is None else side.n for side in (one.before, one.after))
        head = (f"{one.method} {curtain.text(one.url)}", str(one.kind), _known(a), _known(b))
        if one.changes:
            rows += [(*head, *_change(change, curtain)) for change in one.changes]
        else:
            outcomes = ("—" if side is None else outcome(side) for side in (one.before, one.after))
            rows.append((*head, "", *outcomes))
    return Table(
        columns=columns(
            "request", "what", "a", "b", "where", "in a", "in b",
            numbers=("a", "b"), long=("request", "where", "in a", "in b"),
        ),
        rows=tuple(rows),
        empty=f"no difference in {len(documents[0].interactions)} interactions",
    )  # fmt: skip


def difference_documents(
    found: Sequence[Difference], documents: tuple[Document, Document], curtain: Curtain
) -> list[JsonDocument]:
    """An object for each interaction that differs, and before them one where the service was elsewhere."""
    change = moved(*documents)
    about: list[JsonDocument] = []
    if change is not None:
        about.append({"what": str(Kind.CHANGED), "changes": [_change_document(change, curtain)]})
    return about + [_difference_document(one, curtain) for one in found]


def _difference_document(one: Difference, curtain: Curtain) -> JsonDocument:
    return {
        "what": str(one.kind),
        "op": one.op,
        "method": one.method,
        "url": curtain.text(one.url),
        "ordinal": one.ordinal,
        "n": [None if side is None else side.n for side in (one.before, one.after)],
        "changes": [_change_document(change, curtain) for change in one.changes],
    }


def _change(change: Change, curtain: Curtain) -> tuple[str, str, str]:
    where = f"{change.part} {change.pointer}".rstrip()
    return where, _short(change.before, change, curtain), _short(change.after, change, curtain)


def _short(value: Any, change: Change, curtain: Curtain) -> str:
    if value is MISSING or (value is None and change.part is Part.STATUS):
        return "—"
    text = json.dumps(curtain.value(value, _name(change)), ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def _change_document(change: Change, curtain: Curtain) -> JsonDocument:
    document = {"part": str(change.part), "pointer": change.pointer}
    values = {"before": change.before, "after": change.after}
    # What is not there has no entry: null is a value.
    return document | {
        name: curtain.value(value, _name(change)) for name, value in values.items() if value is not MISSING
    }


def _name(change: Change) -> str:
    """The name under which the value stands; entries of a list stand under the list's."""
    names = [name for name in change.pointer.split("/") if not name.isdigit()]
    return names[-1] if names else ""


def _known(n: int | None) -> str:
    return "—" if n is None else str(n)


# -- check and recover -----------------------------------------------------------------------------------------------


def problems_table(problems: Sequence[Problem], count: int) -> Table:
    """A line for each problem; ``count`` cassettes were looked at."""
    return Table(
        columns=columns("file", "problem", "where", "what", long=("file", "where", "what")),
        rows=tuple((str(one.path), str(one.kind), one.where or "—", one.message) for one in problems),
        empty=f"{counted(count, 'cassette')} checked, nothing found",
    )


def problem_document(one: Problem) -> JsonDocument:
    return {"path": str(one.path), "problem": str(one.kind), "where": one.where, "message": one.message}


def recovered_facts(recovered: RecoveredRecording) -> Facts:
    return facts_of(
        (
            ("finished", counted(len(recovered.document.interactions), "interaction")),
            *(("not finished", line) for line in recovered.unfinished),
            ("damaged", counted(recovered.damaged, "line") if recovered.damaged else None),
        )
    )


def recovered_document(recovered: RecoveredRecording, part: Path) -> JsonDocument:
    return {
        "path": str(recovered.target),
        "part": str(part),
        "interactions": len(recovered.document.interactions),
        "unfinished": list(recovered.unfinished),
        "damaged": recovered.damaged,
    }


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
