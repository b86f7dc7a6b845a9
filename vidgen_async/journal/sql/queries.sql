-- The statements of journals, which SQLite and PostgreSQL execute. Parameters are written :name.

-- name: add_order
INSERT INTO orders (service, account, order_id, idempotency_key, model, body, local_images, created_at)
VALUES (:service, :account, :order_id, :idempotency_key, :model, :body, :local_images, :created_at)
ON CONFLICT (service, account, order_id) DO NOTHING
RETURNING id

-- name: add_attempt
INSERT INTO attempts (
    service, account, order_id, n, sent_at, deadline_at, kind, "by", reason, mark, reserved, counted_at
)
VALUES (
    :service, :account, :order_id, :n, :sent_at, :deadline_at, :kind, :by, :reason, :mark, :reserved, :counted_at
)
RETURNING n

-- name: add_evidence
INSERT INTO evidence (
    service, account, order_id, n, outcome, at, status, task_id, cause, body, extra, answered, headers, request_id,
    candidates, balance_before, balance_after, retry_at
)
VALUES (
    :service, :account, :order_id, :n, :outcome, :at, :status, :task_id, :cause, :body, :extra, :answered, :headers,
    :request_id, :candidates, :balance_before, :balance_after, :retry_at
)

-- name: add_candidate
INSERT INTO candidates (service, account, order_id, task_id) VALUES (:service, :account, :order_id, :task_id)
ON CONFLICT (service, account, task_id, order_id) DO NOTHING

-- name: add_closing
INSERT INTO closings (service, account, order_id, state, at, reason, "by")
VALUES (:service, :account, :order_id, :state, :at, :reason, :by)

-- name: add_result
INSERT INTO results (service, task_id, status, at, points, failure_reason)
SELECT :service, :task_id, :status, :at, CAST(:points AS BIGINT), :failure_reason
WHERE EXISTS (SELECT 1 FROM evidence WHERE service = :service AND task_id = :task_id)
ON CONFLICT (service, task_id) DO NOTHING

-- name: set_counted_at
UPDATE attempts SET counted_at = :counted_at
WHERE service = :service AND account = :account AND order_id = :order_id AND n = :n

-- The state of an order is computed from what is known about its attempts. It is stored too, so that a list need not
-- compute that of every order; an accepted order whose tasks are all terminal is in a stage of its own.
-- name: set_stage_of_order
UPDATE orders SET stage = {stage} WHERE service = :service AND account = :account AND order_id = :order_id

-- name: set_stage_of_task
UPDATE orders SET stage = {stage}
WHERE service = :service AND (account, order_id) IN (
    SELECT account, order_id FROM evidence WHERE service = :service AND task_id = :task_id AND outcome = 'accepted'
)

-- name: stage
CASE
    WHEN :state = 'accepted' AND NOT EXISTS (
        SELECT 1 FROM evidence
        WHERE service = orders.service AND account = orders.account AND order_id = orders.order_id
        AND outcome = 'accepted' AND {is_running}
    ) THEN 'ended'
    ELSE :state
END

-- PostgreSQL would turn NOT EXISTS into a join that reads all results for each page.
-- name: is_running
(SELECT 1 FROM results WHERE service = evidence.service AND task_id = evidence.task_id) IS NULL

-- Evidence is written only if it adds knowledge, so the latest evidence is the one that counts.
-- name: latest_evidence
LEFT JOIN evidence ON evidence.id = (
    SELECT max(latest.id) FROM evidence AS latest
    WHERE latest.service = attempts.service AND latest.account = attempts.account
    AND latest.order_id = attempts.order_id AND latest.n = attempts.n
)

-- The latest closing counts.
-- name: latest_closing
LEFT JOIN closings ON closings.id = (
    SELECT max(latest.id) FROM closings AS latest
    WHERE latest.service = orders.service AND latest.account = orders.account AND latest.order_id = orders.order_id
)

-- {which} is the condition for an order id.
-- name: read_orders
SELECT
    orders.order_id, idempotency_key, model, body, local_images, created_at,
    closings.state, closings.at, closings.reason, closings."by"
FROM orders {latest_closing}
WHERE orders.service = :service AND orders.account = :account AND orders.order_id {which}
ORDER BY orders.id

