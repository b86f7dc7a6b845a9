-- What each attempt counts for in a budget, in SQLite and in PostgreSQL.

-- name: set_costs
UPDATE attempts SET (spent, estimated, unknown) = (
    SELECT costs.spent, costs.estimated, costs.unknown FROM costs
    WHERE costs.service = attempts.service AND costs.account = attempts.account
    AND costs.order_id = attempts.order_id AND costs.n = attempts.n
)

-- A task is counted once, also if several attempts have its receipt. Points that no service states count as unknown.
-- name: costs
CREATE VIEW costs AS
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
        ) AS is_counted,
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
