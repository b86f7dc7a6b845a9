"""A video as described on the command line: its request, and the choice of a model if none is given."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import field, fields_dict, frozen

from vidgen_async.cli.option_values import is_url
from vidgen_async.cli.terminal.formatting import span
from vidgen_async.errors import InvalidRequestError
from vidgen_async.media.image_types import SIGNATURE_SIZE, describe_type, image_type
from vidgen_async.service.validation import MIN_IMAGES
from vidgen_async.types.resources import Catalog, CatalogModel, VideoRequest


@frozen(kw_only=True)
class RequestOptions:
    """``images`` are paths and URLs in the order given; ``fields`` are the request fields that have no option."""

    prompt: str
    model: str | None = None
    duration: int | None = None
    ratio: str | None = None
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

    def file_problems(self) -> list[str]:
        """The problems of the files to upload: each must be a readable image. Blocks."""
        return [problem for file in self.files if (problem := _file_problem(file)) is not None]

    @property
    def image_count(self) -> int:
        return len(self.images) + len(self.image_ids)

    def request(self, model: str, uploaded: Sequence[str] = ()) -> VideoRequest:
        """The request for this model, with the ids of the ``uploaded`` files."""
        known = {name: value for name, value in self.fields.items() if name in VideoRequest.field_names()}
        image_urls = tuple(image for image in self.images if is_url(image))
        return VideoRequest(
            model=model,
            prompt=self.prompt,
            duration=self.duration,
            ratio=self.ratio,
            resolution=self.resolution,
            mode=self.mode,
            image_urls=image_urls or None,
            image_ids=(*self.image_ids, *uploaded) or None,
            video_urls=self.video_urls or None,
            audio_urls=self.audio_urls or None,
            extra={name: value for name, value in self.fields.items() if name not in known},
            **known,  # type: ignore[arg-type] # lists of objects, which validation checks
        )


#: The names of the arguments and options that describe a request.
REQUEST_NAMES = ("prompt_file", *fields_dict(RequestOptions))


def choose_model(catalog: Catalog, options: RequestOptions, *, is_free: bool) -> str:
    """The one usable model that fits the request. If several fit, InvalidRequestError lists them, so that the user
    chooses a price; where nothing is charged (the sandbox) one is chosen whose entry accepts the images and that
    creates the shortest video."""
    fitting = [model for model in catalog.usable if _fits(model, options)]
    problem = None
    if not fitting:
        usable = "; ".join(map(describe, catalog.usable)) or "none"
        problem = f"no available model supports this request; available models: {usable}"
    elif len(fitting) > 1 and not is_free:
        models = "; ".join(map(describe, fitting))
        problem = f"several models support this request; choose one with --model (vidgen models shows prices): {models}"
    if problem is not None:
        raise InvalidRequestError(problem, problems=[problem])

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
        and options.image_count >= MIN_IMAGES.get(model.code, 0)
    )


def _file_problem(file: str) -> str | None:
    try:
        with Path(file).open("rb") as opened:
            head = opened.read(SIGNATURE_SIZE)
    except OSError as error:
        return f"cannot read the file {file!r}: {error.strerror or error}"
    if not head:
        return f"the file {file!r} is empty"
    return None if image_type(head) else f"the file {file!r} is not an image: it is {describe_type(head)}"
