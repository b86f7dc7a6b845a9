"""What the fields of records must be, so that a damaged record is found when it is read and not when it is used.

The limits are wide: a program may have made what no request can.
"""

import math
from collections.abc import Mapping
from typing import Any, get_args

from vidgen_async.sandbox.catalog import Delivery
from vidgen_async.sandbox.input_fields import (
    ANYTHING,
    BOOLEAN,
    OBJECT,
    Kind,
    integer,
    list_of,
    mapping_of,
    number,
    one_of,
    or_null,
    text,
)
from vidgen_async.sandbox.ledger import LedgerKind

Kinds = Mapping[str, Kind[Any]]

TIME = number(-1e15, 1e15)
#: A task may wait, and an upload may be kept, for ever.
SPAN = number(-1e15, math.inf)
POINTS = integer(-(10**18), 10**18)
COUNT = integer(0, 10**6)
TEXT = text()


def _film(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    prompt, seconds, width, height, pictures, notes = value
    numbers = [COUNT.read(number) for number in (seconds, width, height)]
    shown = [_picture(picture) for picture in _list(pictures)]
    return [TEXT.read(prompt), *numbers, shown, [TEXT.read(note) for note in _list(notes)]]


def _picture(value: object) -> tuple[str, str | None]:
    label, digest = _list(value)
    return TEXT.read(label), or_null(TEXT).read(digest)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


FILM = Kind("a film", "array", _film)

ACCOUNT: Kinds = {"name": TEXT, "api_key": TEXT}
ENTRY: Kinds = {
    "at": TIME,
    "kind": one_of(get_args(LedgerKind)),
    "points": POINTS,
    "task_id": or_null(TEXT),
    "balance": POINTS,
}
KEY: Kinds = {"key": TEXT, "body": TEXT, "task_id": TEXT}
SUBMISSION: Kinds = {"at": TIME}
TASK: Kinds = {
    "id": TEXT,
    "account": TEXT,
    "request": mapping_of(TEXT, ANYTHING),
    "model": TEXT,
    "points": POINTS,
    "film": FILM,
    "created_at": TIME,
    "queued_for": SPAN,
    "running_for": SPAN,
    "failure": or_null(OBJECT),
}
ASSET: Kinds = {"id": TEXT, "account": TEXT, "content": TEXT, "mime": TEXT, "name": TEXT, "expires_at": SPAN}
FAILURE: Kinds = {"reason": TEXT, "refund": BOOLEAN}
MODEL: Kinds = {
    "code": TEXT,
    "name": TEXT,
    "durations": list_of(COUNT),
    "resolutions": list_of(TEXT),
    "enabled": BOOLEAN,
    "maintenance": BOOLEAN,
    "max_reference_images": or_null(COUNT),
    "max_reference_audios": or_null(COUNT),
    "max_reference_videos": or_null(COUNT),
    "min_reference_images": COUNT,
    "points": POINTS,
    "member_points": or_null(POINTS),
    "delivery": one_of(get_args(Delivery)),
}


def read(record: object, kinds: Kinds) -> dict[str, Any]:
    """The record's fields: exactly these, each of its kind. ValueError names the wrong ones, and shows no value."""
    fields = OBJECT.read(record)
    found = {}
    wrong = [name for name in fields if name not in kinds]
    for name, kind in kinds.items():
        try:
            found[name] = kind.read(fields[name])
        except (LookupError, TypeError, ValueError):
            wrong.append(name)
    if wrong:
        raise ValueError(f"fields that are missing or wrong: {', '.join(wrong)}")
    return found
