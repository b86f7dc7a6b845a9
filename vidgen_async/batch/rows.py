"""Rows: what each orders, and where its video goes; everything that is wrong with them by themselves."""

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Self

from attrs import define, field, frozen

from vidgen_async.batch.manifest import ManifestRow
from vidgen_async.clock import Clock
from vidgen_async.errors import InvalidRequestError
from vidgen_async.media.local_images import LocalImages
from vidgen_async.media.upload import Uploads
from vidgen_async.orders.orders import LONGEST_ORDER_ID, check_order_id
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.endpoints import Endpoints, add_image_ids, create_body, read_request
from vidgen_async.service.request_checks import (
    field_of,
    make_request,
    problem_of_name,
    problems_in_catalog,
    problems_of,
)
from vidgen_async.types.orders import OrderContent
from vidgen_async.types.resources import Catalog, VideoRequest

_OWN_FIELDS = ("order_id", "output", "local_images")
_FIELDS = (*_OWN_FIELDS, *VideoRequest.field_names(), "extra")
_ADVICE = "undocumented fields go into extra"
_SPACES = "spaces in a CSV cell separate paths: write one with spaces as a JSON list, or the manifest as JSON lines"
#: The end of the id under which a failed order is ordered again, ``~2``; and the characters that are left for it.
_SUFFIX = re.compile(r"~\d+")
_SUFFIX_LENGTH = 4
#: File systems allow this number of bytes.
_LONGEST_NAME = 255


@frozen(slots=False)
class Row:
    """A row that has passed the check."""

    line: int
    order_id: str
    output: str
    """The path of the video, relative to the directory."""
    body: bytes = field(repr=False)
    """The body of the create, without its local images."""
    images: tuple[tuple[str, str], ...] = ()
    """The paths of the local images, and the SHA-256 of each, in hexadecimal."""

    @cached_property
    def request(self) -> VideoRequest:
        """The request, without its local images."""
        return read_request(self.body)

    @property
    def content(self) -> OrderContent:
        """What it asks for, to be compared: local images are named by their content."""
        if not self.images:
            return OrderContent(body=self.body)
        return OrderContent(body=create_body(add_image_ids(self.request, [digest for _, digest in self.images])))

    def write(self) -> bytes:
        """The row as a line."""
        fields = [self.line, self.order_id, self.output, self.body.decode(), self.images]
        return json.dumps(fields).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The row that :meth:`write` wrote."""
        number, order_id, output, body, images = json.loads(line)
        return cls(number, order_id, output, body.encode(), tuple(map(tuple, images)))


@define
class RowReader:
    """Makes rows of what was given for them."""

    _directory: Path
    _base: Path
    """What the paths of local images are relative to."""
    _uploads: Uploads
    _catalog: Catalog | None
    """The live one; None if it is not known."""
    _endpoints: Endpoints
    _clock: Clock
    _lines: dict[int, int] = field(factory=dict)
    """The line in which an order id, or an output, is used first, by its hash: there may be very many."""

    async def read(self, given: ManifestRow) -> tuple[Row | None, list[str]]:
        """The row; or None, and its problems."""
        if given.problem:
            return None, [given.problem]
        line, fields = given.line, {name: value for name, value in given.fields.items() if value is not None}
        unknown = [name for name in fields if name not in _FIELDS]
        problems = [f"{excerpt(str(name))}: {problem_of_name(name, _FIELDS, _ADVICE)}" for name in unknown]
        order_id, output, images = (fields.pop(name, None) for name in _OWN_FIELDS)
        id_problems = list(self._check_id(order_id, line))
        output = f"{order_id}.mp4" if output is None and not id_problems else output
        problems += id_problems if output is None else [*id_problems, *self._check_output(output, line)]
        known = {name: value for name, value in fields.items() if name in _FIELDS}
        request, found = make_request((), known, self._endpoints.absolute_asset)
        if request is None:
            return None, [*problems, *found]
        local, keys, unreadable = await self._read_images(images)
        try:
            planned = add_image_ids(request, keys) if keys else request
        except InvalidRequestError as error:
            return None, [*problems, *error.problems]
        problems += [*unreadable, *self._check_request(planned, found)]
        if problems:
            return None, problems
        own = tuple(zip(local, keys, strict=True))
        return Row(line, str(order_id), str(PurePosixPath(str(output))), create_body(request), own), []

    def _check_id(self, order_id: object, line: int) -> Iterator[str]:
        if order_id is None:
            yield "order_id: required"
            return
        try:
            check_order_id(order_id)
        except InvalidRequestError as error:
            yield from error.problems
            return
        order_id = str(order_id)
        if _SUFFIX.fullmatch(order_id[order_id.rfind("~") :]):
            yield "order_id: must not end in ~ and digits, which a failed order has that is ordered again"
        elif len(order_id) > LONGEST_ORDER_ID - _SUFFIX_LENGTH:
            yield f"order_id: must be at most {LONGEST_ORDER_ID - _SUFFIX_LENGTH} characters"
        if (first := self._lines.setdefault(hash(("id", order_id)), line)) != line:
            yield f"order_id: {excerpt(order_id)!r} is that of line {first}, too"

    def _check_output(self, output: object, line: int) -> Iterator[str]:
        if not isinstance(output, str):
            yield f"output: must be a path, not {type(output).__name__}"
            return
        problem = problem_of_output(self._directory, output)
        if problem:
            yield f"output: {problem}: {excerpt(output)!r}"
            return
        # Where upper and lower case, or ways to write a letter, are the same.
        name = unicodedata.normalize("NFC", str(PurePosixPath(output)).casefold())
        if (first := self._lines.setdefault(hash(("output", name)), line)) != line:
            yield f"output: {excerpt(output)!r} is the file of line {first}, too"

    async def _read_images(self, given: Any) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The paths of local images, what they are compared by, and their problems."""
        if given is None:
            return (), (), ()
        if not isinstance(given, list | tuple) or not all(isinstance(path, str | os.PathLike) for path in given):
            return (), (), ["local_images: must be a list of paths"]
        paths = [str(self._base / path) for path in given]
        images = LocalImages(self._uploads)
        await images.read(paths)
        problems = [f"{problem} ({_SPACES})" if len(paths) > 1 else problem for problem in images.problems]
        return paths, images.keys, problems

    def _check_request(self, request: VideoRequest, found: list[str]) -> list[str]:
        problems = problems_of(request, self._endpoints.base_url, self._clock.wall(), found=found)
        wrong = set(map(field_of, problems))
        if self._catalog is None or "model" in wrong:
            return problems
        return problems + [each for each in problems_in_catalog(request, self._catalog) if field_of(each) not in wrong]


def problem_of_output(directory: Path, output: str) -> str:
    """Why a video must not be saved there; empty if it may be."""
    path = PurePosixPath(output)
    if not output or "\0" in output or output.endswith("/") or path.name in ("", "."):
        return "is no name of a file"
    if path.is_absolute() or ".." in path.parts:
        return "must be inside of the directory"
    if max(len(os.fsencode(part)) for part in path.parts) > _LONGEST_NAME:
        return f"has a name of more than {_LONGEST_NAME} bytes"
    resolved = os.path.realpath(directory)
    if not Path(os.path.realpath(directory / path)).is_relative_to(resolved):
        return "leads out of the directory by a symbolic link"
    return ""
