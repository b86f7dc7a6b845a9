"""``python -m tests --dev`` fails where what it needs is not installed, instead of leaving tests out."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

EXTRAS = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


@pytest.mark.needs_dev
@pytest.mark.parametrize("extra", ["dev", "bench", "test-examples"])
def test_everything_that_the_extra_names_is_installed(extra):
    for wanted in EXTRAS[extra]:
        assert version(re.split(r"[\[>;]", wanted)[0])
