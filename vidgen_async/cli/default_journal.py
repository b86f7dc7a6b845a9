"""The default journal of the command line."""

from pathlib import Path

from platformdirs import user_data_path

from vidgen_async.errors import ConfigurationError


def journal_file() -> Path:
    """The file ``orders.db`` in the user's data directory."""
    return user_data_path("vidgen", appauthor=False) / "orders.db"


def default_journal() -> Path:
    """:func:`journal_file`; its directory is created for this user alone.

    Raises:
        ConfigurationError: The directory cannot be created.
    """
    file = journal_file()
    folder = file.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the directory {folder} for the journal: {error.strerror or error}. Choose another with "
            f"--journal sqlite:///FILE or VIDGEN_JOURNAL; memory: stores nothing"
        ) from error
    return file
