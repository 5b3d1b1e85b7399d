-- A run with what it cost. Either may be known before the other; a run without `result_state` has not ended.
SELECT s.workspace_id, s.job_id, s.run_id, min(s.began_at) AS began_at, max(s.ended_at) AS ended_at,
  max(s.result_state) AS result_state, max(s.termination_code) AS termination_code, sum(s.seconds) AS seconds,
  CAST(sum(s.list_cost) AS DECIMAL(38, 14)) AS list_cost
FROM (
  SELECT r.workspace_id, r.job_id, r.run_id, r.period_start_time AS began_at, r.period_end_time AS ended_at,
    r.result_state, if(r.result_state IS NULL, NULL, coalesce(r.termination_code, 'NONE')) AS termination_code,
    r.seconds, CAST(0 AS DECIMAL(38, 14)) AS list_cost
  FROM runs r
  UNION ALL
  SELECT u.workspace_id, u.entity_id AS job_id, u.run_id, CAST(NULL AS TIMESTAMP) AS began_at,
    CAST(NULL AS TIMESTAMP) AS ended_at, CAST(NULL AS STRING) AS result_state, CAST(NULL AS STRING) AS termination_code,
    0L AS seconds, u.list_cost
  FROM usage u
  WHERE u.entity_type = 'JOB' AND u.run_id <> 'NONE'
) s
GROUP BY s.workspace_id, s.job_id, s.run_id
