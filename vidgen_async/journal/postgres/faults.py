"""What the errors of PostgreSQL and of libpq mean."""

import re
from collections.abc import Mapping, Sequence

import psycopg
from attrs import evolve, frozen


@frozen
class Fault:
    """What follows from an error. Unless a table says otherwise, no repetition cures it, and the connection is closed,
    because its server, or what was set when it was opened, may be the cause."""

    may_be_temporary: bool = False
    closes: bool = True
    """Whether the connection is closed. What was not carried out is repeated once if the connection was an old one."""
    meaning: str = ""
    """What happened and what to do, before the error's own text."""


_TEMPORARY = Fault(may_be_temporary=True)
_TOO_SLOW = Fault(may_be_temporary=True, closes=False, meaning="the server took too long (time_limit)")
_NO_RIGHT = Fault(
    meaning=(
        "this user has no right to do that; use the user of the workers, or, if the tables are missing or old, let an "
        "administrator execute what vidgen journal schema prints"
    )
)
_MISSING = Fault(
    meaning=(
        "this user may not use the schema (then GRANT USAGE ON SCHEMA), or a table is missing; restore it before "
        "anything is ordered"
    )
)
#: A standby is refused when it is connected to, so that a connection that stays read-only is to a primary.
_READ_ONLY = Fault(
    may_be_temporary=True,
    meaning=(
        "the server accepts no changes: default_transaction_read_only is on for this user, the database, the server or "
        "the connection string. It is not overridden, because it may protect a full disk, or a server that is about to "
        "be replaced; an administrator can RESET it"
    ),
)
_NO_SERVER = Fault(
    may_be_temporary=True,
    meaning=(
        "no server as target_session_attrs requires was found; with read-write, a primary on which "
        "default_transaction_read_only is on is none either"
    ),
)
_NO_DATABASE = Fault(meaning="there is no such database; create it, or correct the connection string")
_NO_LOGIN = Fault(meaning="the server refuses this user; correct the connection string, the password or pg_hba.conf")
_INVALID = Fault(meaning="a parameter of the connection string, a PG variable or the service file is invalid")
_NOT_ENCRYPTED = Fault(
    meaning="an encrypted connection is not possible as required; correct the certificates, the ssl parameters, or the "
    "server"
)
_HIDDEN = Fault(
    meaning=(
        "row security applies to this user and may hide rows, without which an order could be sent twice; give the "
        "user BYPASSRLS, or disable row security for the tables of the journal"
    )
)
#: Refused because others are open. (See ConnectionPool.)
TOO_MANY = Fault(may_be_temporary=True, meaning="too many connections are open")

#: By SQLSTATE, or by its first characters; the longest counts.
_BY_SQLSTATE: Mapping[str, Fault] = {
    "": Fault(),
    "08": _TEMPORARY,  # connection exception
    "23505": _TEMPORARY,  # unique violation: a new connection advances the identities
    "25": _TEMPORARY,  # invalid transaction state, among them the time limits that end a connection
    "25006": _READ_ONLY,
    "25P04": evolve(_TOO_SLOW, closes=True),
    "26": _TEMPORARY,  # a prepared statement or a cursor (34) that the session does not have
    "28": _NO_LOGIN,
    "34": _TEMPORARY,
    "3D": _NO_DATABASE,
    "40": Fault(may_be_temporary=True, closes=False),  # deadlock, serialization failure
    "42501": _NO_RIGHT,
    "42P01": _MISSING,
    "53": _TEMPORARY,  # insufficient resources
    "53100": Fault(may_be_temporary=True, closes=False, meaning="the server's disk is full"),
    "53300": TOO_MANY,
    "55006": _TEMPORARY,  # object in use
    "55P03": Fault(
        may_be_temporary=True, closes=False, meaning="another process held a lock for too long (time_limit)"
    ),
    "57": _TEMPORARY,  # shutdown, crash, starting up
    "57014": _TOO_SLOW,
    "57P04": _NO_DATABASE,  # dropped
    "58": _TEMPORARY,  # input/output error
}

#: By the text of an error without SQLSTATE: libpq has none for a connection that could not be opened. The first counts;
#: everything else, such as a refused connection or a time limit, may be temporary.
_BY_TEXT: Sequence[tuple[re.Pattern[str], Fault]] = [
    (re.compile(pattern, re.IGNORECASE), fault)
    for pattern, fault in (
        (r"^consuming input|^sending|^failed to resolve|could not translate|SSL SYSCALL|unexpected eof", _TEMPORARY),
        (r"too many|connection slots|no more connections|max\w* (number of )?(client|connection)", TOO_MANY),
        (r"session is (not )?read-only|hot standby mode", _NO_SERVER),
        (r'database "[^"]*" does not exist|no such database|cannot connect to invalid database', _NO_DATABASE),
        (r'permission denied for database|database "[^"]*" is not currently accepting connections', _NO_LOGIN),
        (r'role "[^"]*" does not exist|no such user|not permitted to log in|pg_hba\.conf|local user', _NO_LOGIN),
        (r"no password supplied|auth\w* failed|authentication (method|requirement)|SASL|SCRAM|requirepeer", _NO_LOGIN),
        (r"(^|: +)invalid |could not (match|parse) |path .* is too long|definition of service|service file", _INVALID),
        (r"unrecognized configuration parameter|permission denied to set|cannot be (set|changed)", _INVALID),
        (r"unsupported (startup parameter|frontend protocol)", _INVALID),
        (r"SSL|TLS|certificate|private key|GSSAPI|channel binding|encryption|ALPN", _NOT_ENCRYPTED),
        (r"permission denied", _NO_RIGHT),  # for the socket
    )
]
#: The start of the failure of one address, which has the name of the host.
_OF_ADDRESS = "connection to server "


def find_fault(error: Exception) -> Fault:
    """Return what an error of psycopg, of the system, or of reading a row means."""
    if not isinstance(error, psycopg.Error):
        return _TEMPORARY if isinstance(error, OSError) else Fault()
    if error.diag.source_function == "check_enable_rls":
        return _HIDDEN
    if error.sqlstate is not None:
        return _BY_SQLSTATE[max(filter(error.sqlstate.startswith, _BY_SQLSTATE), key=len)]
    if not isinstance(error, psycopg.OperationalError):
        return Fault()
    # Each address that was tried has a failure of its own.
    text = str(error)
    failures = [part.partition(" failed: ")[2] for part in text.split(_OF_ADDRESS)[1:]] or [text]
    faults = [_find_by_text(failure.partition("\n")[0]) for failure in failures]
    return next((fault for fault in faults if fault.may_be_temporary), faults[0])


def is_of_statement(error: BaseException) -> bool:
    """Return whether other statements may be executed at once: the error is not that of the server, the network or a
    lock, which would delay them too."""
    if not isinstance(error, psycopg.Error | OSError) or not find_fault(error).may_be_temporary:
        return True
    return isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(("23", "40"))


def _find_by_text(failure: str) -> Fault:
    return next((fault for pattern, fault in _BY_TEXT if pattern.search(failure)), _TEMPORARY)
