"""Checks whether what a create will write can be written, before anything is sent."""

import secrets
from collections.abc import Mapping

from vidgen_async.journal.sql.queries import Database

_ADD_NOTHING = "add_{0} AS (INSERT INTO {0} (service) SELECT '' FROM {0} WHERE false)"
_TABLES = ("orders", "attempts", "evidence", "closings", "results", "candidates", "spending")
#: Changes nothing, but needs the rights to do so, and that no row is hidden: otherwise it is an error.
CHECK_RIGHTS = f"""
    WITH
        {", ".join(map(_ADD_NOTHING.format, _TABLES))},
        change_orders AS (UPDATE orders SET stage = stage WHERE false),
        change_attempts AS (UPDATE attempts SET counted_at = counted_at, session = session WHERE false),
        change_spending AS (UPDATE spending SET spent = spent WHERE false)
    SELECT 1
"""  # noqa: S608 - made of constants
#: For each table with an identity, the columns without a default, and their values in a row like the newest one.
_ROWS: Mapping[str, tuple[str, str]] = {
    "orders": (
        "service, account, order_id, idempotency_key, body, created_at, local_images",
        "service, account, order_id || :mark || number, '', '', 0, ''",
    ),
    "evidence": (
        "service, account, order_id, n, outcome, at, cause, body, extra, answered, headers, candidates",
        "service, account, order_id, n, '', 0, '', '', '', false, '', ''",
    ),
    "closings": (
        'service, account, order_id, state, at, reason, "by"',
        "service, account, order_id, '', 0, '', ''",
    ),
}


def advance_identities(db: Database) -> None:
    """Advance each identity behind the newest row of its table.

    The server counts identities outside the tables. Logical replication, and a restored copy of the rows alone, do not
    bring the count along, so that it begins again: a receipt could not be stored, because its identity exists, or it
    would be before what is known about its attempt.

    This needs no right to the sequences: rows are inserted, which the caller must roll back, and each takes an identity
    all the same. One whose identity exists is left out, which takes a few microseconds.
    """
    for table, (columns, values) in _ROWS.items():
        query = f"SELECT max(id) AS id, has_table_privilege('{table}', 'INSERT') AS is_granted FROM {table}"  # noqa: S608
        insert = f"""
            INSERT INTO {table} ({columns})
            SELECT {values} FROM (SELECT * FROM {table} ORDER BY id DESC LIMIT 1) AS newest,
            generate_series(1, CAST(:count AS BIGINT)) AS number
            ON CONFLICT (id) DO NOTHING RETURNING id
        """  # noqa: S608 - made of constants
        newest = db.execute(query, {}).fetchone()
        if newest["id"] is None or not newest["is_granted"]:
            continue
        mark = secrets.token_hex(8)
        row = db.execute(insert, {"mark": mark, "count": 1}).fetchone()
        if row is None or row["id"] <= newest["id"]:
            db.execute(insert, {"mark": f"{mark}-", "count": newest["id"]}).fetchall()
