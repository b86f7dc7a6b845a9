"""What can be said about a request before money is spent (section 2.4): by itself, and against a catalog entry."""

from vidgen_async.service.validation.request_checks import (
    field_of,
    make_request,
    problem_of_model,
    problems_in_catalog,
    problems_of,
    problems_with_model,
    refusal,
    refuse,
)

__all__ = [
    "field_of",
    "make_request",
    "problem_of_model",
    "problems_in_catalog",
    "problems_of",
    "problems_with_model",
    "refusal",
    "refuse",
]
