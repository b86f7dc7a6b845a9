from datetime import UTC, datetime

import pytest


@pytest.fixture
def now() -> datetime:
    return datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)
