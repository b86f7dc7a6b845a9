"""Connection strings of libpq: what messages show of them, and connections whose errors hide their passwords."""

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from vidgen_async.errors import ConfigurationError
from vidgen_async.journal.postgres.time_limit import Connection
from vidgen_async.redaction.messages import showable

#: The parameters of the name of a database, and the variables that they have by default.
_VARIABLES = {"user": "PGUSER", "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE"}

_SCHEMES = ("postgresql", "postgres")
#: Of other drivers. Anything else may be a part of a password.
_SCHEME = re.compile(r"(?:jdbc:)?postgres(?:ql)?(?:\+\w{1,20})?", re.IGNORECASE)
#: In the messages of libpq.
_UNKNOWN_PARAMETER = re.compile(
    r'^invalid (?:URI query parameter:|connection option) "([A-Za-z][\w.-]{0,40})"$', re.MULTILINE
)
#: What is wrong, and what to do.
_IS_INVALID = ("is invalid", "In a URL, write / @ : and % of a password as %2F %40 %3A and %25")
_HAS_CONTROL_CHARACTER = ("has a line break or another control character", "Remove it")


def connect(dsn: str, *, timeout: float, **options: str | int) -> Connection:
    """Open a connection that begins no transaction by itself, and prepares no statement. Texts are exchanged in UTF-8,
    whatever the environment or a setting of the user says. Errors, and their tracebacks, do not contain the password.

    Args:
        dsn: The connection string.
        timeout: Seconds for each host, unless the connection string or PGCONNECT_TIMEOUT has a ``connect_timeout``.
        options: Parameters of libpq, which replace those of the connection string.

    Raises:
        psycopg.Error: The server cannot be reached.
    """
    named = conninfo_to_dict(dsn).get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT")
    defaults = {"connect_timeout": named or max(2, round(timeout)), "fallback_application_name": "vidgen"}
    try:
        dsn = make_conninfo(dsn, **(defaults | options), client_encoding="UTF8")
        return Connection.connect(dsn, autocommit=True, prepare_threshold=None, row_factory=dict_row)
    except psycopg.Error as error:
        del dsn  # some tools log the variables of a traceback; those of psycopg have the password too
        raise error.with_traceback(None) from None


def has_password(dsn: str) -> bool:
    """Return whether the connection string contains a password.

    Raises:
        ConfigurationError: It is invalid. The error does not show it, because it may contain a password.
    """
    return not {"password", "sslpassword"}.isdisjoint(_parse(dsn))


def describe(dsn: str) -> str:
    """Return the name of the database for messages: a URL without password. What the connection string does not name is
    read from the environment, as libpq does.

    Raises:
        ConfigurationError: It is invalid. The error does not show it, because it may contain a password.
    """
    parameters = _parse(dsn)
    if service := parameters.get("service", os.environ.get("PGSERVICE")):
        return f"postgresql:///?service={service}"
    user, host, port, database = (parameters.get(name, os.environ.get(env, "")) for name, env in _VARIABLES.items())
    at = f"{user}@" if user else ""
    return f"postgresql://{at}{host or parameters.get('hostaddr', '')}{f':{port}' if port else ''}/{database}"


def describe_error(error: BaseException) -> str:
    """Return what happened, on one line, without the questions of libpq."""
    # The complete text may quote the parameters of the statement, such as a prompt, if the server is set up so.
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = re.sub(r"\s*Is the server running[^?]*\?", "", primary or str(error))
    return " ".join(text.split()).rstrip(".") or type(error).__name__


def cause_of(error: Exception) -> BaseException | None:
    """Return what may be chained to an error with the text of :func:`describe_error`: the same without the details."""
    return type(error)(describe_error(error)) if isinstance(error, psycopg.Error) else showable(error)


def _parse(dsn: str) -> Mapping[str, str]:
    parameters: dict[str, str] = {}
    problem: tuple[str, str] | None = None
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except (psycopg.ProgrammingError, UnicodeError) as error:
        problem = _explain(dsn, str(error))
    else:
        if _may_show_password(dsn, parameters):
            problem = _IS_INVALID
        elif not _is_printable(parameters):
            problem = _HAS_CONTROL_CHARACTER
    if problem is not None:
        # (Not in the except block: the other error may quote the password.)
        what, advice = problem
        shown = "(it is not shown, because it may contain a password)"
        raise ConfigurationError(f"the connection string of the journal {what} {shown}. {advice}")
    return parameters


def _explain(dsn: str, error: str) -> tuple[str, str]:
    """Return why libpq cannot read the connection string, and what to write. A part of a password may look like a
    parameter, whose name is shown only where this is impossible."""
    scheme, mark, _ = dsn.partition("://")
    if mark and scheme not in _SCHEMES and _SCHEME.fullmatch(scheme):
        return f"is invalid: it begins with {scheme}://", "Write postgresql:// in place of it"
    found = _UNKNOWN_PARAMETER.search(error)
    before, _, after = dsn.partition("?") if mark else ("", "", dsn)
    if found is None or "@" in unquote(after) or "passw" in unquote(after).lower() or not _is_plain(before):
        return _IS_INVALID
    advice = "The schema is an argument: PostgresJournal(…, schema=…)" if "schema" in found[1].lower() else "Remove it"
    return f"is invalid: libpq has no parameter {found[1]!r}", advice


def _is_plain(address: str) -> bool:
    """Return whether the part of a URL before the parameters is valid by itself."""
    try:
        return not _may_show_password(address, {name: str(value) for name, value in conninfo_to_dict(address).items()})
    except psycopg.ProgrammingError:
        return False


def _is_printable(parameters: Mapping[str, str]) -> bool:
    return all(parameters.get(name, "").isprintable() for name in (*_VARIABLES, "service"))


def _may_show_password(dsn: str, parameters: Mapping[str, str]) -> bool:
    """Return whether a / or @ in the password of a URL has made the rest of it the host, port or database."""
    if not dsn.startswith(("postgresql://", "postgres://")):
        return False
    host, port, database = (parameters.get(name, "") for name in ("host", "port", "dbname"))
    return "@" in host.lstrip("@") or "@" in database or not re.fullmatch(r"[\d,]*", port)
