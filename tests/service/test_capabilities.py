"""What a model's catalog entry says decides (2.1, 2.4 rule 5); what it does not say refuses nothing."""

import json

import pytest
from yarl import URL

from vidgen_async.service.codec import Answer, read_catalog
from vidgen_async.service.request_checks import problems_in_catalog
from vidgen_async.types.http import make_headers
from vidgen_async.types.resources import Catalog, CatalogModel, VideoRequest

FULL = CatalogModel(
    code="full",
    enabled=True,
    durations=(5, 10),
    resolutions=("720p", "768p"),
    max_reference_images=2,
    max_reference_audios=0,
    max_reference_videos=1,
)
CATALOG = Catalog(
    models=(
        FULL,
        CatalogModel(code="gone", enabled=False),
        CatalogModel(code="away", enabled=True, maintenance=True),
        CatalogModel(code="unstated"),
        CatalogModel(code="unstated-away", maintenance=True),
    )
)
A, B, C = (f"https://pics.net/{name}" for name in "abc")


def found(model: CatalogModel = FULL, **fields) -> list[str]:
    return problems_in_catalog(VideoRequest(model=model.code, prompt="p", **fields), Catalog(models=(model,)))


@pytest.mark.rule("2.1 field durations", "2.1 field resolutions", "8 limit model", side="sdk")
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"duration": 7}, "duration: full supports 5, 10 seconds, not 7"),
        ({"seconds": 7}, "seconds: full supports 5, 10 seconds, not 7"),
        ({"resolution": "2K"}, "resolution: full supports 720p, 768p, not '2K'"),
        ({"image_ids": ["a"] * 3}, "image_ids: 3 given; full takes at most 2 reference images"),
        (
            {"image_ids": ["a"], "image_urls": [A], "reference_images": [{"url": B}]},
            "image_ids + image_urls + reference_images: 3 given; full takes at most 2 reference images",
        ),
        ({"audio_urls": [A]}, "audio_urls: 1 given; full takes no reference audios"),
        (
            {"video_urls": [A], "reference_videos": [{"url": B}]},
            "video_urls + reference_videos: 2 given; full takes at most 1 reference videos",
        ),
    ],
)
def test_a_problem_names_the_field_the_value_and_what_is_allowed(fields, problem):
    assert found(**fields) == [problem]


@pytest.mark.rule("2.4 rule 4", side="sdk")
def test_vendorh3_needs_an_image_from_any_field_that_may_hold_one():
    vendorh3 = CatalogModel(code="vendorh3", enabled=True)
    assert found(vendorh3) == [
        "image_ids: vendorh3 needs at least 1 image, in local_images, image_ids, image_urls or reference_images"
    ]
    assert found(vendorh3, image_ids=["a"]) == []
    assert found(vendorh3, image_urls=[A]) == []
    assert found(vendorh3, reference_images=[{"url": A}]) == []
    assert found(vendorh3, attachments=[{"unknown": 1}]) == []


@pytest.mark.rule("3 note usable", side="sdk")
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("full", []),
        ("unstated", []),
        ("unstated-away", ["model: 'unstated-away' is in maintenance; available models: full"]),
        ("gone", ["model: 'gone' is not enabled; available models: full"]),
        ("away", ["model: 'away' is in maintenance; available models: full"]),
        ("ful", ["model: 'ful' is not available with this API key (did you mean 'full'?); available models: full"]),
        ("awa", ["model: 'awa' is not available with this API key; available models: full"]),
        ("zzz", ["model: 'zzz' is not available with this API key; available models: full"]),
    ],
)
def test_a_model_is_usable_when_it_is_enabled_and_not_in_maintenance(code, problem):
    assert problems_in_catalog(VideoRequest(model=code, prompt="p"), CATALOG) == problem


@pytest.mark.parametrize(
    ("entry", "is_refused"),
    [
        ({}, False),
        ({"enabled": None}, False),
        ({"enabled": "perhaps"}, False),
        ({"enabled": None, "maintenance": "perhaps"}, False),
        ({"enabled": True, "maintenance": None}, False),
        ({"enabled": False}, True),
        ({"enabled": "false", "maintenance": "perhaps"}, True),
        ({"enabled": None, "maintenance": True}, True),
        ({"enabled": "perhaps", "maintenance": 1}, True),
    ],
    ids=str,
)
def test_only_what_a_catalog_states_refuses_a_model(entry, is_refused):
    body = json.dumps({"models": [{"code": "m", **entry}]}).encode()
    catalog = read_catalog(Answer("models.list", 200, make_headers({}), body, url=URL("https://h/")))
    assert bool(problems_in_catalog(VideoRequest(model="m", prompt="p"), catalog)) is is_refused
    assert catalog["m"].is_usable is (entry.get("enabled") is True)


def test_a_request_with_fields_of_wrong_types_can_be_looked_at_all_the_same():
    assert found(image_ids="a-string", duration="8") != []
