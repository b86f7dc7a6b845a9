"""Manifests: JSON lines or CSV, read as a stream."""

import csv
import json
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import nullcontext
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from attrs import field, frozen

from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.request_checks import OBJECT_LISTS, URL_LISTS


def _read_json(cell: str) -> Any:
    try:
        return json.loads(cell)
    except ValueError:
        return cell  # the check of the field reports it


def _read_number(cell: str) -> int | str:
    return int(cell) if cell.isascii() and cell.lstrip("-").isdigit() else cell


#: How a cell of a CSV file becomes the value of its field; all other fields are texts.
_CELLS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("duration", "seconds"), _read_number),
    **dict.fromkeys((*URL_LISTS, "image_ids"), str.split),
    "local_images": lambda cell: _read_json(cell) if cell.startswith('["') else cell.split(),
    **dict.fromkeys(OBJECT_LISTS, lambda cell: [{"url": url} for url in cell.split()]),
    **dict.fromkeys(("attachments", "extra"), _read_json),
}


@frozen
class ManifestRow:
    """A row as it was written: its fields, or why it cannot be read."""

    line: int
    fields: Mapping[str, Any] = field(factory=dict, repr=False)
    problem: str = ""


def read_manifest(path: str | os.PathLike[str]) -> Generator[ManifestRow, None, None]:
    """Yield the rows of a manifest; ``-`` is the standard input. The text is UTF-8, perhaps with a byte order mark. One
    that begins with ``{`` consists of JSON lines, any other one is CSV with a line of names. InvalidRequestError if it
    cannot be read, has no names, or was changed while it was read."""
    try:
        before = _version_of(path)
        with nullcontext(sys.stdin.buffer) if os.fspath(path) == "-" else Path(path).open("rb") as file:
            yield from _read_rows(file)
        if _version_of(path) != before:
            raise _refusal(f"the manifest {os.fspath(path)!r} was changed while it was read")
    except OSError as error:
        raise _refusal(f"the manifest {os.fspath(path)!r} cannot be read: {error.strerror or error}") from error


def _version_of(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """What differs if a file was changed; nothing of a pipe does."""
    if os.fspath(path) == "-" or not stat.S_ISREG((now := Path(path).stat()).st_mode):
        return ()
    return now.st_ino, now.st_size, now.st_mtime_ns


def _read_rows(file: BinaryIO) -> Iterator[ManifestRow]:
    # A byte that is not UTF-8 becomes a surrogate, which the check of the row reports.
    text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        lines = enumerate(text, 1)
        first = next((line for line in lines if line[1].strip()), None)
        if first is None:
            raise _refusal("the manifest is empty")
        if first[1].lstrip().startswith("["):
            raise _refusal("the manifest is a JSON array: write one object per line instead")
        read = _read_json_lines if first[1].lstrip().startswith("{") else _read_csv
        yield from read(first, lines)
    finally:
        text.detach()  # the caller closes the file


def _read_json_lines(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[ManifestRow]:
    return (_read_object(number, line) for number, line in chain([first], rest) if line.strip())


def _read_object(number: int, line: str) -> ManifestRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return ManifestRow(number, problem=f"is not JSON: {getattr(error, 'msg', error)}")
    if not isinstance(row, dict):
        return ManifestRow(number, problem=f"must be a JSON object, not {type(row).__name__}")
    return ManifestRow(number, row)


def _read_csv(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[ManifestRow]:
    before = first[0] - 1  # blank lines
    reader = csv.reader(line for _, line in chain([first], rest))
    names = [name.strip() for name in next(reader)]
    if len(set(names)) < len(names) or "" in names:
        raise _refusal("the first line of a CSV manifest has the names of its columns, each once")
    end = reader.line_num
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            end = reader.line_num
            yield ManifestRow(before + end, problem=f"is not CSV: {error}")
            continue
        if cells is None:
            return
        line, end = before + end + 1, reader.line_num
        if len(cells) > len(names):
            yield ManifestRow(line, problem=f"has {len(cells)} cells, but there are {len(names)} columns")
        elif any(cells):
            given = zip(names, cells, strict=False)
            yield ManifestRow(line, {name: _CELLS.get(name, str)(cell) for name, cell in given if cell})


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"nothing was sent: {problem}", problems=[problem])
