-- The statements that upgrade each version of a journal file to the next. All of them are executed for a new file.

-- name: first
CREATE TABLE namespace (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    word  TEXT NOT NULL
) STRICT;

CREATE TABLE orders (
    id               INTEGER PRIMARY KEY,
    service          TEXT NOT NULL,
    account          TEXT NOT NULL,
    order_id         TEXT NOT NULL,
    idempotency_key  TEXT NOT NULL,
    body             BLOB NOT NULL,
    created_at       INTEGER NOT NULL,
    UNIQUE (service, account, order_id)
) STRICT;

CREATE TABLE attempts (
    service      TEXT NOT NULL,
    account      TEXT NOT NULL,
    order_id     TEXT NOT NULL,
    n            INTEGER NOT NULL,
    sent_at      INTEGER NOT NULL,
    deadline_at  INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    "by"         TEXT NOT NULL,
    reason       TEXT NOT NULL,
    counted_at   INTEGER,
    PRIMARY KEY (service, account, order_id, n),
    FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempts_by_counted_at ON attempts (service, account, counted_at);

CREATE TABLE evidence (
    id        INTEGER PRIMARY KEY,
    service   TEXT NOT NULL,
    account   TEXT NOT NULL,
    order_id  TEXT NOT NULL,
    n         INTEGER NOT NULL,
    outcome   TEXT NOT NULL,
    at        INTEGER NOT NULL,
    status    INTEGER,
    task_id   TEXT,
    cause     TEXT NOT NULL,
    body      BLOB NOT NULL,
    extra     TEXT NOT NULL,
    answered  INTEGER NOT NULL,
    FOREIGN KEY (service, account, order_id, n) REFERENCES attempts (service, account, order_id, n)
) STRICT;

CREATE INDEX evidence_by_attempt ON evidence (service, account, order_id, n);

CREATE INDEX evidence_by_task ON evidence (service, task_id) WHERE task_id IS NOT NULL;

CREATE TABLE closings (
    id        INTEGER PRIMARY KEY,
    service   TEXT NOT NULL,
    account   TEXT NOT NULL,
    order_id  TEXT NOT NULL,
    state     TEXT NOT NULL,
    at        INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    "by"      TEXT NOT NULL,
    FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
) STRICT;

CREATE INDEX closings_by_order ON closings (service, account, order_id);

-- name: results
CREATE TABLE results (
    service         TEXT NOT NULL,
    task_id         TEXT NOT NULL,
    status          TEXT NOT NULL,
    at              INTEGER NOT NULL,
    points          INTEGER,
    failure_reason  TEXT,
    PRIMARY KEY (service, task_id)
) STRICT, WITHOUT ROWID;

-- name: confirmation
ALTER TABLE evidence ADD COLUMN headers TEXT NOT NULL DEFAULT '[]';

ALTER TABLE evidence ADD COLUMN request_id TEXT;

ALTER TABLE evidence ADD COLUMN candidates TEXT NOT NULL DEFAULT '[]';

CREATE TABLE candidates (
    service   TEXT NOT NULL,
    account   TEXT NOT NULL,
    task_id   TEXT NOT NULL,
    order_id  TEXT NOT NULL,
    PRIMARY KEY (service, account, task_id, order_id)
) STRICT, WITHOUT ROWID;

-- name: balances
ALTER TABLE evidence ADD COLUMN balance_before TEXT;

ALTER TABLE evidence ADD COLUMN balance_after TEXT;

-- name: local_images
ALTER TABLE orders ADD COLUMN local_images TEXT NOT NULL DEFAULT '{}';

-- stage is the state of the order, or 'ended' if all its tasks are terminal. It is computed from the other tables
-- whenever they change, and stored so that a list only reads orders that it may have. The triggers compute it for
-- processes of the release before, which have opened the file and do not know the column.
-- name: lists
ALTER TABLE orders ADD COLUMN stage TEXT NOT NULL DEFAULT 'queued';

UPDATE orders SET stage = {stage};

CREATE TRIGGER stage_after_attempts AFTER INSERT ON attempts
BEGIN
    UPDATE orders SET stage = {stage} WHERE {is_of_new_row};
END;

CREATE TRIGGER stage_after_evidence AFTER INSERT ON evidence
BEGIN
    UPDATE orders SET stage = {stage} WHERE {is_of_new_row};
END;

CREATE TRIGGER stage_after_closings AFTER INSERT ON closings
BEGIN
    UPDATE orders SET stage = {stage} WHERE {is_of_new_row};
END;

CREATE TRIGGER stage_after_results AFTER INSERT ON results
BEGIN
    UPDATE orders SET stage = {stage}
    WHERE service = NEW.service AND (account, order_id) IN (
        SELECT account, order_id FROM evidence WHERE service = NEW.service AND task_id = NEW.task_id
    );
END;

CREATE INDEX orders_by_stage ON orders (service, account, stage, id, created_at);

-- It ends with the id of the row.
CREATE INDEX evidence_by_account ON evidence (service, account);

-- When a create of the account may start again after a 429.
ALTER TABLE evidence ADD COLUMN retry_at INTEGER;

CREATE INDEX evidence_by_retry_at ON evidence (service, account, retry_at) WHERE retry_at IS NOT NULL;

-- name: is_of_new_row
service = NEW.service AND account = NEW.account AND order_id = NEW.order_id

-- name: stage
CASE
    WHEN EXISTS (
        {has_attempt} 'accepted' AND NOT EXISTS (
            SELECT 1 FROM results WHERE service = evidence.service AND task_id = evidence.task_id
        )
    ) THEN 'accepted'
    WHEN EXISTS ({has_attempt} 'accepted') THEN 'ended'
    WHEN EXISTS ({has_attempt} 'sending') THEN 'sending'
    WHEN EXISTS ({has_attempt} 'uncertain') AND coalesce(({closing}), '') <> 'abandoned' THEN 'uncertain'
    ELSE coalesce(({closing}), CASE WHEN EXISTS ({has_attempt} 'rejected') THEN 'rejected' ELSE 'queued' END)
END

-- name: has_attempt
SELECT 1 FROM attempts LEFT JOIN evidence ON evidence.id = (
    SELECT max(id) FROM evidence AS latest
    WHERE latest.service = attempts.service AND latest.account = attempts.account
    AND latest.order_id = attempts.order_id AND latest.n = attempts.n
)
WHERE attempts.service = orders.service AND attempts.account = orders.account
AND attempts.order_id = orders.order_id AND coalesce(outcome, 'sending') =

-- name: closing
SELECT state FROM closings
WHERE service = orders.service AND account = orders.account AND order_id = orders.order_id
ORDER BY id DESC LIMIT 1

-- name: marks
ALTER TABLE attempts ADD COLUMN mark TEXT NOT NULL DEFAULT '';

-- session is the mark of the lock that the sender holds while it runs, NULL if it holds none. reserved is what the budget
-- of its client has estimated, NULL if that is unknown. What the attempt counts for is in spent (points that the service
-- has stated), or estimated, or unknown (1). The sums of these by minute and by day, of sent_at, are in spending; start is
-- in seconds since 1970. The triggers compute all that, also for processes of the release before.
-- name: budgets
ALTER TABLE orders ADD COLUMN model TEXT NOT NULL DEFAULT '';

ALTER TABLE attempts ADD COLUMN session TEXT;

ALTER TABLE attempts ADD COLUMN reserved INTEGER;

ALTER TABLE attempts ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;

ALTER TABLE attempts ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;

ALTER TABLE attempts ADD COLUMN unknown INTEGER NOT NULL DEFAULT 0;

CREATE TABLE spending (
    service    TEXT NOT NULL,
    account    TEXT NOT NULL,
    seconds    INTEGER NOT NULL,
    start      INTEGER NOT NULL,
    spent      INTEGER NOT NULL,
    estimated  INTEGER NOT NULL,
    unknown    INTEGER NOT NULL,
    PRIMARY KEY (service, account, seconds, start)
) STRICT, WITHOUT ROWID;

CREATE VIEW costs AS {costs};

CREATE TRIGGER spending_of_attempts AFTER UPDATE OF spent, estimated, unknown ON attempts
WHEN NEW.spent <> OLD.spent OR NEW.estimated <> OLD.estimated OR NEW.unknown <> OLD.unknown
BEGIN
    INSERT INTO spending (service, account, seconds, start, spent, estimated, unknown)
    SELECT
        NEW.service, NEW.account, seconds, NEW.sent_at / 1000000 / seconds * seconds,
        NEW.spent - OLD.spent, NEW.estimated - OLD.estimated, NEW.unknown - OLD.unknown
    FROM (SELECT 60 AS seconds UNION ALL SELECT 86400) WHERE true
    ON CONFLICT (service, account, seconds, start) DO UPDATE SET
        spent = spent + excluded.spent, estimated = estimated + excluded.estimated, unknown = unknown + excluded.unknown;
END;

CREATE TRIGGER costs_after_attempts AFTER INSERT ON attempts
BEGIN
    {set_costs} WHERE {is_of_new_row} AND n = NEW.n;
END;

CREATE TRIGGER costs_after_evidence AFTER INSERT ON evidence
BEGIN
    {set_costs} WHERE {is_of_new_row} AND n = NEW.n;
END;

CREATE TRIGGER costs_after_results AFTER INSERT ON results
BEGIN
    {set_costs} WHERE service = NEW.service AND (account, order_id, n) IN (
        SELECT account, order_id, n FROM evidence WHERE service = NEW.service AND task_id = NEW.task_id
    );
END;

{set_costs};

-- An adoption changes what the other attempts of its order count for.
-- name: adoptions
DROP VIEW costs;

CREATE VIEW costs AS {costs};

DROP TRIGGER costs_after_attempts;

DROP TRIGGER costs_after_evidence;

CREATE TRIGGER costs_after_attempts AFTER INSERT ON attempts
BEGIN
    {set_costs} WHERE {is_of_new_row};
END;

CREATE TRIGGER costs_after_evidence AFTER INSERT ON evidence
BEGIN
    {set_costs} WHERE {is_of_new_row};
END;

{set_costs} WHERE {has_adoption};
