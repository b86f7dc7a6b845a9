"""How two cassettes differ in what was asked and answered, whenever and by whichever release they were recorded."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from attrs import field, frozen

from vidgen_async.cassette.document import Document, Interaction


class Missing:
    """What stands for a value that one of the two does not have; JSON's null is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


class Kind(StrEnum):
    """What became of an interaction from the first cassette to the second."""

    REMOVED = "removed"
    ADDED = "added"
    CHANGED = "changed"


class Part(StrEnum):
    """What a cassette and an interaction consist of."""

    BASE_URL = "base URL"
    REQUEST_HEADERS = "request header"
    REQUEST_BODY = "request body"
    STATUS = "status"
    HEADERS = "header"
    BODY = "body"
    FAILURE = "failure"


@frozen
class Change:
    """One value that differs. ``pointer`` (RFC 6901) is its place in the part: ``/retry-after`` in the headers,
    ``/data/status`` in a JSON body; empty for the part itself. Of values, :data:`MISSING` is one that is not there."""

    part: Part
    pointer: str
    before: Any
    after: Any


@frozen
class Difference:
    """An interaction that only one of the two has, or that has changed. ``url`` is an :func:`address`; ``ordinal``
    counts the interactions of its lane from 1: the third look at the same task is compared with the third."""

    op: str
    method: str
    url: str
    ordinal: int
    before: Interaction | None
    after: Interaction | None
    changes: tuple[Change, ...] = field(default=())

    @property
    def kind(self) -> Kind:
        if self.before is None:
            return Kind.ADDED
        return Kind.REMOVED if self.after is None else Kind.CHANGED


def differences(before: Document, after: Document) -> tuple[Difference, ...]:
    """All that differs, in the order of ``before``, what was added after that.

    Interactions belong together by operation, method, address and ordinal in their lane. The times at which things
    happened, the recorder, and the order of interactions of different lanes are not compared; for where the service
    was see :func:`moved`.
    """
    old, new = _lanes(before), _lanes(after)
    found: list[Difference] = []
    for place, was in old.items():
        now = new.get(place)
        changes = () if now is None else tuple(_changes(was, now))
        if now is None or changes:
            found.append(Difference(*place, was, now, changes))
    found += (Difference(*place, None, now) for place, now in new.items() if place not in old)
    return tuple(found)


def moved(before: Document, after: Document) -> Change | None:
    """The base URL of the service, where the two were recorded from different ones."""
    was, now = before.meta.base_url, after.meta.base_url
    return (
        None
        if was == now
        else Change(Part.BASE_URL, "", MISSING if was is None else was, MISSING if now is None else now)
    )


def address(url: str, base_url: str | None) -> str:
    """The path and query of the service's own URLs, other URLs whole. A sandbox has another port each time."""
    origin = "/".join((base_url or "").split("/")[:3])
    return url.removeprefix(origin) if origin and url.startswith(f"{origin}/") else url


def is_older_state(old: Document, new: Document) -> bool:
    """Whether ``new`` has all that is on ``old``, unchanged, and perhaps more."""
    return all(difference.kind is Kind.ADDED for difference in differences(old, new))


#: What a body is made of; the rest says how it was written and where it is kept.
_CONTENT = ("json", "text", "b64", "bytes", "sha256")

_Place = tuple[str, str, str, int]


def _lanes(document: Document) -> dict[_Place, Interaction]:
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    places: dict[_Place, Interaction] = {}
    for interaction in sorted(document.interactions, key=lambda interaction: interaction.n):
        request = interaction.request
        lane = (interaction.op, request.method, address(request.url, document.meta.base_url))
        counts[lane] += 1
        places[(*lane, counts[lane])] = interaction
    return places


def _changes(before: Interaction, after: Interaction) -> Iterator[Change]:
    asked, asks = before.request, after.request
    for part, old, new in (
        (Part.REQUEST_HEADERS, _headers(asked.headers), _headers(asks.headers)),
        (Part.REQUEST_BODY, *_bodies(asked.body, asks.body)),
        (Part.STATUS, before.status, after.status),
        (Part.HEADERS, _headers(before.headers), _headers(after.headers)),
        (Part.BODY, *_bodies(before.body, after.body)),
        (Part.FAILURE, _failure(before), _failure(after)),
    ):
        yield from (Change(part, *found) for found in compared(old, new))


def _bodies(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """What is compared of two bodies: their JSON, or what they are made of, wherever that is kept."""
    if before is not None and after is not None and "json" in before and "json" in after:
        return before["json"], after["json"]
    old, new = (
        MISSING if body is None else {name: body[name] for name in _CONTENT if name in body} for body in (before, after)
    )
    return old, new


def _failure(interaction: Interaction) -> Any:
    failure = interaction.failure
    if failure is None:
        return MISSING
    return {
        "type": failure.type,
        "delivery": str(failure.delivery),
        "phase": str(failure.phase),
        "message": failure.message,
        "received": failure.received,
    }


def _headers(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """By name; a header that came several times is a list."""
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in pairs:
        values[name.lower()].append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def compared(before: Any, after: Any, pointer: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places (RFC 6901) at which two JSON values differ, and what is there: as deep as their shapes agree."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            place = f"{pointer}/{_escaped(str(name))}"
            yield from compared(before.get(name, MISSING), after.get(name, MISSING), place)
    elif _is_list(before) and _is_list(after):
        for at in range(max(len(before), len(after))):
            was = before[at] if at < len(before) else MISSING
            now = after[at] if at < len(after) else MISSING
            yield from compared(was, now, f"{pointer}/{at}")
    elif not _is_same(before, after):
        yield pointer, before, after


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_same(before: Any, after: Any) -> bool:
    if isinstance(before, Missing) or isinstance(after, Missing):
        return before is after
    return json.dumps(before) == json.dumps(after)  # true is not 1


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
