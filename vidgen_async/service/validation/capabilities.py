"""What a model of the catalog can do (2.1, 2.4): a limit that its entry does not tell refuses nothing."""

from collections.abc import Iterator
from difflib import get_close_matches

from vidgen_async.service.validation.value_repr import shown
from vidgen_async.types.resources import Catalog, CatalogModel, VideoRequest

#: Images that a model cannot do without (2.4, rule 4). The catalog has no field for it.
MIN_IMAGES = {"vendorh3": 1}

#: How many models a message names, and with how many a misspelt one is compared.
MOST_NAMED = 20
MOST_COMPARED = 500

#: The fields that count together towards one limit of a catalog entry.
_REFERENCES = {
    "image": ("max_reference_images", ("image_ids", "image_urls", "reference_images")),
    "audio": ("max_reference_audios", ("audio_urls", "reference_audios")),
    "video": ("max_reference_videos", ("video_urls", "reference_videos")),
}


def problem_of_model(code: str, catalog: Catalog) -> str | None:
    """Why the catalog gives no model of this ID that can be used now (section 3). A catalog or an entry that cannot be
    read speaks against nothing."""
    model = catalog.get(code)
    if model is None:
        if "unreadable" in catalog.extra:
            return None
        near = get_close_matches(code, [model.code for model in catalog.models[:MOST_COMPARED]], n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"model: {shown(code)} is not in the catalog of this key{hint}; usable are: {_usable(catalog)}"
    if model.is_usable or {"enabled", "maintenance"} & model.extra.keys():
        return None
    why = "in maintenance" if model.maintenance else "not enabled"
    return f"model: {shown(code)} is {why}; usable are: {_usable(catalog)}"


def problems_with_model(request: VideoRequest, model: CatalogModel) -> list[str]:
    """Everything in the request that this model does not take."""
    checks = (_check_duration, _check_resolution, _check_references)
    return [problem for check in checks for problem in check(request, model)]


def _check_duration(request: VideoRequest, model: CatalogModel) -> Iterator[str]:
    for name in ("duration", "seconds"):
        value = getattr(request, name)
        if value is not None and model.durations and value not in model.durations:
            allowed = ", ".join(map(str, model.durations))
            yield f"{name}: {shown(value)} is none of the durations of {model.code}: {allowed} (seconds)"


def _check_resolution(request: VideoRequest, model: CatalogModel) -> Iterator[str]:
    value = request.resolution
    if value is not None and model.resolutions and value not in model.resolutions:
        yield f"resolution: {shown(value)} is none of the resolutions of {model.code}: {', '.join(model.resolutions)}"


def _check_references(request: VideoRequest, model: CatalogModel) -> Iterator[str]:
    for kind, (limit_name, fields) in _REFERENCES.items():
        given = [name for name in fields if _count(request, name)]
        number = sum(_count(request, name) for name in given)
        limit: int | None = getattr(model, limit_name)
        if limit is not None and 0 <= limit < number:
            takes = f"takes at most {limit} reference {kind}s" if limit else f"takes no reference {kind}s"
            yield f"{' + '.join(given)}: {number} given; {model.code} {takes}"
    wanted = MIN_IMAGES.get(model.code, 0)
    _, fields = _REFERENCES["image"]
    # What an attachment may hold is not documented: it could be the image.
    if not request.attachments and sum(_count(request, name) for name in fields) < wanted:
        yield f"image_ids: {model.code} needs at least {wanted} image, in {', '.join(fields[:-1])} or {fields[-1]}"


def _count(request: VideoRequest, name: str) -> int:
    value = getattr(request, name)
    return len(value) if isinstance(value, tuple) else 0


def _usable(catalog: Catalog) -> str:
    codes = [model.code for model in catalog.usable]
    more = f" and {len(codes) - MOST_NAMED} more" if len(codes) > MOST_NAMED else ""
    return (", ".join(codes[:MOST_NAMED]) or "none") + more
