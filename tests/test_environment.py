"""What of the caller's environment the tests see."""

import os

from tests.conftest import pytest_sessionstart


def test_of_the_callers_settings_only_those_for_tests_remain(monkeypatch):
    kept = {"PATH": "/bin", "VIDGEN_CHROMIUM": "/bin/chromium", "VIDGEN_TEST_POSTGRES": "postgresql://postgres@/"}
    monkeypatch.setattr(os, "environ", kept | {"VIDGEN_JOURNAL": "memory:", "VIDGEN_API_KEY": "a-key", "NO_COLOR": "1"})
    pytest_sessionstart()
    assert os.environ == kept | {"TERM": "xterm-256color"}
