"""Where the command line keeps its orders unless it is told otherwise."""

from pathlib import Path

from platformdirs import user_data_path

from vidgen_async.errors import ConfigurationError


def journal_file() -> Path:
    """The file ``orders.db`` in the user's data directory."""
    return user_data_path("vidgen", appauthor=False) / "orders.db"


def default_journal() -> Path:
    """:func:`journal_file`, whose directory is made, for this user alone.

    ConfigurationError when it cannot be made.
    """
    file = journal_file()
    folder = file.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = (
            f"the folder {folder} for the record of orders cannot be made: {error.strerror or error}. Choose another "
            f"with --journal sqlite:///FILE or VIDGEN_JOURNAL; memory: keeps no record"
        )
        raise ConfigurationError(message) from error
    return file
