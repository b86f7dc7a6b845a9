"""The OpenAPI 3.1 document of the service: the six endpoints of section 4, as this sandbox answers them.

The document is the file ``openapi.json`` beside this module. To change the document, edit the file; the tests compare
it with what the sandbox accepts and answers.
"""

import json
from importlib.resources import files
from typing import Any


def describe(base_url: str) -> dict[str, Any]:
    """Return a new copy of the document for a service at ``base_url``, which ends in ``/openapi/v1``."""
    document: dict[str, Any] = json.loads(files("vidgen_async.sandbox.web").joinpath("openapi.json").read_bytes())
    document["servers"] = [{"url": base_url}]
    return document