-- With the result of each task.
-- name: read_attempts
SELECT
    attempts.order_id, attempts.n, sent_at, deadline_at, kind, "by", reason, mark, reserved,
    outcome, evidence.at, evidence.status, evidence.task_id, cause, body, extra, answered, headers, request_id,
    candidates, balance_before, balance_after, retry_at,
    results.status AS result, results.at AS result_at, points, failure_reason
FROM attempts {latest_evidence} {result}
WHERE attempts.service = :service AND attempts.account = :account AND attempts.order_id {which}
ORDER BY attempts.n

-- name: result
LEFT JOIN results ON results.service = evidence.service AND results.task_id = evidence.task_id

-- The same without what takes long to read.
-- name: read_brief_orders
SELECT
    orders.order_id, '' AS idempotency_key, model, '' AS body, '{}' AS local_images, created_at,
    closings.state, closings.at, '' AS reason, '' AS "by"
FROM orders {latest_closing}
WHERE orders.service = :service AND orders.account = :account AND orders.order_id {which}
ORDER BY orders.id

-- name: read_brief_attempts
SELECT
    attempts.order_id, attempts.n, sent_at, deadline_at, kind, '' AS "by", '' AS reason, '' AS mark, reserved,
    outcome, evidence.at, evidence.status, evidence.task_id, '' AS cause, '' AS body, '{}' AS extra, answered,
    '[]' AS headers, request_id, '[]' AS candidates, NULL AS balance_before, NULL AS balance_after, NULL AS retry_at,
    results.status AS result, results.at AS result_at, points, '' AS failure_reason
FROM attempts {latest_evidence} {result}
WHERE attempts.service = :service AND attempts.account = :account AND attempts.order_id {which}
ORDER BY attempts.n

-- {rows} are the ids of rows of orders.
-- name: of_rows
IN (SELECT order_id FROM orders WHERE id IN ({rows}))

-- name: find_row
SELECT id FROM orders WHERE service = :service AND account = :account AND order_id = :order_id

-- name: find_oldest
SELECT id FROM orders
WHERE service = :service AND account = :account AND stage = :stage AND id > :after AND created_at >= :since
ORDER BY id LIMIT :size

-- name: find_newest
SELECT id FROM orders
WHERE service = :service AND account = :account AND stage = :stage AND id < :after AND created_at >= :since
ORDER BY id DESC LIMIT :size

-- Not DISTINCT, which would read every order.
-- name: find_next_account
SELECT service, account FROM orders WHERE (service, account) > (:service, :account)
ORDER BY service, account LIMIT 1

-- name: find_owner
SELECT account, order_id FROM evidence
WHERE service = :service AND task_id = :task_id AND outcome = 'accepted'
AND (account, order_id) <> (:account, :order_id)
ORDER BY id LIMIT 1

-- name: find_other_candidate
SELECT 1 FROM candidates
WHERE service = :service AND account = :account AND task_id = :task_id AND order_id <> :order_id
LIMIT 1

-- A page is a range of ids of the account, and only its rows are read, also if nearly all stored tasks are terminal.
-- name: find_end_of_page
SELECT id FROM evidence WHERE service = :service AND account = :account AND id > :after
ORDER BY id LIMIT 1 OFFSET :size - 1

-- name: read_running
SELECT order_id, task_id, at FROM evidence
WHERE service = :service AND account = :account AND id > :after AND id <= :until
AND outcome = 'accepted' AND task_id <> '' AND {is_running}
ORDER BY id

-- A 429 in the future was received before the clock was set back: it pauses nothing.
-- name: count_held_slots
SELECT
    count(*) AS used,
    (
        SELECT max(retry_at) FROM evidence
        WHERE service = :service AND account = :account AND retry_at > :since AND at <= :newest_at
    ) AS retry_at
FROM (
    SELECT 1 FROM attempts WHERE service = :service AND account = :account AND counted_at > :since LIMIT :limit
) AS held

-- name: read_held_slots
SELECT attempts.order_id, attempts.n, sent_at, deadline_at, outcome, at, answered, counted_at
FROM attempts {latest_evidence}
WHERE attempts.service = :service AND attempts.account = :account AND counted_at > :since

