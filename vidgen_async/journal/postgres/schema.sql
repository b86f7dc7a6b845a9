-- The statements that upgrade each version of the tables in PostgreSQL to the next. All of them are executed for a new
-- schema. They leave the statements of the release before valid, because its processes may be running meanwhile.

-- name: first
CREATE TABLE namespace (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    word  TEXT NOT NULL
);

CREATE TABLE orders (
    id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service          TEXT NOT NULL,
    account          TEXT NOT NULL,
    order_id         TEXT NOT NULL,
    idempotency_key  TEXT NOT NULL,
    body             BYTEA NOT NULL,
    created_at       BIGINT NOT NULL,
    local_images     TEXT NOT NULL,
    stage            TEXT NOT NULL DEFAULT 'queued',
    UNIQUE (service, account, order_id)
);

CREATE INDEX orders_by_stage ON orders (service, account, stage, id, created_at);

CREATE TABLE attempts (
    service      TEXT NOT NULL,
    account      TEXT NOT NULL,
    order_id     TEXT NOT NULL,
    n            INTEGER NOT NULL,
    sent_at      BIGINT NOT NULL,
    deadline_at  BIGINT NOT NULL,
    kind         TEXT NOT NULL,
    "by"         TEXT NOT NULL,
    reason       TEXT NOT NULL,
    counted_at   BIGINT,
    session      BIGINT,
    PRIMARY KEY (service, account, order_id, n),
    FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
);

CREATE INDEX attempts_by_counted_at ON attempts (service, account, counted_at);

CREATE TABLE evidence (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service         TEXT NOT NULL,
    account         TEXT NOT NULL,
    order_id        TEXT NOT NULL,
    n               INTEGER NOT NULL,
    outcome         TEXT NOT NULL,
    at              BIGINT NOT NULL,
    status          INTEGER,
    task_id         TEXT,
    cause           TEXT NOT NULL,
    body            BYTEA NOT NULL,
    extra           TEXT NOT NULL,
    answered        BOOLEAN NOT NULL,
    headers         TEXT NOT NULL,
    request_id      TEXT,
    candidates      TEXT NOT NULL,
    balance_before  TEXT,
    balance_after   TEXT,
    retry_at        BIGINT,
    FOREIGN KEY (service, account, order_id, n) REFERENCES attempts (service, account, order_id, n)
);

CREATE INDEX evidence_by_account ON evidence (service, account, id);

CREATE INDEX evidence_by_attempt ON evidence (service, account, order_id, n);

CREATE INDEX evidence_by_retry_at ON evidence (service, account, retry_at) WHERE retry_at IS NOT NULL;

CREATE INDEX evidence_by_task ON evidence (service, task_id) WHERE task_id IS NOT NULL;

CREATE TABLE closings (
    id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service   TEXT NOT NULL,
    account   TEXT NOT NULL,
    order_id  TEXT NOT NULL,
    state     TEXT NOT NULL,
    at        BIGINT NOT NULL,
    reason    TEXT NOT NULL,
    "by"      TEXT NOT NULL,
    FOREIGN KEY (service, account, order_id) REFERENCES orders (service, account, order_id)
);

CREATE INDEX closings_by_order ON closings (service, account, order_id);

CREATE TABLE results (
    service         TEXT NOT NULL,
    task_id         TEXT NOT NULL,
    status          TEXT NOT NULL,
    at              BIGINT NOT NULL,
    points          BIGINT,
    failure_reason  TEXT,
    PRIMARY KEY (service, task_id)
);

CREATE TABLE candidates (
    service   TEXT NOT NULL,
    account   TEXT NOT NULL,
    task_id   TEXT NOT NULL,
    order_id  TEXT NOT NULL,
    PRIMARY KEY (service, account, task_id, order_id)
);

-- name: marks
ALTER TABLE attempts ADD COLUMN mark TEXT NOT NULL DEFAULT '';

-- reserved is what the budget of its client has estimated, NULL if that is unknown. What the attempt counts for is in spent
-- (points that the service has stated), or estimated, or unknown (1). The sums of these by minute and by day, of sent_at,
-- are in spending; start is in seconds since 1970. The triggers compute all that, also for processes of the release before.
-- name: budgets
ALTER TABLE orders ADD COLUMN model TEXT NOT NULL DEFAULT '';

ALTER TABLE attempts
    ADD COLUMN reserved BIGINT,
    ADD COLUMN spent BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN estimated BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN unknown BIGINT NOT NULL DEFAULT 0;

CREATE TABLE spending (
    service    TEXT NOT NULL,
    account    TEXT NOT NULL,
    seconds    INTEGER NOT NULL,
    start      BIGINT NOT NULL,
    spent      BIGINT NOT NULL,
    estimated  BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    PRIMARY KEY (service, account, seconds, start)
);

CREATE VIEW costs AS {costs};

CREATE FUNCTION add_spending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spending (service, account, seconds, start, spent, estimated, unknown)
    SELECT
        NEW.service, NEW.account, seconds, NEW.sent_at / 1000000 / seconds * seconds,
        NEW.spent - OLD.spent, NEW.estimated - OLD.estimated, NEW.unknown - OLD.unknown
    FROM (VALUES (60), (86400)) AS sizes (seconds)
    ON CONFLICT (service, account, seconds, start) DO UPDATE SET
        spent = spending.spent + excluded.spent,
        estimated = spending.estimated + excluded.estimated,
        unknown = spending.unknown + excluded.unknown;
    RETURN NULL;
END
$$;

CREATE FUNCTION set_costs_of_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {set_costs} WHERE service = NEW.service AND account = NEW.account AND order_id = NEW.order_id AND n = NEW.n;
    RETURN NULL;
END
$$;

CREATE FUNCTION set_costs_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {set_costs} WHERE service = NEW.service AND (account, order_id, n) IN (
        SELECT account, order_id, n FROM evidence WHERE service = NEW.service AND task_id = NEW.task_id
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER spending_of_attempts AFTER UPDATE OF spent, estimated, unknown ON attempts FOR EACH ROW
WHEN (NEW.spent <> OLD.spent OR NEW.estimated <> OLD.estimated OR NEW.unknown <> OLD.unknown)
EXECUTE FUNCTION add_spending();

CREATE TRIGGER costs_after_attempts AFTER INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION set_costs_of_attempt();

CREATE TRIGGER costs_after_evidence AFTER INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION set_costs_of_attempt();

CREATE TRIGGER costs_after_results AFTER INSERT ON results FOR EACH ROW EXECUTE FUNCTION set_costs_of_task();

{set_costs};

-- An adoption changes what the other attempts of its order count for.
-- name: adoptions
CREATE OR REPLACE VIEW costs AS {costs};

CREATE OR REPLACE FUNCTION set_costs_of_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {set_costs} WHERE service = NEW.service AND account = NEW.account AND order_id = NEW.order_id;
    RETURN NULL;
END
$$;

{set_costs} WHERE {has_adoption};
