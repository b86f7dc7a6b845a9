"""Which model, when none was named."""

from vidgen_async.cli.terminal.formatting import span
from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.validation import MIN_IMAGES
from vidgen_async.types.resources import Catalog, CatalogModel


def choose_model(
    catalog: Catalog, duration: int | None, resolution: str | None, pictures: int, *, is_free: bool
) -> str:
    """The one usable model that fits. Where several do, their prices differ, so a person chooses; where nothing is
    charged (the sandbox), it is one that surely takes the pictures and makes the shortest video.

    InvalidRequestError names the models there are to choose from.
    """
    fitting = [model for model in catalog.usable if _fits(model, duration, resolution, pictures)]
    if not fitting:
        usable = "; ".join(map(describe, catalog.usable)) or "none"
        raise _refusal(f"no model of the catalog fits what was asked for; usable are: {usable}")
    if len(fitting) > 1 and not is_free:
        models = "; ".join(map(describe, fitting))
        raise _refusal(f"several models fit; choose one with --model (vidgen models shows your prices): {models}")
    is_vague = [pictures > 0 and model.max_reference_images is None for model in fitting]
    return min(zip(is_vague, fitting, strict=True), key=lambda pair: (pair[0], min(pair[1].durations, default=0)))[
        1
    ].code


def describe(model: CatalogModel) -> str:
    """The model in a few words."""
    images = model.max_reference_images
    facts = (
        f"{span(model.durations)} s" if model.durations else "",
        " or ".join(model.resolutions),
        "" if images is None else f"up to {images} pictures" if images else "no pictures",
    )
    return f"{model.code}: {', '.join(fact for fact in facts if fact) or 'no limits told'}"


def _fits(model: CatalogModel, duration: int | None, resolution: str | None, pictures: int) -> bool:
    """What an entry does not say is no reason against it."""
    return (
        (duration is None or not model.durations or duration in model.durations)
        and (resolution is None or not model.resolutions or resolution in model.resolutions)
        and (model.max_reference_images is None or pictures <= model.max_reference_images)
        and pictures >= MIN_IMAGES.get(model.code, 0)
    )


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, problems=[problem])
