-- What each attempt counts for in a budget, in SQLite and in PostgreSQL.

-- name: set_costs
UPDATE attempts SET (spent, estimated, unknown) = (
    SELECT costs.spent, costs.estimated, costs.unknown FROM costs
    WHERE costs.service = attempts.service AND costs.account = attempts.account
    AND costs.order_id = attempts.order_id AND costs.n = attempts.n
)

-- name: has_adoption
(service, account, order_id) IN (SELECT service, account, order_id FROM attempts WHERE kind = 'adopt')

-- A task is counted once, also if several attempts have its receipt. So is one that an operator adopted: it is that of an
-- attempt without outcome, of the latest ones of the order, and these are not counted. Points that no service states count
-- as unknown.
-- name: costs
SELECT
    service, account, order_id, n, outcome, status, is_counted,
    CASE WHEN is_counted AND points IS NOT NULL THEN points ELSE 0 END AS spent,
    CASE WHEN is_counted AND points IS NULL THEN coalesce(reserved, 0) ELSE 0 END AS estimated,
    CASE WHEN is_counted AND points IS NULL AND reserved IS NULL THEN 1 ELSE 0 END AS unknown
FROM (
    SELECT
        attempts.service, attempts.account, attempts.order_id, attempts.n, reserved, outcome,
        (
            SELECT status FROM results
            WHERE results.service = evidence.service AND results.task_id = evidence.task_id
        ) AS status,
        coalesce(outcome, '') NOT IN ('not_sent', 'rejected') AND NOT EXISTS (
            SELECT 1 FROM evidence AS earlier
            WHERE earlier.service = evidence.service AND earlier.task_id = evidence.task_id
            AND earlier.account = evidence.account AND earlier.outcome = 'accepted'
            AND evidence.outcome = 'accepted' AND earlier.id < evidence.id
        ) AND NOT CASE WHEN coalesce(outcome, 'uncertain') = 'uncertain' THEN ({adopted}) > ({open}) ELSE false END
        AS is_counted,
        (
            SELECT points FROM results
            WHERE results.service = evidence.service AND results.task_id = evidence.task_id
            AND evidence.outcome = 'accepted' AND points BETWEEN 0 AND 1000000000000
        ) AS points
    FROM attempts LEFT JOIN evidence ON evidence.id = (
        SELECT max(latest.id) FROM evidence AS latest
        WHERE latest.service = attempts.service AND latest.account = attempts.account
        AND latest.order_id = attempts.order_id AND latest.n = attempts.n
    )
) AS counted

-- The number of tasks that were adopted after the attempt, and that no send of the order has as its receipt.
-- name: adopted
SELECT count(DISTINCT adoption.task_id)
FROM attempts AS later JOIN evidence AS adoption ON adoption.service = later.service
    AND adoption.account = later.account AND adoption.order_id = later.order_id AND adoption.n = later.n
WHERE later.service = attempts.service AND later.account = attempts.account AND later.order_id = attempts.order_id
AND later.n > attempts.n AND later.kind = 'adopt' AND NOT EXISTS (
    SELECT 1 FROM evidence AS receipt JOIN attempts AS send ON send.service = receipt.service
        AND send.account = receipt.account AND send.order_id = receipt.order_id AND send.n = receipt.n
    WHERE receipt.service = later.service AND receipt.account = later.account AND receipt.order_id = later.order_id
    AND receipt.task_id = adoption.task_id AND receipt.outcome = 'accepted' AND send.kind <> 'adopt'
)

-- The number of later sends of the order that have no outcome.
-- name: open
SELECT count(*) FROM attempts AS later
WHERE later.service = attempts.service AND later.account = attempts.account AND later.order_id = attempts.order_id
AND later.n > attempts.n AND NOT EXISTS (
    SELECT 1 FROM evidence AS known
    WHERE known.service = later.service AND known.account = later.account
    AND known.order_id = later.order_id AND known.n = later.n AND known.outcome <> 'uncertain'
)