-- The sums of a window: of the minutes until its first complete day, and of its days.
-- name: read_spending
SELECT
    CAST(coalesce(sum(spent), 0) AS BIGINT) AS spent,
    CAST(coalesce(sum(estimated), 0) AS BIGINT) AS reserved,
    CAST(coalesce(sum(unknown), 0) AS BIGINT) AS unknown
FROM (
    SELECT spent, estimated, unknown FROM spending
    WHERE service = :service AND account = :account AND seconds = 60 AND start >= :minute AND start < :day
    UNION ALL
    SELECT spent, estimated, unknown FROM spending
    WHERE service = :service AND account = :account AND seconds = 86400 AND start >= :day
) AS sums

-- name: read_sums
SELECT start, spent, estimated AS reserved, unknown FROM spending
WHERE service = :service AND account = :account AND seconds = :seconds AND start >= :since AND start < :until
ORDER BY start

-- The attempts of a page of orders that count, by model, state and quarter of an hour: time zones differ by such.
-- name: read_spend
SELECT
    model, coalesce(status, {state_of_attempt}) AS state,
    sent_at / 900000000 * 900 AS start,
    CAST(count(*) AS BIGINT) AS attempts,
    CAST(sum(CASE WHEN outcome = 'accepted' THEN 1 ELSE 0 END) AS BIGINT) AS tasks,
    CAST(sum(costs.spent) AS BIGINT) AS spent,
    CAST(sum(costs.estimated) AS BIGINT) AS reserved,
    CAST(sum(costs.unknown) AS BIGINT) AS unknown
FROM orders
JOIN attempts ON attempts.service = orders.service AND attempts.account = orders.account
    AND attempts.order_id = orders.order_id
JOIN costs ON costs.service = attempts.service AND costs.account = attempts.account
    AND costs.order_id = attempts.order_id AND costs.n = attempts.n
WHERE orders.service = :service AND orders.account = :account AND orders.id > :after AND orders.id <= :until
AND sent_at >= :since AND is_counted
GROUP BY model, coalesce(status, {state_of_attempt}), sent_at / 900000000 * 900

-- Of an order with a task, each attempt has its own.
-- name: state_of_attempt
CASE WHEN stage IN ('accepted', 'ended') THEN coalesce(outcome, 'sending') ELSE stage END

-- name: find_end_of_orders
SELECT id FROM orders WHERE id > :after ORDER BY id LIMIT 1 OFFSET :size - 1

-- What no trigger has computed: a replica has none, and neither has a copy of the rows alone.
-- name: verify_costs
{set_costs}
WHERE service = :service AND account = :account AND EXISTS (
    SELECT 1 FROM costs
    WHERE costs.service = attempts.service AND costs.account = attempts.account
    AND costs.order_id = attempts.order_id AND costs.n = attempts.n
    AND (
        costs.spent <> attempts.spent OR costs.estimated <> attempts.estimated OR costs.unknown <> attempts.unknown
    )
)

-- name: verify_spending
INSERT INTO spending (service, account, seconds, start, spent, estimated, unknown)
SELECT :service, :account, seconds, start, sum(spent), sum(estimated), sum(unknown)
FROM (
    SELECT seconds, sent_at / 1000000 / seconds * seconds AS start, spent, estimated, unknown
    FROM attempts CROSS JOIN (SELECT 60 AS seconds UNION ALL SELECT 86400) AS sizes
    WHERE service = :service AND account = :account
    UNION ALL
    SELECT seconds, start, 0, 0, 0 FROM spending WHERE service = :service AND account = :account
) AS sums
GROUP BY seconds, start
ON CONFLICT (service, account, seconds, start) DO UPDATE SET
    spent = excluded.spent, estimated = excluded.estimated, unknown = excluded.unknown
WHERE spending.spent <> excluded.spent OR spending.estimated <> excluded.estimated
OR spending.unknown <> excluded.unknown

-- name: add_namespace
INSERT INTO namespace (id, word) VALUES (1, :word) ON CONFLICT (id) DO NOTHING

-- name: read_namespace
SELECT word FROM namespace
