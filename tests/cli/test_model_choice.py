"""The choice of a model if none is given."""

import pytest

from vidgen_async.cli.request_options import RequestOptions, choose_model, describe
from vidgen_async.errors import InvalidRequestError
from vidgen_async.types.resources import Catalog, CatalogModel


def model(code: str, *durations: int, images: int | None = None, **more) -> CatalogModel:
    facts = {"enabled": True, "durations": durations, "max_reference_images": images} | more
    return CatalogModel(code=code, **facts)


CATALOG = Catalog(
    models=(
        model("off", 1, enabled=False),
        model("long", 15, 30, images=9, resolutions=("720p",)),
        model("vague", 5, 10),
        model("vendorh3", *range(5, 16), images=8, resolutions=("768p",)),
    )
)


def choose(
    duration: int | None, resolution: str | None, images: int, *, is_free: bool, catalog: Catalog = CATALOG
) -> str:
    ids = tuple(map(str, range(images)))
    options = RequestOptions(prompt="p", duration=duration, resolution=resolution, image_ids=ids)
    return choose_model(catalog, options, is_free=is_free)


def test_where_nothing_is_charged_the_shortest_video_is_chosen():
    assert choose(None, None, 0, is_free=True) == "vague"


def test_with_images_a_model_that_states_its_limit_comes_first():
    assert choose(None, None, 1, is_free=True) == "vendorh3"


def test_where_videos_are_charged_the_user_chooses_between_several_models():
    with pytest.raises(InvalidRequestError, match="--model") as caught:
        choose(None, None, 1, is_free=False)
    for code in ("long", "vague", "vendorh3"):
        assert code in str(caught.value)
    assert "off" not in str(caught.value)


def test_the_only_model_that_fits_is_chosen():
    assert choose(30, None, 2, is_free=False) == "long"
    assert choose(12, "768p", 1, is_free=False) == "vendorh3"


def test_a_model_that_needs_an_image_does_not_fit_without_one():
    with pytest.raises(InvalidRequestError, match="no available model supports"):
        choose(12, None, 0, is_free=True)


def test_a_model_does_not_fit_more_images_than_its_limit():
    assert choose(15, None, 9, is_free=False) == "long"


def test_a_catalog_without_usable_models_is_reported():
    with pytest.raises(InvalidRequestError, match="available models: none"):
        choose(None, None, 0, is_free=True, catalog=Catalog(models=()))


def test_a_model_is_described_with_its_limits():
    assert describe(CATALOG["vendorh3"]) == "vendorh3: 5-15 s, 768p, up to 8 images"
    assert describe(CATALOG["long"]) == "long: 15,30 s, 720p, up to 9 images"
    assert describe(model("none", images=0)) == "none: no images"
    assert describe(model("new")) == "new: no known limits"
