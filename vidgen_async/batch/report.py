"""The report of a run: a line for each row, as CSV or as JSON lines, or a page."""

import csv
import io
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import asdict, fields

from vidgen_async.atomic_file import AtomicFile
from vidgen_async.batch.outcomes import BatchOutcome
from vidgen_async.batch.page import Page
from vidgen_async.errors import ConfigurationError
from vidgen_async.redaction.messages import csv_cell

_COLUMNS = tuple(each.name for each in fields(BatchOutcome) if each.name != "error")


class Report:
    """``with Report(path) as report``: the file is replaced when the block is left, however it is left. Only the user
    may read it. No line has a link or a key."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.suffix not in (".csv", ".jsonl", ".html"):
            raise ConfigurationError(f"a report is a .csv, a .jsonl or a .html file, not {self._path.name!r}")
        self._is_csv = self._path.suffix == ".csv"
        self.has_posters = self._path.suffix == ".html"

    def __enter__(self) -> Self:
        try:
            self._file = AtomicFile(self._path, mode=0o600)
        except OSError as error:
            message = f"the report cannot be written as {str(self._path)!r}: {(error.strerror or str(error)).lower()}"
            raise ConfigurationError(message) from error
        self._page = Page(self._path) if self.has_posters else None
        if self._is_csv:
            self._write_cells(_COLUMNS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if self._page is not None:
                self._page.write(self._file)
            self._file.commit()

    def add(self, outcome: BatchOutcome, poster: bytes = b"") -> None:
        if self._page is not None:
            self._page.add(outcome, poster)
            return
        values = asdict(outcome, filter=lambda each, _: each.name in _COLUMNS)
        values["path"] = None if outcome.path is None else str(outcome.path)
        if self._is_csv:
            self._write_cells(tuple("" if values[name] is None else str(values[name]) for name in _COLUMNS))
        else:
            self._file.write(json.dumps(values).encode() + b"\n")

    def _write_cells(self, cells: tuple[str, ...]) -> None:
        line = io.StringIO()
        csv.writer(line).writerow(map(csv_cell, cells))
        self._file.write(line.getvalue().encode("utf-8", "backslashreplace"))
