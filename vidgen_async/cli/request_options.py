"""A video as described on the command line: its request, and the choice of a model if none is given."""

from collections.abc import Mapping, Sequence

from attrs import field, fields_dict, frozen

from vidgen_async.cli.settings import is_url
from vidgen_async.cli.terminal.formatting import span
from vidgen_async.errors import InvalidRequestError
from vidgen_async.types import Catalog, CatalogModel, Ratio, VideoRequest

#: The options that are fields of a request with the same name.
_OPTIONS = ("prompt", "duration", "ratio", "resolution", "mode", "image_ids", "video_urls", "audio_urls")


@frozen(kw_only=True)
class RequestOptions:
    """``images`` are paths and URLs in the order given; ``fields`` are the request fields that have no option."""

    prompt: str
    model: str | None = None
    duration: int | None = None
    ratio: Ratio | None = None
    resolution: str | None = None
    mode: str | None = None
    images: tuple[str, ...] = ()
    image_ids: tuple[str, ...] = ()
    video_urls: tuple[str, ...] = ()
    audio_urls: tuple[str, ...] = ()
    fields: Mapping[str, object] = field(factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The images to upload."""
        return tuple(image for image in self.images if not is_url(image))

    @property
    def image_count(self) -> int:
        return len(self.images) + len(self.image_ids)

    def request(self, model: str) -> VideoRequest:
        """The request for this model, without the files to upload."""
        given = {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None and value != ()}
        known = {name: value for name, value in self.fields.items() if name in VideoRequest.field_names()}
        image_urls = tuple(image for image in self.images if is_url(image)) or None
        extra = {name: value for name, value in self.fields.items() if name not in known}
        return VideoRequest(**{"model": model, "image_urls": image_urls, "extra": extra, **given, **known})


#: The names of the arguments and options that describe a request.
REQUEST_NAMES = ("prompt_file", *fields_dict(RequestOptions))


def choose_model(catalog: Catalog, options: RequestOptions, *, is_free: bool) -> str:
    """The one usable model that fits; of several, the shortest where nothing is charged, else an error lists them."""
    fitting = [model for model in catalog.usable if _fits(model, options)]
    if not fitting:
        usable = "; ".join(map(describe, catalog.usable)) or "none"
        raise invalid("no available model supports this request; available models", [usable])
    if len(fitting) > 1 and not is_free:
        problem = "several models support this request; choose one with --model (vidgen models shows prices)"
        raise invalid(problem, ["; ".join(map(describe, fitting))])

    def rank(model: CatalogModel) -> tuple[bool, int]:
        return options.image_count > 0 and model.max_reference_images is None, min(model.durations, default=0)

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


def _fits(model: CatalogModel, options: RequestOptions) -> bool:
    """A limit that the entry does not state excludes nothing."""
    return (
        (options.duration is None or not model.durations or options.duration in model.durations)
        and (options.resolution is None or not model.resolutions or options.resolution in model.resolutions)
        and (model.max_reference_images is None or options.image_count <= model.max_reference_images)
        and options.image_count >= model.min_reference_images
    )


def invalid(what: str, problems: Sequence[str]) -> InvalidRequestError:
    """The error of a request with these problems."""
    return InvalidRequestError(f"{what}: {'; '.join(problems)}", problems=problems)
