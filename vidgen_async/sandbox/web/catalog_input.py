"""Catalog entries from outside: new entries and changes, with the field names of the wire."""

from collections.abc import Mapping
from typing import Annotated, Any, Required, TypedDict, get_args

from attrs import evolve

from vidgen_async.sandbox.catalog import WIRE_NAMES, CatalogEntry, Delivery
from vidgen_async.sandbox.input_rules import array_of, one_of, string, structure, whole_number

#: These two fields are the sandbox's own and never on the wire.
FIELD_NAMES = {**WIRE_NAMES, "minReferenceImages": "min_reference_images", "delivery": "delivery"}

Code = Annotated[str, string(r"[!-.0-~]{1,100}", "1 to 100 visible ASCII characters without a slash")]
Name = Annotated[str, string(r".{1,200}", "a string of 1 to 200 characters")]
#: The number is the shorter side of the rendered video.
RESOLUTION = string(r"auto|(?:[1-9]\d{2}|1\d{3}|2[01]\d{2})p", "auto or 100p to 2199p")
SECONDS = whole_number(1, 600)
Resolutions = Annotated[tuple[Annotated[str, RESOLUTION], ...], array_of(RESOLUTION)]
Durations = Annotated[tuple[Annotated[int, SECONDS], ...], array_of(SECONDS)]
Limit = Annotated[int, whole_number(0, 1000)]
Points = Annotated[int, whole_number(0, 1_000_000_000)]

Changes = TypedDict(  # noqa: UP013 - the names are those of the wire
    "Changes",
    {
        "name": Name,
        "enabled": bool,
        "maintenance": bool,
        "durations": Durations,
        "resolutions": Resolutions,
        "maxReferenceImages": Limit | None,
        "maxReferenceAudios": Limit | None,
        "maxReferenceVideos": Limit | None,
        "points": Points,
        "memberPoints": Points | None,
        "minReferenceImages": Limit,
        "delivery": Annotated[Delivery, one_of(get_args(Delivery))],
    },
    total=False,
)


class NewModel(Changes):
    code: Required[Code]


def new_entry(fields: Mapping[str, Any], models: Mapping[str, CatalogEntry]) -> CatalogEntry:
    """Return an entry that the catalog does not have yet. Its name is its code unless there is a ``name``."""
    code, problems = fields.get("code"), []
    if "durations" not in fields:
        problems.append("durations: required")
    if isinstance(code, str) and code in models:
        problems.append(f"code: there is already a model {code!r}; change it with PATCH")
    checked = structure(fields, NewModel, problems)
    return CatalogEntry(**{"name": checked["code"]} | _by_attribute(checked))


def changed_entry(fields: Mapping[str, Any], entry: CatalogEntry) -> CatalogEntry:
    return evolve(entry, **_by_attribute(structure(fields, Changes)))


def _by_attribute(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {FIELD_NAMES[name]: value for name, value in fields.items()}
