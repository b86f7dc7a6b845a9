"""The default journal of the command line."""

import pytest

from vidgen_async.cli.service_connection import default_journal
from vidgen_async.errors import ConfigurationError


def test_the_directory_is_created_for_the_user_alone_and_may_exist(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "new"))
    assert default_journal() == default_journal() == tmp_path / "new" / "vidgen" / "orders.db"
    assert (tmp_path / "new" / "vidgen").stat().st_mode & 0o777 == 0o700


def test_a_directory_that_cannot_be_created_is_an_error_with_advice(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="--journal sqlite:///FILE or VIDGEN_JOURNAL; memory: stores nothing"):
        default_journal()
