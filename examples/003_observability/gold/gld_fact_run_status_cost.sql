SELECT CAST(date_format(r.ended_at, 'yyyyMMdd') AS INT) AS date_sk, r.workspace_id, r.result_state, r.termination_code,
  count(*) AS runs, sum(r.seconds) AS seconds, CAST(sum(r.list_cost) AS DECIMAL(38, 14)) AS list_cost
FROM runs r
WHERE r.result_state IS NOT NULL
GROUP BY CAST(date_format(r.ended_at, 'yyyyMMdd') AS INT), r.workspace_id, r.result_state, r.termination_code
