"""The choice of a model if none is given."""

from vidgen_async.cli.terminal.formatting import span
from vidgen_async.errors import InvalidRequestError
from vidgen_async.service.validation import MIN_IMAGES
from vidgen_async.types.resources import Catalog, CatalogModel


def choose_model(catalog: Catalog, duration: int | None, resolution: str | None, images: int, *, is_free: bool) -> str:
    """The one usable model that fits the request. Where nothing is charged (the sandbox) and several fit, it is one
    whose entry accepts the images and that creates the shortest video.

    Raises:
        InvalidRequestError: No model fits, or several do, so that the user has to choose a price; it lists them.
    """
    fitting = [model for model in catalog.usable if _fits(model, duration, resolution, images)]
    if not fitting:
        usable = "; ".join(map(describe, catalog.usable)) or "none"
        raise _refusal(f"no model of the catalog fits the request; usable models: {usable}")
    if len(fitting) > 1 and not is_free:
        models = "; ".join(map(describe, fitting))
        raise _refusal(f"several models fit; choose one with --model (vidgen models shows your prices): {models}")

    def rank(model: CatalogModel) -> tuple[bool, int]:
        return images > 0 and model.max_reference_images is None, min(model.durations, default=0)

    return min(fitting, key=rank).code


def describe(model: CatalogModel) -> str:
    """The model and its limits in one line."""
    images = model.max_reference_images
    facts = (
        f"{span(model.durations)} s" if model.durations else "",
        " or ".join(model.resolutions),
        "" if images is None else f"up to {images} images" if images else "no images",
    )
    return f"{model.code}: {', '.join(fact for fact in facts if fact) or 'no known limits'}"


def _fits(model: CatalogModel, duration: int | None, resolution: str | None, images: int) -> bool:
    """A limit that the entry does not state excludes nothing."""
    return (
        (duration is None or not model.durations or duration in model.durations)
        and (resolution is None or not model.resolutions or resolution in model.resolutions)
        and (model.max_reference_images is None or images <= model.max_reference_images)
        and images >= MIN_IMAGES.get(model.code, 0)
    )


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, problems=[problem])
