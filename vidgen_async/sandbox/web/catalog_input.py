"""Catalog entries from outside: new ones, and changes, by the names of the wire."""

from collections.abc import Mapping
from typing import Any, get_args

from attrs import evolve

from vidgen_async.sandbox.catalog import WIRE_NAMES, CatalogEntry, Delivery
from vidgen_async.sandbox.input_fields import BOOLEAN, Given, Kind, integer, list_of, one_of, or_null, text

#: The two fields that are the sandbox's own are never on the wire.
OWN_NAMES = {"minReferenceImages": "min_reference_images", "delivery": "delivery"}
NAMES = WIRE_NAMES | OWN_NAMES

CODE = text(r"[!-.0-~]{1,100}", "1 to 100 visible ASCII characters without a slash")
#: The number is the shorter side of the video, which is really made.
RESOLUTION = text(r"auto|(?:[1-9]\d{2}|1\d{3}|2[01]\d{2})p", "auto or 100p to 2199p")
LIMIT = integer(0, 1000)
POINTS = integer(0, 1_000_000_000)

KINDS: Mapping[str, Kind[Any]] = {
    "name": text(r".{1,200}", "a string of 1 to 200 characters"),
    "enabled": BOOLEAN,
    "maintenance": BOOLEAN,
    "durations": list_of(integer(1, 600)),
    "resolutions": list_of(RESOLUTION),
    "maxReferenceImages": or_null(LIMIT),
    "maxReferenceAudios": or_null(LIMIT),
    "maxReferenceVideos": or_null(LIMIT),
    "points": POINTS,
    "memberPoints": or_null(POINTS),
    "minReferenceImages": LIMIT,
    "delivery": one_of(get_args(Delivery)),
}


def new_entry(given: Given, models: Mapping[str, CatalogEntry]) -> CatalogEntry:
    """An entry that the catalog does not have yet; its name is its code unless given."""
    given.require("code", "durations")
    code = given.take("code", CODE, "")
    if code in models:
        given.problems.append(f"code: there is a model {code!r} already; change it with PATCH")
    changes = _changes(given)
    given.check()
    return CatalogEntry(**{"name": code, "code": code} | changes)


def changed_entry(given: Given, entry: CatalogEntry) -> CatalogEntry:
    """The entry with the fields that were given."""
    changes = _changes(given)
    given.check()
    return evolve(entry, **changes)


def _changes(given: Given) -> dict[str, Any]:
    read = {name: given.take(name, kind, None) for name, kind in KINDS.items()}
    return {NAMES[name]: value for name, value in read.items() if given.has(name)}
