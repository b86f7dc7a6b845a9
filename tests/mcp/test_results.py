"""The results of the tools for agents."""

from vidgen_async.mcp.results import numbers_of
from vidgen_async.types import CatalogModel


def test_a_flag_of_the_catalog_is_no_price():
    facts = {"points": 20, "per_second": 1.5, "is_new": True, "is_beta": False, "unit": "points", "tiers": {"a": 1}}
    assert numbers_of(CatalogModel(code="m", extra=facts)) == {"points": 20, "per_second": 1.5}
